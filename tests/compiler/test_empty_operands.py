"""Tensors without elements add nothing: what is left of the network runs in one launch."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.frontend import load_onnx

X = np.random.default_rng(1).normal(size=(1, 8, 4, 4)).astype(np.float32)
NONE = np.zeros((1, 0, 4, 4), np.float32)


def conv(maker: QdqModel, x: str) -> str:
    values = np.random.default_rng(2).integers(-127, 128, (8, 8, 1, 1)).astype(np.int8)
    return maker.requantized(maker.op("Conv", x, maker.weights(values, 0.01)), 0.1, 3)


def network(opset: int, between: Callable[[QdqModel, str], str]) -> onnx.ModelProto:
    """A convolution before and behind what is between them."""
    maker = QdqModel(opset)
    x = conv(maker, maker.requantized(maker.input("x", X.shape), 0.05, 0))
    y = conv(maker, maker.requantized(between(maker, x), 0.1, 3))
    maker.op("Identity", y, output="y")
    return maker.model("y")


def ints(maker: QdqModel, *values: int) -> str:
    return maker.constant(np.array(values, np.int64))


def split(maker: QdqModel, x: str, *sizes: int) -> list[str]:
    names = [maker.op("Split", x, ints(maker, *sizes), axis=1)]
    for number in range(1, len(sizes)):
        names.append(f"{names[0]}.{number}")
        maker.nodes[-1].output.append(names[-1])
    return names


def quantized_nothing(maker: QdqModel, x: str) -> str:
    nothing = maker.dequantize(maker.constant(NONE.astype(np.int8)), 0.1, 3)
    return maker.op("Concat", nothing, x, maker.constant(NONE), axis=1)


def sliced(maker: QdqModel, x: str) -> str:
    bounds = [ints(maker, 3), ints(maker, 3), ints(maker, 2)]
    return maker.op("Concat", maker.op("Slice", x, *bounds), x, axis=2)


def gathered(maker: QdqModel, x: str) -> str:
    nothing = maker.op("Relu", maker.op("Gather", x, ints(maker), axis=3))
    return maker.op("Concat", x, nothing, axis=3)


def summed(maker: QdqModel, x: str) -> str:
    """A sum with a part of no channels has none."""
    nothing = split(maker, x, 8, 0)[1]
    total = maker.op("Add", nothing, maker.op("Slice", x, *(ints(maker, n) for n in (0, 1, 1))))
    return maker.op("Concat", maker.op("Tanh", total), x, axis=1)


def resized(roi: str) -> Callable[[QdqModel, str], str]:
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}

    def between(maker: QdqModel, x: str) -> str:
        scales = maker.constant(np.array([1, 1, 2, 2], np.float32))
        return maker.op("Resize", x, maker.constant(np.zeros(0, roi)), scales, **attributes)

    return between


CASES: dict[str, tuple[int, Callable[[QdqModel, str], str]]] = {
    "Concat": (13, lambda maker, x: maker.op("Concat", x, maker.constant(NONE), axis=1)),
    "quantized": (13, quantized_nothing),
    "Split 0, 8": (13, lambda maker, x: split(maker, x, 0, 8)[1]),
    "Split 3, 0, 5": (13, lambda maker, x: maker.op("Concat", *split(maker, x, 3, 0, 5), axis=1)),
    "Slice": (13, sliced),
    "Gather": (13, gathered),
    "Add": (13, summed),
    "Resize": (11, resized("float32")),
    "Resize, float64": (12, resized("float64")),
    "ReduceMean": (18, lambda maker, x: maker.op("ReduceMean", x, ints(maker),
                                                 noop_with_empty_axes=1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_launch_with_the_right_bytes(case: str) -> None:
    model = network(*CASES[case])
    artifact = daedal.compile(model, "tiny")
    assert len(artifact.launches) == 1
    inside = {"Concat", "Split", "Slice", "Gather", "Resize", "ReduceMean", "Conv"}
    assert not [item for item in artifact.placements if item.op in inside and item.where == "host"]
    assert daedal.check_layers(artifact, model, {"x": X}).passed
    (found,) = daedal.simulate(artifact, {"x": X}).outputs.values()
    (wanted,) = open_session(model)({"x": X})
    assert found.shape == wanted.shape and np.abs(found - wanted).max() < 0.101


def test_a_pad_of_nothing_is_constant() -> None:
    """Also the largest of nothing: all that reads a tensor without elements alone is folded."""

    def between(maker: QdqModel, x: str) -> str:
        nothing = split(maker, x, 0, 8)[0]
        padded = maker.op("Pad", nothing, ints(maker, 0, 0, 0, 0, 0, 8, 0, 0))
        return maker.op("Add", x, maker.op("Exp", padded))

    model = network(13, between)
    graph = load_onnx(model.SerializeToString())
    assert not {node.op for node in graph.nodes} & {"onnx", "pad"}
    artifact = daedal.compile(model, "tiny")
    (found,) = daedal.simulate(artifact, {"x": X}).outputs.values()
    (wanted,) = open_session(model)({"x": X})
    assert np.abs(found - wanted).max() < 0.101


def test_what_reads_nothing_and_something_is_left_to_the_host() -> None:
    """A result that has elements, of an operand that has none: the reason names it."""

    def between(maker: QdqModel, x: str) -> str:
        indices = maker.constant(np.zeros((0, 8, 4, 4), np.int64))
        return maker.op("ScatterElements", x, indices, maker.constant(NONE.reshape(0, 8, 4, 4)))

    model = network(16, between)
    artifact = daedal.compile(model, "tiny")
    (placement,) = [item for item in artifact.placements if item.op == "ScatterElements"]
    assert placement.where == "host" and placement.why.endswith("which has no elements")
    (found,) = daedal.simulate(artifact, {"x": X}).outputs.values()
    (wanted,) = open_session(model)({"x": X})
    assert np.abs(found - wanted).max() < 0.101
