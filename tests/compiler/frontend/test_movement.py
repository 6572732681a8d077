"""Importing slices, pads, joins, resizes and reductions in every form ONNX has had."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

from bench.qdq_model import QdqModel
from tests.compiler.frontend.test_load_onnx import (
    check_against_onnxruntime,
    refusal,
    single,
)
from tests.compiler.graph.qdq_models import Array


def with_constants(
    op_type: str, shape: tuple[int, ...], *operands: Array | None, opset: int = 13, **attrs: object
) -> QdqModel:
    """A model of one operator over input ``x`` and constants; None leaves an operand out."""
    maker = QdqModel(opset)
    x = maker.input("x", shape)
    names = ["" if value is None else maker.constant(value) for value in operands]
    maker.op(op_type, x, *names, output="y", **attrs)
    return maker


def whole(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def real(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def nearest(shape: tuple[int, ...], scales: Array | None, sizes: Array | None = None) -> QdqModel:
    operands = [scales] if sizes is None else [None, sizes]
    return with_constants("Resize", shape, None, *operands, mode="nearest")


@pytest.mark.parametrize(
    "maker",
    [
        single("LeakyRelu", (2, 3), alpha=0.25),
        single("Slice", (2, 5, 4), opset=9, starts=[1, -3], ends=[5, 100], axes=[1, 2]),
        single("Slice", (2, 5, 4), opset=9, starts=[0, 2], ends=[1, -1]),
        with_constants("Slice", (2, 7), whole(1), whole(-1), whole(-1), whole(2)),
        with_constants("Slice", (2, 7), whole(1, 2), whole(2, 2**31)),
        single("Pad", (2, 3), opset=10, pads=[0, 1, 2, 0], value=0.5),
        single("Pad", (2, 3), opset=10, pads=[0, 1, 2, 0]),
        with_constants("Pad", (2, 3), whole(1, 0, 0, 2), np.float32(-1.5)),
        with_constants("Pad", (2, 3, 4), whole(1, 2), None, whole(-1), opset=18),
        single("Upsample", (1, 2, 3, 2), opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"),
        with_constants("Upsample", (1, 2, 3, 2), real(1, 1, 2, 3), opset=9, mode="nearest"),
        with_constants("Resize", (1, 2, 3, 2), real(1, 1, 2, 3), opset=10, mode="nearest"),
        nearest((1, 2, 3, 2), real(1, 1, 2, 4)),
        nearest((1, 2, 3, 2), None, whole(1, 2, 9, 2)),
        nearest((1, 2, 6, 9), real(1, 1, 0.5, 1 / 3)),
        single("ReduceMean", (1, 2, 3, 5), axes=[2, 3]),
        single("ReduceMean", (1, 2, 3, 5), axes=[-1], keepdims=0),
        with_constants("ReduceMean", (1, 2, 3, 5), whole(3, 2), opset=18),
        single("ReduceMax", (2, 2, 3, 5), axes=[2], keepdims=0),
        single("ReduceMean", (2, 3, 5, 2), axes=[1, 2]),
        single("ReduceMax", (2, 3, 5, 2), axes=[-2, 1], keepdims=0),
        single("ReduceMean", (2, 5, 3), axes=[1], keepdims=0),
        single("ReduceMax", (2, 5, 3), axes=[-2]),
        single("HardSigmoid", (2, 3), alpha=0.3, beta=-0.1),
        with_constants("Div", (2, 3), real(0.3, -7, 2)),
        with_constants("Max", (2, 3), real(0.3)),
        with_constants("Max", (2, 3), real(0.3, -1, 2), real([[1], [-2]])),
        with_constants("Min", (2, 3), np.float32(0.3)),
        single("MaxPool", (1, 2, 7, 7), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
        single(
            "AveragePool",
            (1, 2, 7, 8),
            opset=19,
            kernel_shape=[3, 2],
            strides=[3, 3],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
    ],
    ids=lambda maker: maker.nodes[0].op_type,
)
def test_operators_compute_what_onnxruntime_computes(
    maker: QdqModel, rng: np.random.Generator
) -> None:
    check_against_onnxruntime(maker, rng)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul"])
def test_broadcasting(op_type: str, rng: np.random.Generator) -> None:
    maker = QdqModel()
    a, b = maker.input("a", (3, 1, 2)), maker.input("b", (4, 1))
    maker.op(op_type, a, b, output="y")
    check_against_onnxruntime(maker, rng)


def test_concat(rng: np.random.Generator) -> None:
    maker = QdqModel()
    names = [maker.input(name, (2, count, 3)) for name, count in zip("abc", (1, 4, 2), strict=True)]
    maker.op("Concat", *names, output="y", axis=-2)
    assert check_against_onnxruntime(maker, rng).types["y"].shape == (2, 7, 3)


@pytest.mark.parametrize(
    "indices",
    [
        np.array(-1),
        whole(1, 2),
        whole(-2, -1),
        whole(0, 2, 4),
        whole(*range(6)).reshape(1, 6, 1, 1),
        whole(*range(6)).reshape(3, 2),
        whole(*range(6)).reshape(3, 2).T,
        whole(*range(6)).reshape(1, 3, 1, 2).transpose(3, 0, 1, 2),
        whole(3).reshape(1, 1),
        whole(0, 2, 4, 1, 3, 5),
        whole(6),
    ],
    ids=lambda indices: "x".join(map(str, indices.shape)) or "one",
)
def test_gather(indices: np.ndarray, rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", (2, 7, 3))
    maker.op("Gather", x, maker.constant(indices), output="y", axis=1)
    check_against_onnxruntime(maker, rng)


@pytest.mark.parametrize(
    "indices",
    [
        whole(1).reshape(1, 1),
        whole(-1).reshape(1, 1, 1),
        whole(0, 2, 0, 3, 0, 4).reshape(3, 2),
        whole(0, 5, 0, 6, 1, 0).reshape(1, 3, 2),
        whole(*np.ndindex(2, 7, 3)).reshape(2, 7, 3, 3).transpose(1, 0, 2, 3),
    ],
    ids=lambda indices: "x".join(map(str, indices.shape)),
)
def test_gather_nd(indices: np.ndarray, rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", (2, 7, 3))
    maker.op("GatherND", x, maker.constant(indices), output="y")
    graph = check_against_onnxruntime(maker, rng)
    assert {node.op for node in graph.nodes} <= {"slice", "reshape", "transpose"}


@pytest.mark.parametrize(
    ("op_type", "shape", "attrs"),
    [
        ("DepthToSpace", (2, 18, 2, 3), {"blocksize": 3}),
        ("DepthToSpace", (2, 18, 2, 3), {"blocksize": 3, "mode": "CRD"}),
        ("SpaceToDepth", (2, 3, 4, 6), {"blocksize": 2}),
    ],
)
def test_blocks(
    op_type: str, shape: tuple[int, ...], attrs: dict[str, object], rng: np.random.Generator
) -> None:
    maker = QdqModel()
    maker.op(op_type, maker.input("x", shape), output="y", **attrs)
    check_against_onnxruntime(maker, rng)


@pytest.mark.parametrize("count", [2, 4])
def test_sum(count: int, rng: np.random.Generator) -> None:
    maker = QdqModel()
    names = [maker.input(name, (2, 1 + index % 2 * 2)) for index, name in enumerate("abcd"[:count])]
    maker.op("Sum", *names, output="y")
    check_against_onnxruntime(maker, rng)


def split_model(parts: int, *sizes: int, opset: int = 13, **attrs: object) -> QdqModel:
    """A split of 7 channels whose second part is the output ``y``."""
    maker = QdqModel(opset)
    operands = [maker.input("x", (2, 7, 3))]
    if sizes:
        operands.append(maker.constant(whole(*sizes)))
    outputs = [f"part{index}" for index in range(parts)]
    maker.nodes.append(
        helper.make_node("Split", operands, outputs, name="y/Split", axis=1, **attrs)
    )
    maker.op("Relu", outputs[1], output="y")
    return maker


@pytest.mark.parametrize(
    "maker",
    [
        split_model(3, 1, 4, 2),
        split_model(2, opset=11, split=[3, 4]),
        split_model(7),
        split_model(3, opset=18, num_outputs=3),
    ],
    ids=["operand", "attribute", "equal", "last is smaller"],
)
def test_split(maker: QdqModel, rng: np.random.Generator) -> None:
    check_against_onnxruntime(maker, rng)


def joined_by(axis: int) -> QdqModel:
    maker = QdqModel()
    maker.op("Concat", maker.input("a", (2, 3)), maker.input("b", (2, 4)), output="y", axis=axis)
    return maker


REFUSALS: dict[str, tuple[Callable[[], QdqModel], str]] = {
    "backwards": (
        lambda: with_constants("Slice", (2, 7), whole(5), whole(0), whole(1), whole(-1)),
        "steps must be positive, not -1 (node 'y/Slice', operator Slice); reverse the data before",
    ),
    "slice axes": (
        lambda: with_constants("Slice", (2, 7), whole(5), whole(6), whole(2)),
        "axes must lie in 2 dimensions, not 2 (node 'y/Slice', operator Slice); repair the model",
    ),
    "slice lengths": (
        lambda: single("Slice", (2, 7), opset=9, starts=[0, 0], ends=[1, 1], axes=[0]),
        "starts, ends, axes and steps must be as many (node 'y/Slice', operator Slice); "
        "repair the model",
    ),
    "negative pad": (
        lambda: single("Pad", (2, 3), opset=10, pads=[0, -1, 0, 0]),
        "pads must not be negative, not [0, -1, 0, 0] (node 'y/Pad', operator Pad); "
        "use Slice to crop",
    ),
    "pad lengths": (
        lambda: single("Pad", (2, 3), opset=10, pads=[0, 1]),
        "pads must be two for each of 2 axes, not [0, 1] (node 'y/Pad', operator Pad); "
        "repair the model",
    ),
    "reflection": (
        lambda: single("Pad", (2, 3), opset=10, pads=[0, 1, 0, 0], mode="reflect"),
        "attribute mode must be 'constant', not 'reflect' (node 'y/Pad', operator Pad); "
        "export the model without it",
    ),
    "concat": (
        lambda: joined_by(0),
        "joined tensors must agree in every axis but 0, not have shapes [2, 3], [2, 4]; "
        "repair the model (node 'y/Concat', operator concat)",
    ),
    "concat axis": (
        lambda: joined_by(2),
        "axis must lie in 2 dimensions, not 2 (node 'y/Concat', operator Concat); repair the model",
    ),
    "linear": (
        lambda: single(
            "Upsample", (1, 1, 2, 2), opset=7, scales=[1.0, 1.0, 2.0, 2.0], mode="linear"
        ),
        "attribute mode must be 'nearest', not 'linear' (node 'y/Upsample', operator Upsample); "
        "export the model without it",
    ),
    "uneven": (
        lambda: nearest((1, 1, 2, 4), real(1, 1, 1.5, 1)),
        "a nearest resize must repeat every element equally often, or skip equally many, not make "
        "[1, 1, 3, 4] of [1, 1, 2, 4] (node 'y/Resize', operator Resize); use whole factors",
    ),
    "scales": (
        lambda: nearest((1, 1, 2, 4), real(2, 2)),
        "scales and sizes must be one per dimension of 4, not 2 (node 'y/Resize', operator "
        "Resize); repair the model",
    ),
    "infinite": (
        lambda: nearest((1, 1, 2, 4), real(1, 1, float("inf"), 1)),
        "scales must be positive and at most 65536, not [1.0, 1.0, inf, 1.0] (node 'y/Resize', "
        "operator Resize); repair the model",
    ),
    "mode": (
        lambda: with_constants(
            "Resize",
            (1, 1, 2, 4),
            None,
            real(1, 1, 2, 1),
            mode="nearest",
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        "a resize must go by one of align_corners, asymmetric, half_pixel, half_pixel_symmetric, "
        "pytorch_half_pixel, tf_half_pixel_for_nn and "
        "of ceil, floor, round_prefer_ceil, round_prefer_floor, not tf_crop_and_resize and "
        "round_prefer_floor (node 'y/Resize', operator Resize); export the model with one of these",
    ),
    "real axes": (
        lambda: with_constants("Slice", (2, 7), whole(1), whole(2), real(float("inf"))),
        "operand 3 must hold integers, not float32 (node 'y/Slice', operator Slice); "
        "repair the model",
    ),
    "mean of channels": (
        lambda: single("ReduceMean", (1, 2, 3, 5), axes=[1]),
        "a reduction must be over height, width or both of a map, not axes [1] of "
        "float32[1,2,3,5] (node 'y/ReduceMean', operator ReduceMean); reduce channels on the host",
    ),
    "indices that jump": (
        lambda: with_constants("Gather", (4, 7), whole(0, 2, 3)),
        "indices must count up by equal steps (node 'y/Gather', operator Gather); "
        "slice and concatenate",
    ),
    "slices outside": (
        lambda: with_constants("GatherND", (4, 7), whole(0, 7).reshape(1, 2)),
        "indices must lie in [4, 7] elements (node 'y/GatherND', operator GatherND); "
        "repair the model",
    ),
    "indices outside": (
        lambda: with_constants("Gather", (4, 7), whole(4)),
        "indices must lie in 4 elements, not be [4] (node 'y/Gather', operator Gather); "
        "repair the model",
    ),
    "blocks": (
        lambda: single("DepthToSpace", (1, 6, 2, 2), blocksize=2),
        "blocks of 2 must divide the channels of four axes, not float32[1,6,2,2] "
        "(node 'y/DepthToSpace', operator DepthToSpace); repair the model",
    ),
    "split": (
        lambda: split_model(2, 3, 3),
        "2 parts must fill 7 indices, not [3, 3] (node 'y/Split', operator Split); "
        "repair the model",
    ),
    "slope": (
        lambda: single("LeakyRelu", (2, 3), alpha=float("inf")),
        "alpha must be finite, not inf (node 'y/LeakyRelu', operator LeakyRelu); repair the model",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    make, message = REFUSALS[name]
    model = make().model("y")
    # ONNX could not infer what the output of a broken node is.
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    assert refusal(model.SerializeToString()) == message
