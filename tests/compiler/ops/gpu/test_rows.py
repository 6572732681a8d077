"""Softmax and norms as one kernel: threads of rows, and what they need."""

import re
from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.nvptx import ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function, gpu_kernel_space
from daedal.compiler.ops.gpu.rows import RowTiles, row_tiles
from daedal.compiler.tir.interpreter import run
from tests.support.emulated import bank_conflicts_of, emulated
from tests.support.gpu_formulas import norm, product, softmax
from tests.support.tensor_programs import inputs_of

TILES = {
    "short rows": (softmax(1000, 10), RowTiles(8, 16, 1)),
    "one row": (softmax(1, 10), RowTiles(1, 16, 1)),
    "rows of a warp": (norm(8, 128, 384), RowTiles(2, 64, 6, 2)),
    "rows of a block": (softmax(4096, 4096), RowTiles(1, 512, 8, 4)),
    "long rows": (softmax(64, 16000), RowTiles(1, 1024, 16, 4)),
    "a long norm": (norm(1, 300, 8191), RowTiles(1, 1024, 8)),
}


@pytest.mark.parametrize("name", TILES)
def test_threads_of_a_row_follow_from_its_length(name: str) -> None:
    kernel, expected = TILES[name]
    assert row_tiles(kernel) == expected
    assert gpu_kernel_space(kernel) is None


def test_neighbouring_elements_are_loaded_and_stored_together() -> None:
    """Four of float32 by one instruction, if rows are multiples of them."""
    for length, vector in ((512, ".v4"), (384, ".v2"), (385, "")):
        ptx = ptx_text(kernel_text(gpu_kernel_function(softmax(64, length)), "k"), "sm_80")
        loads = re.findall(r"ld\.global(?:\.nc)?(\.v\d)?\.[fb]32", ptx)
        stores = re.findall(r"st\.global(\.v\d)?\.[fb]32", ptx)
        assert set(loads) == set(stores) == {vector}


def shifted() -> Kernel:
    """A row whose elements are read by other threads than those that computed them."""
    kernel = softmax(5, 70)
    top, power, total = kernel.stages
    y = te.compute((5, 70), lambda i, j: power[i, 69 - j] / total[i, 0], "y")
    return replace(kernel, result=y, stages=(top, power, total))


def narrow() -> Kernel:
    """A result of half a row."""
    kernel = softmax(5, 70)
    _, power, total = kernel.stages
    return replace(kernel, result=te.compute((5, 35), lambda i, j: power[i, j] / total[i, 0], "y"))


@pytest.mark.parametrize("kernel", [shifted(), narrow(), softmax(2, 20000), product(8, 8, 8)])
def test_other_rows_have_no_tiles(kernel: Kernel) -> None:
    assert row_tiles(kernel) is None
    if kernel.stages:
        with pytest.raises(UnsupportedError, match="rows must have tiles"):
            gpu_kernel_function(kernel)


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 65, 257])
def test_rows_of_any_length(length: int) -> None:
    kernel = softmax(3, length)
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(length))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func = gpu_kernel_function(kernel)
    found = [emulated(func, inputs, 1)["y"]]
    if length < 32:
        found.append(run(func, inputs)["y"])
    for item in found:
        np.testing.assert_allclose(item, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [softmax(8, 64), norm(1, 4, 130), softmax(9, 7)])
def test_no_access_of_shared_memory_has_bank_conflicts(kernel: Kernel) -> None:
    func = gpu_kernel_function(kernel)
    found = bank_conflicts_of(func, kernel_text(func, "k", checked=True))
    assert set(found.values()) == {1}


@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", TILES)
def test_rows_are_in_registers(name: str, architecture: str) -> None:
    ptx = ptx_text(kernel_text(gpu_kernel_function(TILES[name][0]), "k"), architecture)
    cubin = assembled(ptx, architecture)
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
