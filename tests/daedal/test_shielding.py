"""Signals of the terminal and processes that are started: who gets them, and when."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from daedal.shielding import shielded

BLOCKED = """
import signal
print(sorted(int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
"""


@pytest.fixture
def arrived() -> Iterator[list[int]]:
    """What the handler of SIGHUP was called with."""
    found: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _frame: found.append(number))
    yield found
    signal.signal(signal.SIGHUP, before)


def blocked() -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_process_started_within_never_gets_them() -> None:
    before = blocked()
    with shielded():
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", BLOCKED], capture_output=True, text=True, check=True
        )
    assert done.stdout == f"[{int(signal.SIGHUP)}, {int(signal.SIGINT)}]\n"
    assert blocked() == before


def test_this_process_gets_them_at_the_end(arrived: list[int]) -> None:
    with shielded():
        os.kill(os.getpid(), signal.SIGHUP)
        assert arrived == []
    # Another thread of this process may be the one that gets it, a little later.
    end = monotonic() + 10
    while not arrived and monotonic() < end:
        sleep(0.001)
    assert arrived == [signal.SIGHUP]


def test_an_interruption_is_raised_at_the_end() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = []
    try:
        with pytest.raises(KeyboardInterrupt), shielded():
            signal.raise_signal(signal.SIGINT)
            ended.append("the block")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["the block"]


def test_what_the_block_raises_comes_out(arrived: list[int]) -> None:
    before = blocked()
    with pytest.raises(ValueError, match="mine"), shielded():
        raise ValueError("mine")
    assert blocked() == before and arrived == []
