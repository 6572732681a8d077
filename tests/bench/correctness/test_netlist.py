"""The netlist bench: what counts as a difference, and how a run is told."""

import sys
from dataclasses import replace

import pytest

from bench.correctness import netlist as bench
from daedal.isa.memory_model import PRESETS
from daedal.isa.profile import Profile
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.sim.rtl.launch import Outcome

TINY = load_variant("tiny")
PROFILE = Profile(device="rtl", cycles=100, wall_seconds=1.0)
GOOD = Outcome(
    profile=PROFILE, error=ErrorCode.NONE, unit=Unit.FETCH, instruction=0, memory=b"abcd"
)


def test_wall_clock_alone_may_differ() -> None:
    other = replace(GOOD, profile=replace(PROFILE, wall_seconds=2.0))
    assert bench.difference(GOOD, other, b"abcd") == ""


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (replace(GOOD, memory=b"abed"), "memory differs from byte 0x2 on"),
        (replace(GOOD, profile=replace(PROFILE, cycles=101)), "101 cycles, and 100 on the RTL"),
        (replace(GOOD, profile=replace(PROFILE, beats_read=1)), "counters, marks or errors"),
        (replace(GOOD, error=ErrorCode.WATCHDOG), "counters, marks or errors"),
    ],
)
def test_everything_else_is_told(found: Outcome, message: str) -> None:
    assert bench.difference(found, GOOD, b"abcd") == message


def test_random_programs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program on both devices; those that differ are named by their seeds."""

    class Fake:
        def __init__(self, spoiled: set[int]) -> None:
            self.spoiled = spoiled

        def launch_each(self, launches):
            return [
                replace(
                    GOOD,
                    memory=launch.memory,
                    profile=replace(PROFILE, cycles=100 + (number in self.spoiled)),
                )
                for number, launch in enumerate(launches)
            ]

    monkeypatch.setattr(
        bench, "expected_memories", lambda launches: [launch.memory for launch in launches]
    )
    monkeypatch.setattr(bench, "CHUNK", 4)
    record = bench.run_programs(TINY, Fake({3}), Fake(set()), range(20, 26), PRESETS["ddr"])
    assert record["count"] == 6
    assert record["passed"] == 5
    assert record["mismatches"] == ["seed 23: 101 cycles, and 100 on the RTL"]
    assert record["cycles"] == 601
    assert bench.line_of(TINY, "programs", record) == (
        "tiny, netlist, programs: 5 of 6 as on functional and RTL, 601 cycles at 100 per second; "
        "seed 23: 101 cycles, and 100 on the RTL"
    )


def test_a_variant_that_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["netlist.py", "--variant", "absent"])
    assert bench.main() == 2
    assert capsys.readouterr().err.startswith("bench/correctness/netlist.py: ")
