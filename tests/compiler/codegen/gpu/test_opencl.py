"""SPIR-V modules on an OpenCL runtime compute what the emulator does."""

import numpy as np
import pytest

from daedal.compiler.codegen.gpu.spirv import spirv_module
from daedal.compiler.tir.dtype import numpy_dtype
from tests.support.emulated import launched
from tests.support.gpu_formulas import KERNELS
from tests.support.gpu_texts import function_of, text_of
from tests.support.opencl import OpenCl, find_opencl
from tests.support.tensor_programs import inputs_of

NAMES = [name for name in KERNELS if "attention of 16 bits" not in name]


@pytest.fixture(scope="module")
def device() -> OpenCl:
    found = find_opencl()
    if found is None:
        pytest.skip(
            "needs a runtime of OpenCL for SPIR-V (pip install intel-opencl-rt intel-cmplr-lib-rt)"
        )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_module_computes_what_the_emulator_does(name: str, device: OpenCl) -> None:
    kernel, func = KERNELS[name](), function_of(name, has_warps=False)
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = launched(
        text_of(name, has_warps=False, checked=True), func, inputs, seed=0
    ).values()
    text = text_of(name, has_warps=False)
    given = [
        np.ascontiguousarray(inputs[item.name], numpy_dtype(item.dtype)).reshape(item.shape)
        if item.name in inputs
        else np.full(wanted.shape, 77, wanted.dtype)
        for item in func.params
    ]
    results = device.launch(spirv_module(text), "k", text.grid, text.block, given)
    np.testing.assert_array_equal(results[-1], wanted)
