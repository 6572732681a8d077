"""The switch between fibers, and kernels of the emulator as plain Python."""

import numpy as np
import pytest

from daedal.common.errors import UserError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.fibers import fiber_text
from tests.support.gpu_kernels import Kernel, run
from tests.support.gpu_text import place


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_both_processors_have_a_switch(triple: str) -> None:
    text = fiber_text(triple)
    assert text.count("naked") == 2
    assert ("stp x29, x30" in text) == triple.startswith("aarch64")


def test_other_processors_have_none() -> None:
    with pytest.raises(UserError, match="needs an x86-64 or AArch64 processor, not riscv64-linux"):
        fiber_text("riscv64-linux")


@pytest.mark.parametrize("seed", [None, 1])
def test_values_live_across_barriers(seed: int | None) -> None:
    """More integers and floats than there are registers, each used after two barriers."""
    count = 24
    body = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n" + place("in", "%a0", "%t", 8)
    body += "  %x = load double, ptr %in.g\n  %n = fptosi double %x to i64\n"
    for number in range(count):
        body += f"  %i{number} = mul i64 %n, {number + 3}\n"
        body += f"  %f{number} = fmul double %x, {number + 5}.0\n"
    body += "  call void @gpu.barrier(ptr %gpu, i32 0)\n  call void @gpu.barrier(ptr %gpu, i32 1)\n"
    body += "  %s0 = fadd double 0.0, 0.0\n"
    for number in range(count):
        body += f"  %w{number} = sitofp i64 %i{number} to double\n"
        body += f"  %p{number} = fadd double %w{number}, %f{number}\n"
        body += f"  %s{number + 1} = fadd double %s{number}, %p{number}\n"
    body += f"  store double %s{count}, ptr %in.g\n"
    given = np.arange(100, dtype=np.float64)
    (result,) = run(EmulatedGpu(seed=seed), Kernel(body, 1, (100, 1, 1)), [given])
    factor = sum(2 * number + 8 for number in range(count))
    np.testing.assert_array_equal(result, given * factor)
