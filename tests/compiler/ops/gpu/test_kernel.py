"""Schedules for GPUs on the emulator compute what the kernel's formulas say, and race nowhere."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.cpu.kernel import kernel_function
from daedal.compiler.ops.cpu.reuse import NARROW
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.tir.interpreter import run
from tests.support.emulated import launched
from tests.support.gpu_formulas import KERNELS, product
from tests.support.gpu_texts import function_of, text_of
from tests.support.machine_code import run_machine_code
from tests.support.tensor_programs import inputs_of

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

STAGED_PRODUCTS = ("product", "low product", "narrow product", "deep product", "deep batched")
IN_SHARED_MEMORY = {
    "product",
    "odd product",
    "few rows",
    "product of 8 bits",
    "batched",
    "convolution",
    "odd convolution",
    "deep convolution",
    "blocked convolution",
    "pointwise",
    "row sums",
    "all elements",
    "maxima of maps",
    *(name for name in KERNELS if "attention" in name or "softmax" in name or "norm" in name),
    *(name for name in KERNELS if "tensor cores" in name),
}
STAGED = {
    *(f"{name} of {bits} bits in tensor cores" for bits in (8, 16) for name in STAGED_PRODUCTS),
    *(f"{name} of 16 bits in tensor cores" for name in ("odd product", "batched")),
    *(name for name in KERNELS if "attention of 16 bits" in name),
    "product of bfloat16 in tensor cores",
    "blocked convolution",
}
"""Rows of at least one operand are whole words, and there is more than one step."""
SEEDS = (None, 0, 1, 2, 3)


@pytest.mark.parametrize("name", KERNELS)
def test_a_schedule_computes_what_the_formulas_say(name: str) -> None:
    kernel = KERNELS[name]()
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func, text = function_of(name), text_of(name, checked=True)
    rounding = 1e-3 if wanted.dtype == np.float16 else 8e-3 if name.endswith("in bfloat16") else 0
    for seed in SEEDS:
        (found,) = launched(text, func, inputs, seed).values()
        error = rounding * np.abs(wanted).max() or 1e-5
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=error)


def _names() -> Iterator[object]:
    """As parameters: the interpreter takes seconds for the tiles of many kernels."""
    quick = (
        "product",
        "few rows",
        "product of 8 bits",
        "depthwise",
        "maxima of maps",
        "transposed",
    )
    for name in KERNELS:
        yield name if name in quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", list(_names()))
def test_the_interpreter_computes_the_same(name: str) -> None:
    """As the formulas: loops of threads one after the other."""
    kernel = KERNELS[name]()
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    (found,) = run(function_of(name), inputs).values()
    rounding = 1e-3 if wanted.dtype == np.float16 else 8e-3 if name.endswith("in bfloat16") else 0
    error = rounding * np.abs(wanted).max() or 1e-5
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=error)


@pytest.mark.parametrize("name", [name for name in KERNELS if "attention" not in name])
def test_a_processor_computes_the_same(name: str) -> None:
    """By the schedule for processors of the same kernel; attention is several of theirs."""
    kernel = KERNELS[name]()
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func = kernel_function(kernel, (), NARROW).func
    (found,) = run_machine_code(func, inputs).values()
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_are_in_shared_memory(name: str) -> None:
    text = text_of(name)
    assert (text.shared_bytes > 0) == (name in IN_SHARED_MEMORY)
    assert ("@gpu.barrier" in text.text) == (name in IN_SHARED_MEMORY)
    assert text.shared_bytes <= 48 << 10
    assert np.prod(text.block) <= 1024


@pytest.mark.parametrize("name", sorted(IN_SHARED_MEMORY))
def test_nothing_that_orders_accesses_is_superfluous(name: str) -> None:
    """Without any one barrier, wait or commit, the emulator sees a race."""
    inputs = inputs_of((list(KERNELS[name]().inputs), []), np.random.default_rng(3))
    func, text = function_of(name), text_of(name, checked=True)
    calls = re.compile(r"^ *call void @gpu\.(barrier|wait|commit)\(.*\n", re.MULTILINE)
    found = list(calls.finditer(text.text))
    assert {call[1] for call in found} == (
        {"barrier", "wait", "commit"} if name in STAGED else {"barrier"}
    )
    for call in found:
        less = text.text[: call.start()] + text.text[call.end() :]
        with pytest.raises(DeviceError, match="must be ordered by barriers"):
            launched(replace(text, text=less), func, inputs, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (3000, 5001, 1030)])
def test_large_products_have_schedules(shape: tuple[int, int, int], dtype: str) -> None:
    """Neither blocks nor results are looked at one by one."""
    text = kernel_text(gpu_kernel_function(product(*shape, dtype)), "k")
    rows, columns, _ = shape
    assert text.grid == (-(-rows // 64) * -(-columns // 64), 1, 1)
    assert ("@gpu.mma" in text.text) == (dtype != "float32")
