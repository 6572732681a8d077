"""Two transforms of a tile are one kernel, with what reads the second one element by element."""

from collections.abc import Callable

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.artifact.host_code import CodeCall
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler import te
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.combinations import combination_groups, is_combination
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.ops.graph.combined import combined
from daedal.runtime.host_code import HostProgram

MATRIX = np.array([[1, 2, -1], [1, -2, 1]])
CHANNELS = 32
SEED = 20261130

Followers = Callable[[QdqModel, str, str], str]


def silu(maker: QdqModel, y: str, _: str) -> str:
    return maker.op("Mul", y, maker.op("Sigmoid", y))


def residual(maker: QdqModel, y: str, x: str) -> str:
    return maker.op("Relu", maker.op("Add", y, x))


def projected(maker: QdqModel, y: str, x: str) -> str:
    """With the sums of another convolution."""
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=(CHANNELS, CHANNELS, 1, 1)).astype(np.float32)
    return maker.op("Add", y, maker.op("Conv", x, maker.constant(weights)))


def again(maker: QdqModel, y: str, _: str) -> str:
    """A second convolution, which reads a map with pads around it."""
    return convolution(maker, maker.op("Relu", y))


def softmax(maker: QdqModel, y: str, _: str) -> str:
    return maker.op("Softmax", y, axis=1)


def convolution(maker: QdqModel, x: str) -> str:
    rng = np.random.default_rng(SEED)
    weights = (rng.normal(size=(CHANNELS, CHANNELS, 3, 3)) / CHANNELS).astype(np.float32)
    bias = rng.normal(size=CHANNELS).astype(np.float32)
    return maker.op("Conv", x, maker.constant(weights), maker.constant(bias), pads=[1] * 4)


@pytest.mark.parametrize("size", [12, 14])
@pytest.mark.parametrize("follow", [None, silu, residual, projected, again, softmax])
@pytest.mark.parametrize("checked", [False, True])
def test_kernels_of_a_convolution(size: int, follow: Followers | None, *, checked: bool) -> None:
    """No rows of tiles are in memory. Tiles of 4 x 4 divide maps of 12 x 12, and not of 14 x 14."""
    maker = QdqModel(opset=21)
    x = maker.op("Relu", maker.input("x", (1, CHANNELS, size, size)))
    y = convolution(maker, x)
    if follow is not None:
        y = follow(maker, y, x)
    maker.op("MaxPool", y, kernel_shape=[1, 1], output="y")
    model = maker.model("y")
    code = build_host_code(model, checked=checked)
    calls = [step for step in code.steps if isinstance(step, CodeCall)]
    transformed = [step for step in calls if len(code.buffers[step.buffers[-1]].shape) == 7]
    assert len(transformed) == (4 if follow is again else 2), "elements and products"
    data = np.random.default_rng(size).normal(size=(1, CHANNELS, size, size)).astype(np.float32)
    (found,) = HostProgram(code, 1).run({"x": data}).values()
    (wanted,) = run_onnxruntime(model, {"x": data})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def transform(x: te.Tensor, name: str, matrix: np.ndarray = MATRIX) -> te.Tensor:
    """Columns, which the second axis counts, times a matrix."""
    shape = (x.shape[0], len(matrix), x.shape[2])
    return te.compute(shape, lambda i, u, c: combined(matrix, u, lambda row: x[i, row, c]), name)


def test_other_tensors_are_no_combinations() -> None:
    x = te.placeholder((4, 3, 16), "float32", "x")
    assert is_combination(transform(x, "y").value)
    same = te.compute((4, 3, 16), lambda i, j, c: x[i, j, c] + 1.0, "same")
    part = te.compute((4, 5, 16), lambda i, u, c: combined(MATRIX, u, lambda n: x[i, n, c]), "part")
    assert not is_combination(same.value)
    assert not is_combination(part.value), "the last row for all that follow"


def test_one_tensor_along_one_axis_stays_apart() -> None:
    """The second matrix multiplies along the same axis, so a tile is no square."""
    x = te.placeholder((4, 3, 16), "float32", "x")
    first = transform(x, "first", np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]))
    second = transform(first, "second")
    values = {item: item.value for item in (first, second)}
    assert combination_groups(values, {first: [second]}, ()) == {}
    assert set(fuse([second], Constants({}))) == {first, second}


def test_what_others_read_is_stored() -> None:
    """The tensor between two matrices, which another reads, too."""
    x = te.placeholder((3, 3, 16), "float32", "x")
    first = te.compute((2, 3, 16), lambda u, j, c: combined(MATRIX, u, lambda n: x[n, j, c]), "a")
    second = te.compute(
        (2, 2, 16), lambda u, v, c: combined(MATRIX, v, lambda n: first[u, n, c]), "b"
    )
    assert set(fuse([second], Constants({}))) == {second}
    other = te.compute((2, 3, 16), lambda u, j, c: first[u, j, c] + 1.0, "other")
    assert set(fuse([second, other], Constants({}))) == {first, second, other}
