"""Calls of functions one after the other."""

import ctypes

import pytest

from daedal.native.call_table import CallTable

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.mark.parametrize("failing", [None, 0, 2, 4])
def test_calls_run_in_order_up_to_the_one_that_fails(failing: int | None) -> None:
    seen: list[tuple[int, int, int]] = []

    def function(buffers: int, begin: int, end: int) -> int:
        seen.append((buffers, begin, end))
        return int(len(seen) - 1 == failing)

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    rows = [(1000 + number, number, 7 * number) for number in range(5)]
    table = CallTable([(address, *row) for row in rows])
    assert table.run() == failing
    assert seen == (rows if failing is None else rows[: failing + 1])
    seen.clear()
    assert table.run() == failing
