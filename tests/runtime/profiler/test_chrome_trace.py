"""The trace file: what Perfetto needs of each event, and lanes in which nothing overlaps."""

import itertools
import json
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.table import Unit
from daedal.runtime.bound import WAITS
from daedal.runtime.profiler.chrome_trace import chrome_trace
from tests.support.profiles import random_launch

Lanes = dict[str, dict[str, list[dict[str, Any]]]]


def lanes(trace: dict[str, Any]) -> Lanes:
    """Slices by name of process and thread; every slice must have both names."""
    groups: dict[int, str] = {}
    names: dict[tuple[int, int], str] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            groups[event["pid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    assert len(set(names.values())) == len(names)
    found: Lanes = {name: defaultdict(list) for name in groups.values()}
    for event in trace["traceEvents"]:
        if event["ph"] != "M":
            assert event["ph"] == "X" and event["name"]
            found[groups[event["pid"]]][names[event["pid"], event["tid"]]].append(event)
    return found


@given(seed=st.integers(0, 2**32 - 1))
def test_lanes(seed: int) -> None:
    profile = random_launch(np.random.default_rng(seed)).profile()
    assert profile.timeline is not None
    trace = json.loads(json.dumps(chrome_trace(profile)))
    found = lanes(trace)
    assert set(found) == {"layers", "units", "token waits", "memory channels"}
    for group in found.values():
        for slices in group.values():
            spans = sorted((item["ts"], item["ts"] + item["dur"]) for item in slices)
            assert all(begin < end for begin, end in spans)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
            assert spans[-1][1] <= profile.timeline.cycles
    names = {layer.layer.name for layer in profile.layers}
    assert [item["name"] for item in found["layers"]["layer"]] == [
        layer.layer.name for layer in profile.layers
    ]
    for group in ("units", "token waits", "memory channels"):
        assert {x["args"]["layer"] for slices in found[group].values() for x in slices} <= names
    assert set(found["memory channels"]) <= {"read (LOAD)", "write (STORE)"}


@given(seed=st.integers(0, 2**32 - 1))
def test_no_cycle_of_work_or_waiting_is_lost(seed: int) -> None:
    profile = random_launch(np.random.default_rng(seed)).profile()
    assert profile.timeline is not None
    found = lanes(chrome_trace(profile))
    for unit in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE):
        lane = profile.timeline.lane(unit)
        working = sum(item.end - item.work_begin for item in lane)
        assert sum(item["dur"] for item in found["units"].get(unit.name, [])) == working
        for kind, giver in WAITS.items():
            slices = found["token waits"].get(f"{unit.name} waits for {giver.name}", [])
            waited = sum(item.counters.classes[kind] for item in lane)
            assert sum(item["dur"] for item in slices) == waited
    for unit, channel in ((Unit.LOAD, "read (LOAD)"), (Unit.STORE, "write (STORE)")):
        words = sum(item.counters.work for item in profile.timeline.lane(unit))
        slices = found["memory channels"].get(channel, [])
        assert sum(item["args"]["words"] for item in slices) == words


def test_what_was_measured_is_said() -> None:
    profile = random_launch(np.random.default_rng(3)).profile("digits")
    other = chrome_trace(profile)["otherData"]
    assert other["profile"] == "digits" and other["memory"] == "ddr"
    assert other["cycles"] == profile.cycles
