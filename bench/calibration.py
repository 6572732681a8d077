"""The calibration kernel: a fixed loop that measures the processor's speed, and disturbances.

It measures the clock. Each of its `STEPS` steps is a 64-bit multiplication and an addition that
wait for the step before: 3 cycles and 1 on x86-64 processors of the last fifteen years, whatever
vectors they have. The machine code is made for the oldest x86-64, so it is the same everywhere,
and it touches no memory. Relative to it, a speed is in cycles: what a bar can be about.

Source: Agner Fog, Instruction tables: IMUL r64 and ADD, from Nehalem and Zen on.
"""

import ctypes
import time
from dataclasses import dataclass
from functools import lru_cache

from daedal.native.codegen import LoadedCode, compile_text, load_object
from daedal.native.cpu import Cpu, host_cpu

__all__ = ["STEPS", "Calibration", "calibrate"]

STEPS = 25_000_000
"""A hundred million cycles."""

_SYMBOL = "calibration"
# The factor and the addend are parameters, so that steps cannot be joined.
_TEXT = f"""
define i64 @{_SYMBOL}(i64 %steps, i64 %factor, i64 %addend) {{
entry:
  br label %step
step:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %x = phi i64 [ 1, %entry ], [ %sum, %step ]
  %product = mul i64 %x, %factor
  %sum = add i64 %product, %addend
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %steps
  br i1 %more, label %step, label %done
done:
  ret i64 %sum
}}
"""
_FACTOR, _ADDEND = 1664525, 1013904223
"""Source: Press et al., Numerical Recipes, 2nd edition, section 7.1."""


@dataclass(frozen=True)
class Calibration:
    """Seconds of the kernel, by both clocks."""

    wall_seconds: float
    processor_seconds: float


def calibrate() -> Calibration:
    """Run the kernel once."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(_code().address)
    wall, processor = time.perf_counter(), time.process_time()
    function(STEPS, _FACTOR, _ADDEND)
    return Calibration(time.perf_counter() - wall, time.process_time() - processor)


@lru_cache(maxsize=1)
def _code() -> LoadedCode:
    oldest = Cpu(host_cpu().triple, "x86-64", frozenset())
    return load_object(compile_text(_TEXT, oldest), _SYMBOL)
