"""`RowCopies`: a call of a `CallTable` that copies rows of a tensor into those of a wider one."""

import ctypes
from functools import lru_cache

from daedal.native.cache import ObjectCache
from daedal.native.call_table import KernelCall
from daedal.native.codegen import LoadedCode, compile_text, load_object

__all__ = ["RowCopies"]

_SYMBOL = "daedal_copy_rows"
_TEXT = f"""declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i64 @{_SYMBOL}(ptr %given, i64 %begin, i64 %end) {{
entry:
  %source = load ptr, ptr %given, align 8
  %place1 = getelementptr i64, ptr %given, i64 1
  %target = load ptr, ptr %place1, align 8
  %place2 = getelementptr i64, ptr %given, i64 2
  %bytes = load i64, ptr %place2, align 8
  %place3 = getelementptr i64, ptr %given, i64 3
  %step = load i64, ptr %place3, align 8
  br label %look
look:
  %row = phi i64 [ %begin, %entry ], [ %next, %copy ]
  %some = icmp ult i64 %row, %end
  br i1 %some, label %copy, label %leave
copy:
  %from = mul i64 %row, %bytes
  %to = mul i64 %row, %step
  %first = getelementptr i8, ptr %source, i64 %from
  %second = getelementptr i8, ptr %target, i64 %to
  call void @llvm.memcpy.p0.p0.i64(ptr %second, ptr %first, i64 %bytes, i1 false)
  %next = add i64 %row, 1
  br label %look
leave:
  ret i64 0
}}
"""


@lru_cache(maxsize=1)
def _code() -> LoadedCode:
    return load_object(ObjectCache().get(_TEXT, lambda: compile_text(_TEXT)), _SYMBOL)


class RowCopies:
    """Copies `rows` rows of `row_bytes` each, which lie `step_bytes` apart at `target`.

    Parameters
    ----------
    source, target : addresses.
    splits : whether several threads share the rows.
    """

    def __init__(
        self, source: int, target: int, rows: int, row_bytes: int, step_bytes: int, splits: bool
    ) -> None:
        self._given = (ctypes.c_int64 * 4)(source, target, row_bytes, step_bytes)
        self._code = _code()
        given = ctypes.addressof(self._given)
        self.kernel = KernelCall(self._code.address, given, rows, splits)
