"""SIGTERM ends a command wherever it arrives, in callbacks whose exceptions Python drops, too."""

import ctypes
import gc
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable

import pytest

from daedal.commands.signals import Ended, signals_raise

PATIENCE_SECONDS = 60.0


def end(*_given: object) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.01)  # the handler runs here


class Ending:
    def __del__(self) -> None:
        end()


class Watched:
    pass


def in_del() -> None:
    Ending()


def in_a_weak_reference() -> None:
    watched = Watched()
    reference = weakref.ref(watched, end)
    del watched
    assert reference() is None


def in_the_garbage_collector() -> None:
    gc.callbacks.append(end)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(end)


def in_a_callback_of_c() -> None:
    ctypes.CFUNCTYPE(None)(end)()


@pytest.mark.parametrize(
    "happens", [end, in_del, in_a_weak_reference, in_the_garbage_collector, in_a_callback_of_c]
)
def test_a_signal_ends_the_block(happens: Callable[[], None]) -> None:
    hook = sys.unraisablehook
    with pytest.raises(Ended) as caught, signals_raise():
        happens()
        time.sleep(PATIENCE_SECONDS)
        pytest.fail("the signal was dropped")
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and sys.unraisablehook is hook


def test_an_interrupt_in_a_callback_is_sent_again() -> None:
    def interrupt(*_given: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), signals_raise():
            watched = Watched()
            weakref.finalize(watched, interrupt)
            del watched
            time.sleep(PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_exceptions_that_are_dropped_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(str(dropped.exc_value)))

    def fail(*_given: object) -> None:
        raise ValueError("a bug")

    with signals_raise():
        watched = Watched()
        reference = weakref.ref(watched, fail)
        del watched
        assert reference() is None
    assert told == ["a bug"]
