"""`time_calls`: calls of functions one after the other, and the nanoseconds that each takes.

The clock is read between the calls in machine code: Python would add a microsecond to each, and
evict what the next one reads.
"""

import ctypes
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from daedal.native.cache import ObjectCache
from daedal.native.call_table import KernelCall
from daedal.native.codegen import LoadedCode, compile_text, load_object

__all__ = ["time_calls"]

_SYMBOL = "daedal_timed_calls"
_FIELDS = 3
_TEXT = f"""declare i32 @clock_gettime(i32, ptr)

define i64 @{_SYMBOL}(ptr %table, i64 %count, ptr %times) {{
entry:
  %begun = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 1)}, ptr %times)
  br label %call
call:
  %number = phi i64 [ 0, %entry ], [ %next, %done ]
  %next = add nuw nsw i64 %number, 1
  %first = mul nuw nsw i64 %number, {_FIELDS}
  %row = getelementptr i64, ptr %table, i64 %first
  %function = load ptr, ptr %row, align 8
  %place1 = getelementptr i64, ptr %row, i64 1
  %buffers = load ptr, ptr %place1, align 8
  %place2 = getelementptr i64, ptr %row, i64 2
  %iterations = load i64, ptr %place2, align 8
  %status = call i64 %function(ptr %buffers, i64 0, i64 %iterations)
  %fails = icmp ne i64 %status, 0
  br i1 %fails, label %leave, label %done
done:
  %time = getelementptr [2 x i64], ptr %times, i64 %next
  %read = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 1)}, ptr %time)
  %more = icmp ult i64 %next, %count
  br i1 %more, label %call, label %leave
leave:
  %result = phi i64 [ %next, %call ], [ 0, %done ]
  ret i64 %result
}}
"""
"""The times are a C `struct timespec` each, of two 64-bit words."""


@lru_cache(maxsize=1)
def _code() -> LoadedCode:
    return load_object(ObjectCache().get(_TEXT, lambda: compile_text(_TEXT)), _SYMBOL)


def time_calls(calls: Sequence[KernelCall]) -> list[int] | int:
    """Nanoseconds of each call, all made by this thread; or the number of one that failed, after
    which none was made."""
    table = (ctypes.c_int64 * (_FIELDS * len(calls)))(
        *(value for call in calls for value in (call.function, call.buffers, call.iterations))
    )
    times = (ctypes.c_int64 * (2 * (len(calls) + 1)))()
    code = _code()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        code.address
    )
    failed = function(ctypes.addressof(table), len(calls), ctypes.addressof(times))
    if failed:
        return int(failed) - 1
    ends = [1_000_000_000 * s + ns for s, ns in zip(times[::2], times[1::2], strict=True)]
    return [end - begin for begin, end in pairwise(ends)]
