"""The next row is fetched while this one is computed: which lines, and where that pays."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.ops.cpu.reuse import LINE_BYTES
from daedal.compiler.tir.expr import Load
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.stmt import For
from daedal.compiler.tir.visit import free_vars
from tests.compiler.cpu.test_prefetch import fetched, lines, pieces
from tests.support.machine_code import run_machine_code


def softmax(rows: int, extent: int, *, masked: bool = False) -> Kernel:
    """The kernel of a softmax; `masked`: of a sum of the rows and one other row."""
    x = te.placeholder((rows, extent), "float32", "x0")
    mask = te.placeholder((1, extent), "float32", "x1")
    k = te.reduce_axis(extent, "k")
    scores = te.compute((rows, extent), lambda i, j: x[i, j] + mask[0, j], "r")
    source = scores if masked else x
    top = te.compute((rows, 1), lambda i, j: te.max(te.number_or(source[i, k], -np.inf), k), "m")
    powers = te.compute((rows, extent), lambda i, j: te.exp(source[i, j] - top[i, 0]), "e")
    total = te.compute((rows, 1), lambda i, j: te.sum(powers[i, k], k), "s")
    result = te.compute((rows, extent), lambda i, j: powers[i, j] / total[i, 0], "y")
    stages = (scores, top, powers, total) if masked else (top, powers, total)
    return Kernel((x, mask) if masked else (x,), result, stages=stages)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("extent", [256, 1000, 1040, 4096])
def test_each_line_of_the_next_row_is_fetched(extent: int, *, masked: bool) -> None:
    kernel = softmax(300, extent, masked=masked)
    func = lower(kernel_function(kernel).func)
    rows = pieces(func.body)[0]
    assert isinstance(rows, For)
    ranges = {
        part.var: np.arange(part.extent) for part in pieces(func.body) if isinstance(part, For)
    }
    (x, *_) = func.inputs
    for row in (0, 1, 298):
        ahead = set[int]()
        for item in fetched(func):
            assert item.buffer is x
            own = {var for index in item.indices for var in free_vars(index)} - {rows.var}
            values = {var: ranges[var] for var in own} | {rows.var: np.array([row])}
            ahead |= lines(Load(item.buffer, item.indices), values)
        first, last = (row + 1) * extent * 4, (row + 1) * extent * 4 + extent // 16 * 64 - 1
        wanted = set(range(first // LINE_BYTES, last // LINE_BYTES + 1))
        if first % LINE_BYTES:  # whose end the row behind fetches
            ahead.add(last // LINE_BYTES)
        assert ahead == wanted


@pytest.mark.parametrize(
    ("rows", "extent"), [(20, 1000), (3000, 200), (100, 8192)], ids=["cached", "short", "long"]
)
def test_nothing_is_fetched_where_it_does_not_pay(rows: int, extent: int) -> None:
    assert not fetched(lower(kernel_function(softmax(rows, extent)).func))


def test_a_norm_fetches_nothing() -> None:
    """Its only loop over elements stores in memory, which takes as long."""
    x = te.placeholder((300, 1024), "float32", "x0")
    k = te.reduce_axis(1024, "k")
    mean = te.compute((300, 1), lambda i, j: te.sum(x[i, k], k), "m")
    result = te.compute((300, 1024), lambda i, j: x[i, j] - mean[i, 0], "y")
    assert not fetched(lower(kernel_function(Kernel((x,), result, stages=(mean,))).func))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("extent", [336, 1000])
def test_results_are_the_same(extent: int, *, masked: bool) -> None:
    kernel = softmax(200, extent, masked=masked)
    func = lower(kernel_function(kernel).func)
    assert fetched(func)
    rng = np.random.default_rng(extent)
    arrays = {item.name: rng.normal(size=item.shape).astype(np.float32) for item in kernel.inputs}
    scores = sum(arrays.values()).astype(np.float64)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(run_machine_code(func, arrays)["y"], wanted, 1e-5)
