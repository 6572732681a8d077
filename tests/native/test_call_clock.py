"""Calls one after the other, and the time of each."""

import ctypes
import time

import pytest

from daedal.native.call_clock import time_calls
from daedal.native.call_table import KernelCall

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
MILLISECONDS = [0, 20, 0, 5]


@pytest.mark.parametrize("failing", [None, 0, 2])
def test_each_call_has_its_time(failing: int | None) -> None:
    """Made once each, in order, up to one that fails; the argument is how long it sleeps."""
    seen: list[tuple[int | None, int, int]] = []

    def function(buffers: int | None, begin: int, end: int) -> int:
        seen.append((buffers or 0, begin, end))
        time.sleep(1e-3 * (buffers or 0))
        return int(len(seen) - 1 == failing)

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    calls = [KernelCall(address, item, 3 + item) for item in MILLISECONDS]
    found = time_calls(calls)
    wanted = [(item, 0, 3 + item) for item in MILLISECONDS]
    if failing is not None:
        assert found == failing and seen == wanted[: failing + 1]
        return
    assert seen == wanted and isinstance(found, list)
    assert len(found) == len(calls)
    for taken, item in zip(found, MILLISECONDS, strict=True):
        assert taken >= 1_000_000 * item
