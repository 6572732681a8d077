"""Layers with one key have one program, but for its immediates."""

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.codegen.instruction_count import count_instructions
from daedal.compiler.frontend import load_onnx
from daedal.compiler.layers.workload import layer_kinds
from daedal.compiler.ops.accelerator.lowering import lower_node
from daedal.compiler.pipeline import accelerator_graphs
from daedal.isa.variant import load_variant

VARIANT = load_variant("tiny")
SHAPE = (1, 8, 4, 4)
Numbers = tuple[float, int]
"""A scale and a zero point."""


def binary(op: str, first: Numbers, second: Numbers, result: Numbers) -> onnx.ModelProto:
    maker = QdqModel()
    a = maker.requantized(maker.input("a", SHAPE), *first)
    b = maker.requantized(maker.input("b", SHAPE), *second)
    return maker.model(maker.requantized(maker.op(op, a, b), *result))


def unary(op: str, x: Numbers, result: Numbers, **attrs: object) -> onnx.ModelProto:
    maker = QdqModel()
    y = maker.op(op, maker.requantized(maker.input("a", SHAPE), *x), **attrs)
    return maker.model(maker.requantized(y, *result))


def fused(second: Numbers) -> onnx.ModelProto:
    maker = QdqModel()
    x = maker.requantized(maker.input("a", SHAPE), 0.1, 3)
    weights = maker.weights(np.full((8, 8, 1, 1), 5, np.int8), 0.01)
    b = maker.requantized(maker.input("b", SHAPE), *second)
    conv = maker.requantized(maker.op("Conv", x, weights), 0.1, 3)
    return maker.model(maker.requantized(maker.op("Add", conv, b), 0.1, 3))


POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
A, B, C = (0.1, 3), (0.07, -9), (0.13, 5)

OTHER_PROGRAMS: dict[str, tuple[onnx.ModelProto, onnx.ModelProto]] = {
    "factors of 1": (binary("Add", A, A, A), binary("Add", A, B, A)),
    "a factor of 1": (binary("Sub", A, (0.2, 3), A), binary("Sub", A, B, A)),
    "zero points of 0": (binary("Mul", (0.1, 0), A, C), binary("Mul", A, A, C)),
    "the other zero point": (binary("Mul", A, (0.1, 0), C), binary("Mul", (0.1, 0), (0.1, 0), C)),
    "a maximum as it is": (unary("MaxPool", A, A, **POOL), unary("MaxPool", A, B, **POOL)),
    "a leaky relu": (
        unary("LeakyRelu", (0.1, 0), B, alpha=0.1),
        unary("LeakyRelu", A, B, alpha=0.1),
    ),
    "a fused sum": (fused(A), fused(B)),
}
SAME_PROGRAM: dict[str, tuple[onnx.ModelProto, onnx.ModelProto]] = {
    "factors": (binary("Add", A, B, C), binary("Add", B, C, A)),
    "zero points": (binary("Mul", A, B, C), binary("Mul", C, A, B)),
    "pools": (unary("MaxPool", A, B, **POOL), unary("MaxPool", C, A, **POOL)),
}


def last_layer(model: onnx.ModelProto) -> tuple[str, int]:
    """The key of the last layer, and its number of instructions."""
    graphs = accelerator_graphs(load_onnx(model.SerializeToString()), VARIANT)
    kind = layer_kinds(graphs)[-1]
    functions = lower_node(kind.graph, kind.node, VARIANT)
    counts = [count_instructions(item.schedule.func, VARIANT, item.views) for item in functions]
    return kind.key, sum(counts)


@pytest.mark.parametrize("name", OTHER_PROGRAMS)
def test_other_instructions_are_another_key(name: str) -> None:
    (first, one), (second, other) = map(last_layer, OTHER_PROGRAMS[name])
    assert one != other and first != second


@pytest.mark.parametrize("name", SAME_PROGRAM)
def test_other_immediates_are_the_same_key(name: str) -> None:
    first, second = map(last_layer, SAME_PROGRAM[name])
    assert first == second
