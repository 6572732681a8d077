"""The pause of the garbage collector: it covers the call, and ends with it."""

import gc

import pytest

from daedal.compiler.collection import MANY, without_collection


@without_collection
def is_enabled(fails: bool = False) -> bool:
    """Whether the collector is on, seen from within."""
    if fails:
        raise ValueError
    return gc.isenabled()


def test_the_collector_is_off_during_the_call_and_on_after_it() -> None:
    assert gc.isenabled()
    assert not is_enabled()
    assert gc.isenabled()
    with pytest.raises(ValueError):
        is_enabled(fails=True)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        assert not is_enabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_call_leaves_is_not_scanned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists that live on: they are not young when the next collection begins."""
    young: list[int] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            young.append(len(gc.get_objects(generation=0)))

    @without_collection
    def made() -> list[list[int]]:
        return [[number] for number in range(2 * MANY)]

    monkeypatch.setattr(gc, "get_freeze_count", int)  # tests/conftest.py has frozen what it imports
    gc.callbacks.append(note)
    try:
        lists = made()
        others = [[number] for number in range(2_000)]
    finally:
        gc.callbacks.remove(note)
        gc.freeze()
    assert len(lists) + len(others) == 2 * MANY + 2_000
    assert young
    assert max(young) < MANY


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    lists = without_collection(lambda: [[number] for number in range(2 * MANY)])()
    assert gc.get_freeze_count() >= 0.9 * count > 0
    assert len(lists) == 2 * MANY
