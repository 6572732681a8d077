"""What one core can do in registers: a loop of the best instruction of its level alone.

For float32, multiply-adds. For 8-bit integers, products in tile registers with AMX, of four bytes
with VNNI and what AArch64 has like it, else of pairs of int16, which are added to the sums by
themselves.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.native.codegen import compile_text, load_object
from daedal.native.levels import AMX_LEVEL, adds_quads, level_cpu

__all__ = ["PeakLoop", "byte_loop", "real_loop"]

SUMS = 12
"""Independent sums of a loop of vectors."""
TILE_SUMS = 4
"""Of products of tiles."""
BYTES = 1 << 14
"""Of the memory from which factors are loaded, and where sums are stored."""


@dataclass(frozen=True)
class PeakLoop:
    """A loop that multiplies in registers.

    Attributes
    ----------
    text : in LLVM's form; ``peak(ptr from, ptr to, i64 count)``.
    operations : of an iteration, products and sums.
    dtype : of the factors, which are all 1.
    """

    text: str
    operations: int
    dtype: str

    def compiled(self, level: str) -> Callable[[int], npt.NDArray[Any]]:
        """What runs so many iterations and gives memory, where the last sums begin, in code for
        `level`."""
        code = load_object(compile_text(self.text, level_cpu(level)), "peak")
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        memory = np.ones(BYTES // np.dtype(self.dtype).itemsize, self.dtype)

        def run(count: int) -> npt.NDArray[Any]:  # which keeps the code loaded
            function = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(code.address)
            function(memory.ctypes.data, memory.ctypes.data, count)
            return memory

        return run


def byte_loop(level: str) -> PeakLoop:
    """Products of 8-bit integers, of a level of processors."""
    if level == AMX_LEVEL:
        return PeakLoop(_tiles(), 2 * TILE_SUMS * 16 * 16 * 64, "uint8")
    lanes, quads = _lanes(level), adds_quads(level)
    return PeakLoop(_integers(lanes, quads=quads), 2 * SUMS * lanes * (4 if quads else 2), "uint8")


def real_loop(level: str) -> PeakLoop:
    """Multiply-adds of float32, of a level of processors."""
    lanes = _lanes(level)
    return PeakLoop(_reals(lanes), 2 * SUMS * lanes, "float32")


def _lanes(level: str) -> int:
    return 16 if level.startswith("x86-64-v4") else 8


def _tiles() -> str:
    shapes = ".".join(["16x64"] * (TILE_SUMS + 2))
    numbers = range(TILE_SUMS)
    a, b = TILE_SUMS, TILE_SUMS + 1
    names = [f"tile_multiply.t{n}.t{a}.t{b}.16x16x16" for n in numbers]
    zeros = [f"tile_zero.t{n}" for n in numbers]
    ends = [*(f"tile_store.t{n}.16x64" for n in numbers)]
    given = [f"tile_load.t{n}.16x64" for n in (a, b)]
    plain = [f"tile_begin.{shapes}", *zeros, *names, "tile_end"]
    declared = "".join(f"declare void @{name}(ptr)\n" for name in plain)
    declared += "".join(f"declare void @{name}(ptr, ptr, i64)\n" for name in (*given, *ends))

    def calls(found: list[str], more: str = "") -> str:
        return "".join(f"  call void @{name}(ptr %t{more})\n" for name in found)

    return f"""{declared}
define i64 @peak(ptr %from, ptr %to, i64 %count) {{
entry:
  %t = alloca [8 x [1024 x i8]], align 64
{calls([plain[0], *zeros])}{calls(given, ", ptr %from, i64 64")}  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
{calls(names)}  %n = add i64 %i, 1
  %more = icmp ult i64 %n, %count
  br i1 %more, label %loop, label %done
done:
{calls(ends, ", ptr %to, i64 64")}{calls(["tile_end"])}  ret i64 0
}}
"""


def _integers(lanes: int, *, quads: bool) -> str:
    sums = f"<{lanes} x i32>"
    factors = f"<{4 * lanes} x i8>" if quads else f"<{2 * lanes} x i16>"
    name = f"@dot_{'quads' if quads else 'pairs'}.v{lanes}"
    head = f"{sums}, " if quads else ""
    more, body = [], ""
    for n in range(SUMS):
        operands = f"{factors} %a, {factors} %b"
        if quads:
            body += f"  %t{n} = call {sums} {name}({sums} %s{n}, {operands})\n"
        else:  # one product for each sum, or LLVM would compute it once
            more.append(f"%x{n} = phi {factors} [ %a, %entry ], [ %y{n}, %loop ]")
            body += f"  %a{n} = call {sums} {name}({factors} %x{n}, {factors} %b)\n"
            body += f"  %t{n} = add {sums} %s{n}, %a{n}\n"
            body += f"  %y{n} = bitcast {sums} %t{n} to {factors}\n"
    declared = f"declare {sums} {name}({head}{factors}, {factors})\n"
    return declared + _vector_loop(factors, sums, more, body)


def _reals(lanes: int) -> str:
    kind, name = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    body = "".join(
        f"  %t{n} = call {kind} {name}({kind} %s{n}, {kind} %a, {kind} %b)\n" for n in range(SUMS)
    )
    declared = f"declare {kind} {name}({kind}, {kind}, {kind})\n"
    return declared + _vector_loop(kind, kind, (), body)


def _vector_loop(factors: str, sums: str, more: Sequence[str], body: str) -> str:
    """Factors %a and %b are loaded; `body` computes the sums %t0 and so on of %s0 and so on."""
    numbers = range(SUMS)
    phis = [f"%s{n} = phi {sums} [ zeroinitializer, %entry ], [ %t{n}, %loop ]" for n in numbers]
    stores = "".join(f"  store volatile {sums} %t{n}, ptr %to, align 4\n" for n in numbers)
    heads = "".join(f"  {phi}\n" for phi in (*phis, *more))
    return f"""
define i64 @peak(ptr %from, ptr %to, i64 %count) {{
entry:
  %a = load {factors}, ptr %from, align 1
  %b = load {factors}, ptr %to, align 1
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
{heads}{body}  %n = add i64 %i, 1
  %more = icmp ult i64 %n, %count
  br i1 %more, label %loop, label %done
done:
{stores}  ret i64 0
}}
"""
