"""Schedules for GPUs compute what the kernel's formulas say, in the interpreter."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower import lower
from tests.support.gpu_formulas import KERNELS
from tests.support.tensor_programs import inputs_of

TILED = {
    "product",
    "odd product",
    "few rows",
    "product of 8 bits",
    "batched",
    "convolution",
    "odd convolution",
    "deep convolution",
    "pointwise",
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_schedule_computes_what_the_formulas_say(name: str) -> None:
    kernel = KERNELS[name]()
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = run(te.create_prim_func(kernel.inputs, [kernel.result], "k"), inputs).values()
    (found,) = run(lower(gpu_kernel_function(kernel)), inputs).values()
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_are_in_shared_memory(name: str) -> None:
    text = kernel_text(gpu_kernel_function(KERNELS[name]()), "k")
    assert (text.shared_bytes > 0) == (name in TILED)
    assert ("@gpu.barrier" in text.text) == (name in TILED)
    assert text.shared_bytes <= 48 << 10
    assert np.prod(text.block) <= 1024
