"""`CallTable`: calls of functions one after the other, without Python between them."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from daedal.native.cache import ObjectCache
from daedal.native.codegen import LoadedCode, compile_text, load_object

__all__ = ["CallTable"]

_SYMBOL = "daedal_calls"
_FIELDS = ("function", "buffers", "begin", "end")
_TEXT = f"""define i64 @{_SYMBOL}(ptr %table, i64 %count) {{
entry:
  br label %call
call:
  %number = phi i64 [ 0, %entry ], [ %next, %done ]
  %first = mul nuw nsw i64 %number, {len(_FIELDS)}
  %row = getelementptr i64, ptr %table, i64 %first
  %function = load ptr, ptr %row, align 8
  %place1 = getelementptr i64, ptr %row, i64 1
  %buffers = load ptr, ptr %place1, align 8
  %place2 = getelementptr i64, ptr %row, i64 2
  %begin = load i64, ptr %place2, align 8
  %place3 = getelementptr i64, ptr %row, i64 3
  %end = load i64, ptr %place3, align 8
  %status = call i64 %function(ptr %buffers, i64 %begin, i64 %end)
  %next = add nuw nsw i64 %number, 1
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %leave, label %done
done:
  %more = icmp ult i64 %next, %count
  br i1 %more, label %call, label %leave
leave:
  %result = phi i64 [ %next, %call ], [ 0, %done ]
  ret i64 %result
}}
"""


@lru_cache(maxsize=1)
def _code() -> LoadedCode:
    return load_object(ObjectCache().get(_TEXT, lambda: compile_text(_TEXT)), _SYMBOL)


class CallTable:
    """Functions of kernels with their arguments: address, buffers, first and last iteration.

    Parameters
    ----------
    rows : at least one; what the addresses point to must live as long as this object.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        assert rows, "a table has at least one call"
        self._count = len(rows)
        self._table = (ctypes.c_int64 * (len(_FIELDS) * len(rows)))(
            *(value for row in rows for value in row)
        )
        self._code = _code()
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self._function = function(self._code.address)
        self._address = ctypes.addressof(self._table)

    def run(self) -> int | None:
        """Run all; the number of the call that failed, after which none runs, or None."""
        failed = int(self._function(self._address, self._count))
        return failed - 1 if failed else None
