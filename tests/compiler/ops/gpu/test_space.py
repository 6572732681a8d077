"""Spaces of kernels: the rule's tiles are the default, and all others compute the same."""

import math

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.nvptx import ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function, gpu_kernel_space
from daedal.compiler.ops.gpu.space import GpuCoreSpace, GpuTileSpace
from daedal.compiler.ops.space import Config
from tests.support.emulated import launched
from tests.support.gpu_formulas import batched, convolution, elementwise, product, reduced
from tests.support.tensor_programs import inputs_of

KERNELS = {
    "product": lambda: product(70, 50, 136, "float16"),
    "product of 8 bits": lambda: product(33, 48, 144, "int8"),
    "batched": lambda: batched(2, 40, 36, 88, "float16"),
    "convolution": lambda: convolution(40, 10, 24, dtype="float16"),
}

LARGE = {
    "product": lambda: product(300, 200, 500),
    "convolution": lambda: convolution(64, 28, 64),
    "batched": lambda: batched(4, 100, 80, 64),
    "product of 16 bits": lambda: product(512, 512, 512, "float16"),
    "convolution of 16 bits": lambda: convolution(64, 20, 64, dtype="float16"),
    "product of 8 bits": lambda: product(512, 512, 512, "int8"),
}


def space_of(kernel: Kernel) -> GpuCoreSpace:
    space = gpu_kernel_space(kernel)
    assert isinstance(space, GpuCoreSpace)
    return space


@pytest.mark.parametrize("name", KERNELS)
def test_the_default_is_the_tile_of_the_rule(name: str) -> None:
    kernel = KERNELS[name]()
    space = space_of(kernel)
    assert space.fits(space.all()).all() and len(space) > 8
    rule = gpu_kernel_function(kernel)
    assert str(gpu_kernel_function(kernel, config=space.default)) == str(rule)
    cycles = space.cycles(space.all())
    assert np.isfinite(cycles).all() and (cycles > 0).all()
    assert all(np.isfinite(column).all() for column in space.features(space.all()).values())


@pytest.mark.heavy(3)
def test_stages_are_a_knob() -> None:
    """As many steps have their operands in shared memory, if there are so many."""
    kernel = KERNELS["product"]()
    space = space_of(kernel)
    assert space.knobs["stages"] == [1, 2, 3, 4]
    for stages in (1, 2, 3, 4):
        config = Config.of(rows=64, columns=64, depth=32, stages=stages)
        text = kernel_text(gpu_kernel_function(kernel, config=config), "k")
        assert text.shared_bytes == stages * (64 * 32 + 32 * 64) * 2
        assert ("@gpu.copy(" in text.text) == (stages > 1)
        waits = text.text.count(f"call void @gpu.wait(ptr %gpu, i32 {stages - 2})")
        assert waits == (1 if stages > 1 else 0)


def test_a_kernel_without_tensor_cores_has_other_knobs() -> None:
    assert isinstance(gpu_kernel_space(product(70, 50, 136)), GpuTileSpace)
    assert isinstance(gpu_kernel_space(KERNELS["product"](), has_warps=False), GpuTileSpace)
    assert gpu_kernel_space(reduced(5, 70, "max")) is None
    assert gpu_kernel_space(elementwise(7, 11)) is None


def test_a_configuration_of_no_space_is_refused() -> None:
    with pytest.raises(ScheduleError, match="knob 'rows' must be one of"):
        config = Config.of(rows=24, columns=64, depth=32, stages=3)
        gpu_kernel_function(KERNELS["product"](), config=config)


def chosen(space: GpuCoreSpace, count: int) -> list[Config]:
    """The ends of each knob, and `count` others."""
    table = space.all()
    configs = space.configs(table)
    ends = [configs[int(pick(x))] for x in table.values() for pick in (np.argmin, np.argmax)]
    return list(dict.fromkeys([*space.sample(np.random.default_rng(3), count), *ends]))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_all_tiles_compute_the_same_without_races(name: str) -> None:
    kernel = KERNELS[name]()
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    for config in chosen(space_of(kernel), 6):
        func = gpu_kernel_function(kernel, config=config)
        text = kernel_text(func, "k", checked=True)
        (found,) = launched(text, func, inputs, 1).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=str(config))


@pytest.mark.slow
@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_largest_tiles_are_in_registers(dtype: str, architecture: str) -> None:
    kernel = product(256, 256, 512, dtype)
    space = space_of(kernel)
    config = max(
        space.configs(space.all()),
        key=lambda x: (x["rows"] * x["columns"], x["stages"] * x["depth"]),
    )
    assert (config["rows"], config["columns"]) == (128, 128) and config["stages"] > 1
    text = kernel_text(gpu_kernel_function(kernel, config=config), "k")
    cubin = assembled(ptx_text(text, architecture), architecture)
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    assert cubin.registers <= 255


@pytest.mark.parametrize(("dtype", "threads", "resident"), [("float32", 256, 2), ("int8", 128, 3)])
def test_registers_suffice_for_some_blocks(dtype: str, threads: int, resident: int) -> None:
    """65536 registers: 128 of a thread, or 168 on tensor cores."""
    text = kernel_text(gpu_kernel_function(product(128, 128, 128, dtype)), "k")
    assert (math.prod(text.block), text.resident) == (threads, resident)
    assert f".minnctapersm {resident}" in ptx_text(text, "sm_80")


def test_few_products_of_a_step_run_together() -> None:
    """Each thread has 16 sums: of the 16 terms of a step, an iteration has four."""
    text = kernel_text(gpu_kernel_function(product(128, 128, 128)), "k")
    ptx = ptx_text(text, "sm_80")
    assert (ptx.count("fma.rn.f32"), ptx.count('.pragma "nounroll"')) == (64, 2)


@pytest.mark.slow
@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", LARGE)
def test_all_tiles_are_in_registers(name: str, architecture: str) -> None:
    kernel = LARGE[name]()
    space = gpu_kernel_space(kernel)
    assert space is not None
    for config in space.sample(np.random.default_rng(0), 12):
        text = kernel_text(gpu_kernel_function(kernel, config=config), "k")
        cubin = assembled(ptx_text(text, architecture), architecture)
        found = cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings
        assert found == (0, 0, ()), config
