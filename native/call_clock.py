"""`time_calls`: calls of functions one after the other, and the nanoseconds that each takes.

A table of calls has a call of the clock before each of them and after the last one. Between them is
no Python, which would add a microsecond to each and evict what the next one reads.
"""

import ctypes
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from daedal.native.cache import ObjectCache
from daedal.native.call_table import CallTable, KernelCall
from daedal.native.codegen import LoadedCode, compile_text, load_object

__all__ = ["time_calls"]

_SYMBOL = "daedal_clock"
_TEXT = f"""declare i32 @clock_gettime(i32, ptr)

define i64 @{_SYMBOL}(ptr %time, i64 %begin, i64 %end) {{
  %status = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %result = sext i32 %status to i64
  ret i64 %result
}}
"""
"""Stores a C `struct timespec` of two 64-bit words."""


@lru_cache(maxsize=1)
def _clock() -> LoadedCode:
    return load_object(ObjectCache().get(_TEXT, lambda: compile_text(_TEXT)), _SYMBOL)


def time_calls(calls: Sequence[KernelCall]) -> list[int] | int:
    """Nanoseconds of each call, all made by this thread; or the number of one that failed, after
    which none was made."""
    code, times = _clock(), (ctypes.c_int64 * (2 * (len(calls) + 1)))()
    places = range(ctypes.addressof(times), ctypes.addressof(times) + ctypes.sizeof(times), 16)
    first, *clocks = (KernelCall(code.address, place, 1) for place in places)
    table = [first, *(item for pair in zip(calls, clocks, strict=True) for item in pair)]
    failed = CallTable(table).run()
    if failed is not None:
        return failed // 2
    ends = [1_000_000_000 * s + ns for s, ns in zip(times[::2], times[1::2], strict=True)]
    return [end - begin for begin, end in pairwise(ends)]
