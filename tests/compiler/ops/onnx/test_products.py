"""Products as tensor expressions, against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import pytest

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats, integers


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (5, 4)),
        ((1, 7), (7, 1)),
        ((3, 1), (1, 4)),
        ((5,), (5, 4)),
        ((3, 5), (5,)),
        ((5,), (5,)),
        ((2, 3, 5), (5, 4)),
        ((3, 5), (2, 5, 4)),
        ((5,), (2, 5, 4)),
        ((2, 3, 5), (5,)),
        ((2, 1, 3, 5), (1, 3, 5, 4)),
        ((2, 2, 3, 5), (2, 5, 4)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check_node("MatMul", {"a": floats(*a), "b": floats(*b)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint32"])
def test_matmul_dtypes(dtype: str) -> None:
    feeds = {name: integers(3, 3, dtype="int32").astype(dtype) for name in "ab"}
    check_node("MatMul", feeds)


def test_float16_is_summed_in_float32() -> None:
    feeds = {"a": np.full((1, 4096), 1, "float16"), "b": np.full((4096, 1), 1.5, "float16")}
    check_values("MatMul", feeds, [np.full((1, 1), 6144, "float16")])


def test_operands_must_match() -> None:
    feeds = {"a": floats(2, 3), "b": floats(4, 5)}
    with pytest.raises(ModelError, match="one inner extent"):
        check_values("MatMul", feeds, [floats(2, 5)])


@pytest.mark.parametrize("c", [None, (), (1,), (5,), (1, 5), (4, 1), (4, 5)])
@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(c: tuple[int, ...] | None, trans: tuple[int, int]) -> None:
    feeds = {
        "a": floats(*((3, 4) if trans[0] else (4, 3))),
        "b": floats(*((5, 3) if trans[1] else (3, 5))),
    }
    if c is not None:
        feeds["c"] = floats(*c)
    for factors in ({}, {"alpha": 0.5}, {"alpha": 1.5, "beta": -0.25}, {"beta": 0.0}):
        check_node("Gemm", feeds, transA=trans[0], transB=trans[1], atol=1e-5, **factors)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_gemm_dtypes(dtype: str) -> None:
    feeds = {name: integers(4, 4, dtype="int32").astype(dtype) for name in "abc"}
    check_node("Gemm", feeds, opset=11, rtol=1e-3, alpha=2.0)


def test_integers_are_not_multiplied_by_fractions() -> None:
    feeds = {name: integers(2, 2, dtype="int32") for name in "ab"}
    with pytest.raises(UnsupportedError, match="alpha of integers must be whole"):
        check_node("Gemm", feeds, alpha=0.5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        (" ij , jk -> ki ", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bj,ja", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bkhd->bhqk", [(1, 2, 3, 4), (1, 5, 2, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk", [(3, 2, 3, 4), (2, 4, 5)]),
        ("i...,i...->...", [(3, 2), (3, 2)]),
        ("ij->ji", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("i,i", [(4,), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ab,bc,cd,d->a", [(2, 3), (3, 4), (4, 5), (5,)]),
        ("aB,Bc->ca", [(2, 3), (3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    feeds = {f"x{number}": floats(*shape) for number, shape in enumerate(shapes)}
    check_node("Einsum", feeds, equation=equation, rtol=1e-4, atol=1e-5)


def test_einsum_of_integers() -> None:
    feeds = {"a": integers(2, 3, dtype="int64"), "b": integers(3, 4, dtype="int64")}
    check_node("Einsum", feeds, equation="ij,jk->ik")


@pytest.mark.parametrize("equation", ["ij,jk->iq", "ij->i", "ij,j->i", "i,jk->ik", "ij,jk->ii"])
def test_wrong_equations_are_refused(equation: str) -> None:
    feeds = {"a": floats(2, 3), "b": floats(3, 4)}
    with pytest.raises(ModelError):
        check_values("Einsum", feeds, [floats(2)], equation=equation)


def zero_points(a: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Zero points of rows as a column."""
    return a.astype(np.int32) - (row.reshape(-1, 1) if row.ndim == 1 else row).astype(np.int32)


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("constants", [(), ("az", "bz")])
def test_matmul_integer(dtypes: tuple[str, str], per_row: bool, constants: Any) -> None:
    """Against numpy: ONNX's evaluator takes a zero point per row as one per column."""
    feeds = {
        "a": integers(4, 6, dtype=dtypes[0], low=-128, high=127),
        "b": integers(6, 3, dtype=dtypes[1], low=-128, high=127),
    }
    wanted = feeds["a"].astype(np.int32) @ feeds["b"].astype(np.int32)
    check_node("MatMulInteger", feeds)
    check_values("MatMulInteger", feeds, [wanted])
    feeds["az"] = integers(*([4] if per_row else []), dtype=dtypes[0])
    feeds["bz"] = integers(*([3] if per_row else []), dtype=dtypes[1])
    left = zero_points(feeds["a"], feeds["az"])
    wanted = left @ (feeds["b"].astype(np.int32) - feeds["bz"])
    check_values("MatMulInteger", feeds, [wanted.astype(np.int32)], constants=constants)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_qlinear_matmul(dtype: str, batch: tuple[int, ...]) -> None:
    feeds = {
        "a": integers(*batch, 4, 6, dtype=dtype, high=100),
        "as": np.asarray(0.0371, "float32"),
        "az": np.asarray(3, dtype),
        "b": integers(*batch, 6, 3, dtype=dtype, high=100),
        "bs": np.asarray(0.0513, "float32"),
        "bz": np.asarray(7, dtype),
        "ys": np.asarray(0.3973, "float32"),
        "yz": np.asarray(4, dtype),
    }
    check_node("QLinearMatMul", feeds)


def test_qlinear_matmul_with_scales_of_rows_and_columns() -> None:
    a, b = integers(4, 6, dtype="uint8", high=200), integers(6, 3, low=-100, high=100)
    feeds = {
        "a": a,
        "as": np.asarray([0.01, 0.02, 0.03, 0.04], "float32"),
        "az": np.asarray([3, 4, 5, 6], "uint8"),
        "b": b,
        "bs": np.asarray([0.011, 0.013, 0.017], "float32"),
        "bz": np.asarray([1, -1, 2], "int8"),
        "ys": np.asarray(0.0973, "float32"),
        "yz": np.asarray(100, "uint8"),
    }
    sums = zero_points(a, feeds["az"]) @ (b.astype(np.int32) - feeds["bz"])
    scale = feeds["as"].reshape(-1, 1) * feeds["bs"] / feeds["ys"]
    wanted = np.clip(np.rint(sums * scale.astype(np.float64)) + 100, 0, 255).astype(np.uint8)
    check_values("QLinearMatMul", feeds, [wanted])
