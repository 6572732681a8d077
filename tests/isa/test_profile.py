"""Profiles of several launches: sums, and what only one launch keeps."""

from dataclasses import replace

from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import Unit


def counters(start: int) -> UnitCounters:
    return UnitCounters({kind: start + place for place, kind in enumerate(CLASSES)}, start)


def profile(start: int) -> Profile:
    units = {unit: counters(start * (number + 1)) for number, unit in enumerate(Unit)}
    marks = (MarkRecord(1, Unit.STORE, 2, 3, counters(0)),)
    return Profile("d", start, start + 1, start + 2, units, marks, start / 2)


def test_one_launch_stays_as_it_is() -> None:
    assert Profile.total([profile(10)]) == profile(10)


def test_several_launches_are_summed_without_their_marks() -> None:
    total = Profile.total([profile(10), profile(20)])
    assert (total.cycles, total.beats_read, total.beats_written) == (30, 32, 34)
    assert (total.device, total.marks, total.wall_seconds) == ("d", (), 15.0)
    for number, unit in enumerate(Unit):
        classes = {kind: 30 * (number + 1) + 2 * place for place, kind in enumerate(CLASSES)}
        assert total.units[unit] == UnitCounters(classes, 30 * (number + 1))
    untimed = replace(profile(20), cycles=None)
    assert Profile.total([profile(10), untimed]).cycles is None


def test_what_was_counted_since() -> None:
    later = counters(50).since(counters(20))
    assert later == UnitCounters(dict.fromkeys(CLASSES, 30), 30)
    assert later.cycles == 30 * len(CLASSES)


def test_it_prints_as_one_line() -> None:
    assert repr(Profile("functional")) == "<Profile of functional: cycles are not counted>"
    units = {unit: counters(99) for unit in (Unit.LOAD, Unit.GEMM)}
    shown = repr(replace(profile(2_000), units=units))
    busy = f"LOAD {100 * (99 + CLASSES.index(CycleClass.BUSY)) / 2_000:.0f} %"
    both = f"{busy}, {busy.replace('LOAD', 'GEMM')}"
    assert shown == f"<Profile of d: 2,000 cycles; busy: {both}; marks: 1>"
