"""Rows of small matrices as sums: the right ones, and shared parts."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.ops.graph.combined import combined
from daedal.compiler.ops.graph.winograd import TRANSFORMS
from daedal.compiler.te.interpreter import evaluate_tensors
from daedal.compiler.tir.expr import Binary
from daedal.compiler.tir.visit import walk

SEED = 20261130
Array = np.ndarray


def product(matrix: Array, dtype: str) -> te.Tensor:
    """The matrix times each column of an input `x`."""
    x = te.placeholder((matrix.shape[1], 5), dtype, "x")
    return te.compute(
        (len(matrix), 5), lambda row, j: combined(matrix, row, lambda n: x[n, j]), "y"
    )


def check(matrix: Array, dtype: str) -> None:
    """Against numpy, in which integers wrap, too."""
    x = np.random.default_rng(SEED).integers(-(2**14), 2**14, (matrix.shape[1], 5)).astype(dtype)
    (found,) = evaluate_tensors([product(matrix, dtype)], {"x": x})
    wanted = matrix.astype(object) @ x.astype(object)
    if dtype != "float32":
        bits = np.iinfo(dtype).bits
        wanted = (wanted + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    np.testing.assert_array_equal(found, wanted.astype(dtype))


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("kind", [0, 1])
def test_matrices_of_transforms(size: int, kind: int) -> None:
    transform = TRANSFORMS[size][kind]
    check(transform.elements, transform.dtype)
    check(transform.results, transform.sums)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("seed", range(40))
def test_matrices_with_rows_and_columns_that_differ_in_signs(seed: int, dtype: str) -> None:
    """Planted in random ones; every row has a number other than 0."""
    rng = np.random.default_rng([SEED, seed])
    matrix = rng.integers(-5, 6, rng.integers(2, 7, 2)) * (rng.random() < 0.7)
    rows, columns = matrix.shape
    if seed % 2:
        matrix[-1] = matrix[0] * rng.choice([-1, 1], columns)
    if seed % 3:
        matrix[:, -1] = matrix[:, 0] * rng.choice([-1, 1], rows)
    matrix[~matrix.any(1), 0] = 1
    check(matrix, dtype)


def test_parts_are_shared() -> None:
    """Of F(4x4, 3x3): 36 products and 30 sums for the elements of a column, 24 and 20 back."""
    transform = TRANSFORMS[0][0]
    for matrix, most in ((transform.elements, 23), (transform.results, 15)):
        value = product(matrix, "float32").value
        assert value is not None
        found = {node for node in walk(value) if isinstance(node, Binary)}
        assert len(found) <= most
