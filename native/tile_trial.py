"""`tile_problem`: whether this process may use tile registers (AMX), and they compute what they
should.

Linux gives tile registers to processes that ask for them; that is asked once. Code for them was not
run on a processor that has them when it was written, so small products are tried before any kernel
runs: first in a child, which may end by a signal, then in this process, with the result compared.
That a child succeeded is kept on disk, for the same processor, system and code. Without success,
levels without AMX run. Source: Linux, Documentation/arch/x86/xstate.rst; arch/x86/include/uapi/asm/
prctl.h.
"""

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from daedal.native.bodies.tile_products import TILE_FEATURES
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text, load_object
from daedal.native.cpu import Cpu, host_cpu, model_name
from daedal.native.python_child import python_command, python_environment

__all__ = ["may_use_tiles", "tile_problem", "tile_trial"]

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""The system call of x86-64, ARCH_REQ_XCOMP_PERM, and the number of the tile registers' state."""
_SECONDS = 60
_SUCCESS = b"tile registers compute their products"

_ROWS, _COLUMNS, _TERMS = 29, 16, 25
_TEXT = """declare void @tile_begin.16x64.13x64.16x64.16x36.13x64.13x36.16x64.9x64(ptr)
declare void @tile_zero.t0(ptr)
declare void @tile_zero.t1(ptr)
declare void @tile_load.t2.16x64(ptr, ptr, i64)
declare void @tile_load.t3.16x36(ptr, ptr, i64)
declare void @tile_load.t4.13x64(ptr, ptr, i64)
declare void @tile_load.t5.13x36(ptr, ptr, i64)
declare void @tile_load.t6.16x64(ptr, ptr, i64)
declare void @tile_load.t7.9x64(ptr, ptr, i64)
declare void @tile_multiply.t0.t2.t6.16x16x16(ptr)
declare void @tile_multiply.t0.t3.t7.16x16x9(ptr)
declare void @tile_multiply.t1.t4.t6.13x16x16(ptr)
declare void @tile_multiply.t1.t5.t7.13x16x9(ptr)
declare void @tile_store.t0.16x64(ptr, ptr, i64)
declare void @tile_store.t1.13x64(ptr, ptr, i64)
declare void @tile_end(ptr)

define void @trial(ptr %a, ptr %b, ptr %c) {
  %t = alloca [8 x [1024 x i8]], align 64
  call void @tile_begin.16x64.13x64.16x64.16x36.13x64.13x36.16x64.9x64(ptr %t)
  call void @tile_zero.t0(ptr %t)
  call void @tile_zero.t1(ptr %t)
  %a1 = getelementptr i8, ptr %a, i64 64
  %a2 = getelementptr i8, ptr %a, i64 1600
  %a3 = getelementptr i8, ptr %a, i64 1664
  %b1 = getelementptr i8, ptr %b, i64 1024
  %c1 = getelementptr i8, ptr %c, i64 1024
  call void @tile_load.t2.16x64(ptr %t, ptr %a, i64 100)
  call void @tile_load.t3.16x36(ptr %t, ptr %a1, i64 100)
  call void @tile_load.t4.13x64(ptr %t, ptr %a2, i64 100)
  call void @tile_load.t5.13x36(ptr %t, ptr %a3, i64 100)
  call void @tile_load.t6.16x64(ptr %t, ptr %b, i64 64)
  call void @tile_load.t7.9x64(ptr %t, ptr %b1, i64 64)
  call void @tile_multiply.t0.t2.t6.16x16x16(ptr %t)
  call void @tile_multiply.t0.t3.t7.16x16x9(ptr %t)
  call void @tile_multiply.t1.t4.t6.13x16x16(ptr %t)
  call void @tile_multiply.t1.t5.t7.13x16x9(ptr %t)
  call void @tile_store.t0.16x64(ptr %t, ptr %c, i64 64)
  call void @tile_store.t1.13x64(ptr %t, ptr %c1, i64 64)
  call void @tile_end(ptr %t)
  ret void
}
"""
"""29 rows and 16 columns of sums of 25 terms, in tiles of 16 and 13 rows, and of 16 and 9 terms."""


@lru_cache(maxsize=1)
def tile_problem() -> str | None:
    """Why tile registers are not used, in words; None where they are. Asked once."""
    return problem_of(host_cpu(), may_use_tiles, _child_succeeds, tile_trial)


def problem_of(
    cpu: Cpu,
    permitted: Callable[[], bool],
    child_succeeds: Callable[[], bool],
    trial: Callable[[], bool],
) -> str | None:
    """The same, of a processor and what the system and the trials say, each asked where those
    before it allow."""
    if not cpu.triple.startswith("x86_64") or not cpu.features >= TILE_FEATURES:
        return "the processor has no AMX for 8-bit integers, or the system does not support it"
    if not permitted():
        return "AMX is not used: the system does not give tile registers to this process"
    if not child_succeeds():
        return "AMX is not used: a trial of its instructions failed in another process"
    if not trial():
        return "AMX is not used: it did not compute the right products"
    return None


def may_use_tiles() -> bool:
    """Ask Linux for tile registers for all threads of this process. Other systems give none."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    given = (ctypes.c_long(number) for number in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    return bool(call(*given) == 0)


def tile_trial(cpu: Cpu | None = None) -> bool:
    """Whether products of the largest and of smaller numbers come out right here, in code for `cpu`
    (this one by default)."""
    cpu = cpu or host_cpu()
    text = f"{cpu.name} {cpu.feature_text}\n{_TEXT}"
    code = load_object(ObjectCache().get(text, lambda: compile_text(_TEXT, cpu)), "trial")
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (_ROWS, 4 * _TERMS), dtype=np.uint8)
    b = rng.integers(-128, 128, (_TERMS, _COLUMNS, 4), dtype=np.int8)
    a[3], b[:, 5] = 255, -128
    factors = b.transpose(0, 2, 1).reshape(4 * _TERMS, _COLUMNS)
    c = np.full((_ROWS, _COLUMNS), -1, np.int32)
    function(*(item.ctypes.data for item in (a, b, c)))
    return bool(np.array_equal(c, a.astype(np.int32) @ factors.astype(np.int32)))


def _child_succeeds() -> bool:
    """Whether a child computed the products, now or before."""
    key = f"trial of tile registers\n{model_name()}\n{platform.release()}\n{_TEXT}"
    cache = ObjectCache()
    if cache.find(key) == _SUCCESS:
        return True
    if not sys.executable:  # embedded in another program: no child can be started
        return False
    try:
        done = subprocess.run(
            python_command("-m", __name__),
            env=python_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    succeeded = done.returncode == 0 and done.stdout == _SUCCESS
    if succeeded:
        cache.put(key, _SUCCESS)
    return succeeded


def main() -> None:
    """The child."""
    if may_use_tiles() and tile_trial():
        sys.stdout.buffer.write(_SUCCESS)


if __name__ == "__main__":
    main()
