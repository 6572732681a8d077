"""Float operators on maps with their channels last: machine code against ONNX's evaluator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.graph_tensors import GraphTensors
from daedal.compiler.ops.graph import convolution, elementwise, movement, pooling
from daedal.compiler.ops.onnx.table import ELEMENTWISE
from daedal.runtime.host_code import HostProgram

Build = Callable[[QdqModel, np.random.Generator, str], str]
SHAPE = (1, 20, 9, 7)


def constant(maker: QdqModel, rng: np.random.Generator, *shape: int) -> str:
    return maker.constant((rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32))


def conv(outs: int, ins: int, *kernel: int, bias: bool = True, **attrs: Any) -> Build:
    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        operands = [x, constant(maker, rng, outs, ins, *kernel)]
        return maker.op("Conv", *operands, *[constant(maker, rng, outs)] * bias, **attrs)

    return build


def after(op_type: str, *constants: tuple[int, ...], **attrs: Any) -> Build:
    """An operator behind a convolution, so that it reads a map."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        y = conv(20, 20, 1, 1)(maker, rng, x)
        return maker.op(op_type, y, *(constant(maker, rng, *shape) for shape in constants), **attrs)

    return build


def normalized(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    """A batch norm after a pool, which folds into nothing."""
    y = maker.op("MaxPool", conv(20, 20, 1, 1)(maker, rng, x), kernel_shape=[2, 2])
    variance = maker.constant(rng.uniform(0.5, 2, 20).astype(np.float32))
    others = [constant(maker, rng, 20) for _ in range(3)]
    return maker.op("BatchNormalization", y, *others, variance, epsilon=1e-3)


def two(op_type: str, outs: tuple[int, int] = (20, 20), **attrs: Any) -> Build:
    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        a, b = (conv(count, 20, 1, 1)(maker, rng, x) for count in outs)
        return maker.op(op_type, a, b, **attrs)

    return build


def gated(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    """A squeeze and excitation: a map times a number per channel."""
    y = conv(20, 20, 3, 3, pads=[1] * 4)(maker, rng, x)
    mean = maker.op("GlobalAveragePool", y)
    gate = maker.op("Sigmoid", conv(20, 20, 1, 1)(maker, rng, mean))
    return maker.op("Mul", y, gate)


def gated_by_itself(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    y = conv(20, 20, 3, 3, pads=[1] * 4)(maker, rng, x)
    return maker.op("Mul", y, maker.op("Sigmoid", y))


def clipped(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    bounds = [maker.constant(np.float32(bound)) for bound in (-0.25, 0.5)]
    return maker.op("Clip", conv(20, 20, 1, 1)(maker, rng, x), *bounds)


def exponential(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    """Its numbers behind the last channel, which nothing bounds, reach no convolution."""
    y = maker.op("Exp", after("Mul", (20, 1, 1))(maker, rng, x))
    return maker.op("Conv", y, constant(maker, rng, 7, 20, 1, 1))


def enlarged(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    scales = maker.constant(np.array([1, 1, 2, 3], np.float32))
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    y = conv(20, 20, 1, 1)(maker, rng, x)
    return maker.op("Resize", y, "", scales, mode="nearest", **attrs)


def turned(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    """What reads a map otherwise gets its elements in the order of its axes."""
    y = conv(20, 20, 3, 3)(maker, rng, x)
    return maker.op("Transpose", y, perm=[0, 2, 1, 3])


CASES: dict[str, tuple[str, tuple[int, ...], Build]] = {
    "stem": ("conv2d", (2, 3, 11, 9), conv(16, 3, 7, 7, strides=[2, 2], pads=[3] * 4)),
    "3x3": ("conv2d", SHAPE, conv(33, 20, 3, 3, pads=[1] * 4)),
    "without pads": ("conv2d", SHAPE, conv(5, 20, 3, 2, bias=False, dilations=[2, 3])),
    "groups": ("conv2d", (1, 24, 7, 5), conv(48, 8, 3, 3, group=3)),
    "groups within blocks": ("conv2d", (1, 24, 7, 5), conv(24, 8, 3, 3, group=3)),
    "per channel": ("conv2d", SHAPE, conv(20, 1, 3, 3, group=20, pads=[1] * 4)),
    "behind another": ("conv2d", SHAPE, after("Conv", (7, 20, 3, 3), (7,), pads=[1, 0, 2, 1])),
    "read otherwise": ("conv2d", SHAPE, turned),
    "relu": ("Relu", SHAPE, after("Relu")),
    "leaky relu": ("LeakyRelu", SHAPE, after("LeakyRelu", alpha=0.2)),
    "clip": ("Clip", SHAPE, clipped),
    "sigmoid": ("Sigmoid", SHAPE, gated_by_itself),
    "tanh": ("Tanh", SHAPE, after("Tanh")),
    "gelu": ("Gelu", SHAPE, after("Gelu")),
    "hard swish": ("HardSwish", SHAPE, after("HardSwish")),
    "mish": ("Mish", SHAPE, after("Mish")),
    "slopes": ("PRelu", SHAPE, after("PRelu", (20, 1, 1))),
    "sum": ("Add", SHAPE, two("Add")),
    "sum with a constant": ("Add", SHAPE, after("Add", (20, 1, 1))),
    "sum with a map of constants": ("Add", SHAPE, after("Add", (20, 9, 7))),
    "difference": ("Sub", SHAPE, two("Sub")),
    "product per channel": ("Mul", SHAPE, gated),
    "quotient": ("Div", (1, 20, 5, 6), two("Div", (32, 32))),
    "quotient within blocks": ("Div", SHAPE, two("Div")),
    "exponential before a convolution": ("Exp", SHAPE, exponential),
    "smaller one": ("Min", SHAPE, two("Min")),
    "norm": ("batch_norm", SHAPE, normalized),
    "largest": ("max_pool", SHAPE, after("MaxPool", kernel_shape=[3, 2], pads=[1] * 4)),
    "largest, rows first": ("max_pool", SHAPE, after("MaxPool", kernel_shape=[5, 5], pads=[2] * 4)),
    "averages, rows first": (
        "avg_pool",
        SHAPE,
        after("AveragePool", kernel_shape=[6, 5], pads=[2] * 4),
    ),
    "average": ("avg_pool", SHAPE, after("GlobalAveragePool")),
    "averages": ("avg_pool", SHAPE, after("AveragePool", kernel_shape=[3, 3], pads=[1] * 4)),
    "join": ("concat", SHAPE, two("Concat", (32, 5), axis=1)),
    "join within blocks": ("concat", SHAPE, two("Concat", (5, 32), axis=1)),
    "enlargement": ("resize", SHAPE, enlarged),
}
"""Operator of the graph, shape of the input, and what is built, by name."""

IN_ORDER = (
    *("exponential before a convolution", "groups within blocks", "join within blocks"),
    *("quotient within blocks", "sum with a map of constants"),
)
"""Cases that are computed in the order of their axes, from ONNX."""


def compiled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[onnx.ModelProto, HostProgram, set[str]]:
    """The model of a case, its code, and the operators that were computed on maps."""
    _, shape, build = CASES[name]
    maker = QdqModel(opset=21)
    rng = np.random.default_rng(len(name))
    build(maker, rng, maker.input("x", shape))
    model = maker.model(maker.nodes[-1].output[0])
    seen: set[str] = set()
    add, add_node = GraphTensors.add, GraphTensors.add_node

    def spy(self: GraphTensors, graph: Any, node: Any) -> bool:
        done = add(self, graph, node)
        seen.update([node.op] * done)
        return done

    def spy_node(self: GraphTensors, node: onnx.NodeProto, *given: Any) -> bool:
        done = add_node(self, node, *given)
        seen.update([node.op_type] * done)
        return done

    monkeypatch.setattr(GraphTensors, "add", spy)
    monkeypatch.setattr(GraphTensors, "add_node", spy_node)
    return model, HostProgram(build_host_code(model)), seen


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, program, seen = compiled(name, monkeypatch)
    op, shape, _ = CASES[name]
    assert (op in seen) == (name not in IN_ORDER)
    feeds = {"x": np.random.default_rng(9).normal(size=shape).astype(np.float32)}
    (found,) = program.run(feeds).values()
    (wanted,) = evaluator_of(model).run(None, feeds)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_every_operator_has_a_case() -> None:
    tables = (convolution, elementwise, movement, pooling)
    known = {op for table in tables for op in table.LOWERINGS}
    assert {op for op, _, _ in CASES.values()} - ELEMENTWISE == known


def test_not_a_number_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("relu", "clip"):
        _, program, _ = compiled(name, monkeypatch)
        (found,) = program.run({"x": np.full(SHAPE, np.nan, np.float32)}).values()
        assert np.isnan(found).all()


def test_an_output_that_is_another_name_of_a_tensor() -> None:
    """A node of ONNX reads it by that name before the graph gives it to the output."""
    maker = QdqModel(opset=21)
    x = maker.input("x", (1, 4, 3, 3))
    rng = np.random.default_rng(1)
    renamed = maker.op("Identity", maker.op("Ceil", x), output="renamed")
    y = maker.op("Conv", maker.op("Abs", renamed), constant(maker, rng, 2, 4, 1, 1))
    model = maker.model("renamed", y)
    feeds = {"x": rng.normal(size=(1, 4, 3, 3)).astype(np.float32)}
    found = HostProgram(build_host_code(model)).run(feeds)
    np.testing.assert_array_equal(found["renamed"], np.ceil(feeds["x"]))
    for one, other in zip(found.values(), evaluator_of(model).run(None, feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("columns", "stride", "behind", "in_order"),
    [(16, 2, False, True), (8, 1, False, True), (8, 2, False, False), (16, 1, True, False)],
)
def test_a_convolution_alone_keeps_its_channels_first(
    columns: int, stride: int, behind: bool, in_order: bool
) -> None:
    """One per channel: two transposes would take longer. Not where rows do not fill vectors, or
    where something reads its map."""
    rng = np.random.default_rng(columns)
    maker = QdqModel(opset=21)
    shape = (1, 32, 6, columns * stride)
    x = maker.input("x", shape)
    attrs = {"pads": [1] * 4, "strides": [stride] * 2}
    y = conv(32, 1, 3, 3, group=32, **attrs)(maker, rng, x)
    y = maker.op("Conv", y, constant(maker, rng, 5, 32, 1, 1)) if behind else y
    model = maker.model(y)
    code = build_host_code(model)
    # A copy with pads, its border, and the convolution; or each map in another layout, too.
    assert (len(code.calls) == 3) == in_order
    feeds = {"x": rng.normal(size=shape).astype(np.float32)}
    (found,) = HostProgram(code).run(feeds).values()
    (wanted,) = evaluator_of(model).run(None, feeds)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)
