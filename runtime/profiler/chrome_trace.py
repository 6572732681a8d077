"""`chrome_trace`: a timeline in the trace event format that Perfetto and chrome://tracing open.

Input: a `NetworkProfile` with a timeline. Output: the JSON object. A cycle is written as a
microsecond. Lanes (threads), in four groups (processes):

- layers: one lane, from each layer's store to the next one's;
- units: a lane each, a slice for each instruction while the unit is at work on it;
- token waits: a lane for each pair of units of which one waited for the other;
- memory channels: reads of LOAD and writes of STORE, a slice for each instruction that moved bus
  words, with their number; what FETCH reads and marks write is not recorded by instruction.

Slices of a lane never overlap.

Source: "Trace Event Format" (Google, 2016): complete events (X) and metadata (M).
"""

from collections.abc import Iterator
from typing import Any

from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.runtime.bound import WAITS
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.timeline import Interval, Timeline

__all__ = ["chrome_trace"]

_LAYERS, _UNITS, _WAITS, _MEMORY = range(1, 5)
_GROUPS = {_LAYERS: "layers", _UNITS: "units", _WAITS: "token waits", _MEMORY: "memory channels"}
_CHANNELS = {Unit.LOAD: "read (LOAD)", Unit.STORE: "write (STORE)"}

Event = dict[str, Any]


def chrome_trace(profile: NetworkProfile) -> dict[str, Any]:
    """The trace of `profile`, which must have a timeline."""
    timeline = profile.timeline
    assert timeline is not None, "a trace needs a timeline"
    names = {item.layer.tag: item.layer.name for item in profile.layers}
    slices = [
        *_layer_slices(timeline, names),
        *(event for unit in LAYER_UNITS for event in _unit_slices(timeline, unit, names)),
    ]
    lanes = {(event["pid"], event["tid"]): event.pop("lane") for event in slices}
    return {
        "traceEvents": [*_metadata(lanes), *slices],
        "displayTimeUnit": "ms",
        "otherData": {
            "unit": "1 microsecond stands for 1 cycle",
            "profile": profile.name,
            "variant": f"{profile.conditions.variant} ({profile.conditions.fingerprint})",
            "device": profile.conditions.device,
            "memory": profile.conditions.memory,
            "cycles": profile.cycles,
            "cycles_with_marks": timeline.cycles,
        },
    }


def _metadata(lanes: dict[tuple[int, int], str]) -> Iterator[Event]:
    for pid, name in _GROUPS.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for (pid, tid), name in sorted(lanes.items()):
        where = {"ph": "M", "pid": pid, "tid": tid}
        yield {**where, "name": "thread_name", "args": {"name": name}}
        yield {**where, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _slice(lane: tuple[int, int, str], name: str, span: tuple[int, int], args: Event) -> Event:
    pid, tid, title = lane
    begin, end = span
    place = {"ph": "X", "pid": pid, "tid": tid, "lane": title}
    return {**place, "name": name, "ts": begin, "dur": end - begin, "args": args}


def _layer_slices(timeline: Timeline, names: dict[int, str]) -> Iterator[Event]:
    for span in timeline.layer_spans():
        cycles = (span.begin, span.end)
        yield _slice((_LAYERS, 0, "layer"), names[span.tag], cycles, {"tag": span.tag})


def _unit_slices(timeline: Timeline, unit: Unit, names: dict[int, str]) -> Iterator[Event]:
    for item in timeline.lane(unit):
        layer = "" if item.tag is None else names[item.tag]
        about = {"layer": layer, "instruction": item.instruction}
        if item.work_begin < item.end:
            counts = {kind.name.lower(): item.counters.classes[kind] for kind in CLASSES}
            lane = (_UNITS, int(unit), unit.name)
            args = {**about, **counts, "work": item.counters.work}
            yield _slice(lane, item.label, (item.work_begin, item.end), args)
            if unit in _CHANNELS and item.counters.work:
                yield _channel_slice(item, about)
        for kind, begin, end in item.spans():
            if kind in WAITS:
                giver = WAITS[kind]
                number = len(LAYER_UNITS) * int(unit) + int(giver)
                title = f"{unit.name} waits for {giver.name}"
                yield _slice((_WAITS, number, title), f"for {giver.name}", (begin, end), about)


def _channel_slice(item: Interval, about: dict[str, Any]) -> Event:
    words = item.counters.work
    lane = (_MEMORY, int(item.unit), _CHANNELS[item.unit])
    share = words / (item.end - item.work_begin)
    args = {**about, "words": words, "share": share}
    return _slice(lane, f"{words} words", (item.work_begin, item.end), args)
