"""The pause of the garbage collector: it covers the call, and ends with it."""

import gc

import pytest

from daedal.compiler.collection import without_collection


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
