"""The meaning of tensor expressions against plain numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daedal.compiler.te.interpreter as interpreter
from daedal.compiler import te
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.interpreter import run
from daedal.isa.numerics import requantize
from tests.support.tensor_programs import conv2d, inputs_of


def direct_convolution(
    x: np.ndarray, w: np.ndarray, par: np.ndarray, stride: int, pad: int
) -> np.ndarray:
    """The convolution of `conv2d`, with numpy alone."""
    kernel = w.shape[2]
    x = np.pad(x.astype(np.int32), ((0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0)))
    rows = (x.shape[2] - kernel) // stride + 1
    columns = (x.shape[3] - kernel) // stride + 1
    acc = np.zeros((x.shape[0], w.shape[0], rows, columns, 1, w.shape[4]), dtype=np.int32)
    for kh in range(kernel):
        for kw in range(kernel):
            window = x[:, :, kh::stride, kw::stride][:, :, :rows, :columns]
            acc += np.einsum(
                "nchwbi,kcoi->nkhwbo", window, w[:, :, kh, kw].astype(np.int32), optimize=True
            )
    rule = par[None, :, None, None, None]
    return requantize(acc, rule[..., 0], rule[..., 1], rule[..., 2], 3, -128, 127).astype(np.int8)


@given(
    height=st.integers(3, 6),
    width=st.integers(3, 6),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 2),
    seed=st.integers(0, 1 << 30),
)
def test_convolution_equals_numpy(
    height: int, width: int, kernel: int, stride: int, pad: int, seed: int
) -> None:
    program = conv2d(
        height=height, width=width, kernel=kernel, stride=stride, pad=pad, block=2, batch=2
    )
    arrays = inputs_of(program, np.random.default_rng(seed))
    wanted = direct_convolution(arrays["x"], arrays["w"], arrays["par"], stride, pad)
    np.testing.assert_array_equal(te.evaluate_tensors(program[1], arrays)[0], wanted)
    func = te.create_prim_func(*program, "conv2d")
    np.testing.assert_array_equal(run(func, arrays)["y"], wanted)


def test_arithmetic_wraps_and_rounds_as_documented() -> None:
    x = te.placeholder((4,), "int8", "x")
    wrapped = te.compute((4,), lambda i: x[i] + 100, "wrapped")
    halves = te.compute((4,), lambda i: x[i] // 2, "halves")
    rest = te.compute((4,), lambda i: x[i] % 4, "rest")
    unsigned = te.compute((4,), lambda i: x[i].astype("uint8"), "unsigned")
    clipped = te.compute((4,), lambda i: te.minimum(te.maximum(x[i], -2), 3), "clipped")
    shifted = te.compute((4,), lambda i: (x[i].astype("int32") << 3) >> 4, "shifted")
    outputs = [wrapped, halves, rest, unsigned, clipped, shifted]
    arrays = {"x": np.array([-128, -3, 3, 127], dtype=np.int8)}
    wanted = [
        [-28, 97, 103, -29],
        [-64, -2, 1, 63],
        [0, 1, 3, 3],
        [128, 253, 3, 127],
        [-2, -2, 3, 3],
        [-64, -2, 1, 63],
    ]
    results = te.evaluate_tensors(outputs, arrays)
    lowered = run(te.create_prim_func([x], outputs, "f"), arrays)
    for tensor, result, numbers in zip(outputs, results, wanted, strict=True):
        assert result.tolist() == numbers, tensor.name
        assert lowered[tensor.name].tolist() == numbers, tensor.name
        assert result.dtype == lowered[tensor.name].dtype == tensor.dtype


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any"])
def test_reductions(op: str) -> None:
    x = te.placeholder((3, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    reduce = getattr(te, op)
    y = te.compute((3,), lambda i: reduce(x[i, k] > 0 if op == "any" else x[i, k], k), "y")
    data = np.array([[-1, -2, -3, -4, -5], [1, 2, 3, 4, 5], [0, 0, -7, 7, 0]], dtype=np.int32)
    wanted = (data > 0).any(1) if op == "any" else getattr(np, op)(data, axis=1)
    assert te.evaluate_tensors([y], {"x": data})[0].tolist() == wanted.tolist()
    assert run(te.create_prim_func([x], [y], "f"), {"x": data})["y"].tolist() == wanted.tolist()


def test_padding_reads_the_given_value_on_every_side() -> None:
    x = te.placeholder((2, 2), "int8", "x")
    y = te.compute((4, 4), lambda i, j: x.padded(-9)[i - 1, j - 1], "y")
    data = np.array([[1, 2], [3, 4]], dtype=np.int8)
    wanted = np.pad(data, 1, constant_values=-9)
    np.testing.assert_array_equal(te.evaluate_tensors([y], {"x": data})[0], wanted)


def test_inputs_are_checked() -> None:
    x = te.placeholder((2,), "int8", "x")
    y = te.compute((2,), lambda i: x[i], "y")
    with pytest.raises(ExecutionError, match=r"^'x' must be given as int8\[2\], not nothing$"):
        te.evaluate_tensors([y], {})
    with pytest.raises(ExecutionError, match=r"^'x' must be given as int8\[2\], not int64\[3\]$"):
        te.evaluate_tensors([y], {"x": np.zeros(3, dtype=np.int64)})


def test_indices_that_data_choose_stay_inside() -> None:
    """A negative index is outside: it does not count from the end."""
    x, at = te.placeholder((4,), "int8", "x"), te.placeholder((2,), "int8", "at")
    plain = te.compute((2,), lambda i: x[at[i]], "plain")
    padded = te.compute((2,), lambda i: x.padded(9)[at[i]], "padded")
    arrays = {"x": np.arange(4, dtype=np.int8), "at": np.array([-1, 3], dtype=np.int8)}
    with pytest.raises(ExecutionError) as caught:
        te.evaluate_tensors([plain], arrays)
    assert str(caught.value) == "'plain' reads 'x' at -1..3 in dimension 0 of size 4"
    assert te.evaluate_tensors([padded], arrays)[0].tolist() == [9, 3]
    assert run(te.create_prim_func([x, at], [padded], "f"), arrays)["padded"].tolist() == [9, 3]


def test_float_sums_round_one_by_one(rng: np.random.Generator) -> None:
    """In order, and in their own width, whatever numpy's sum would do."""
    for dtype in ("float16", "float32"):
        x = te.placeholder((3, 50), dtype, "x")
        k = te.reduce_axis(50, "k")
        y = te.compute((3,), lambda i, x=x, k=k: te.sum(x[i, k], k), "y")
        data = rng.normal(size=(3, 50)).astype(dtype)
        wanted = np.zeros(3, dtype=dtype)
        for column in range(50):
            wanted = wanted + data[:, column]
        assert te.evaluate_tensors([y], {"x": data})[0].tolist() == wanted.tolist()
        assert run(te.create_prim_func([x], [y], "f"), {"x": data})["y"].tolist() == wanted.tolist()


def test_long_reductions_wrap(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    x = te.placeholder((2, 7, 30), "int8", "x")
    j, k = te.reduce_axis(7, "j"), te.reduce_axis(30, "k")
    narrow = te.compute((2,), lambda i: te.sum(x[i, j, k], [j, k]), "narrow")
    constant = te.compute((2,), lambda i: te.sum(x[i, j, 0], [j, k]), "constant")
    data = rng.integers(-128, 128, x.shape).astype(np.int8)
    wanted = [
        data.astype(np.int64).sum((1, 2)).astype(np.int8).tolist(),
        (data[..., 0].astype(np.int64).sum(1) * 30).astype(np.int8).tolist(),
    ]
    for most in (1, 60, 1 << 18):
        monkeypatch.setattr(interpreter, "MAX_TERMS", most)
        found = te.evaluate_tensors([narrow, constant], {"x": data})
        assert [array.tolist() for array in found] == wanted, most
    lowered = run(te.create_prim_func([x], [narrow, constant], "f"), {"x": data})
    assert [lowered["narrow"].tolist(), lowered["constant"].tolist()] == wanted
