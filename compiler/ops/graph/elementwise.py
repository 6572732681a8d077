"""Elementwise operators of floats, on maps that have their channels last."""

from collections.abc import Callable, Sequence

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.ops.batch_norm import gain_and_offset
from daedal.compiler.graph.ops.registry import number, text
from daedal.compiler.ops.graph.maps import LANES
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.tir.expr import Expr, FloatImm, IntImm

__all__ = ["LOWERINGS"]

Element = Callable[[Sequence[Expr]], Expr]
"""An operand at a place (n, h, w, block, lane)."""


def _operand(operation: GraphOperation, index: int) -> Element | None:
    """How an operand is read; None where reading it so costs more than a vector's operation."""
    name, kind = operation.node.inputs[index], operation.type(index)
    if operation.has_map(index):
        tensor = operation.map(index).tensor
        places = [axis for axis, extent in enumerate(tensor.shape[:3]) if extent == 1]
        return lambda i: tensor[
            tuple(IntImm(0) if axis in places else at for axis, at in enumerate(i))
        ]
    if not operation.graph.is_constant(name):
        return None
    value = operation.graph.constant(name)
    if value.size == 1:
        return lambda _: FloatImm(float(value.reshape(())), "float32")
    channels = operation.kind.shape[1]
    if kind.rank >= 3 and value.size == channels and kind.shape[-3] == channels:
        lanes = operation.per_lane(value.reshape(-1), -(-channels // LANES), "float32")
        return lambda i: lanes[i[-2], i[-1]]
    return None


def _shape(operation: GraphOperation) -> tuple[int, ...] | None:
    """The shape in memory of the result: that of an operand; None where no map has it."""
    for index in range(len(operation.node.inputs)):
        if operation.has_map(index) and operation.type(index).shape == operation.kind.shape:
            return operation.map(index).tensor.shape
    return None


def _suits(operation: GraphOperation) -> bool:
    """Whether all operands are maps, of which one has the result's shape, or constants."""
    return _shape(operation) is not None and all(
        operation.has_map(index)
        if not operation.graph.is_constant(name)
        else _operand(operation, index) is not None
        for index, name in enumerate(operation.node.inputs)
    )


def _lowered(formula: Callable[[GraphOperation, list[Expr]], Expr]) -> GraphLowering:
    def lower(operation: GraphOperation) -> te.Tensor:
        shape = _shape(operation)
        operands = [_operand(operation, index) for index in range(len(operation.node.inputs))]
        assert shape is not None

        def element(*i: Expr) -> Expr:
            return formula(operation, [read(i) for read in operands if read is not None])

        return operation.compute(shape, element)

    return GraphLowering(lower, suits=_suits)


def _leaky_relu(operation: GraphOperation, x: list[Expr]) -> Expr:
    slope = float(np.float32(number(operation.node.attrs, "slope")))
    return te.select(x[0] < 0.0, x[0] * slope, x[0])


def _clip(operation: GraphOperation, x: list[Expr]) -> Expr:
    low, high = (float(np.float32(number(operation.node.attrs, name))) for name in ("low", "high"))
    value = x[0] if low == -np.inf else _at_least(x[0], low)
    return value if high == np.inf else te.select(value > high, high, value)


def _at_least(x: Expr, low: float) -> Expr:
    """The larger one; what is not a number stays, as x86's own instruction has it."""
    return te.select(x < low, low, x)


def _activation(operation: GraphOperation, x: list[Expr]) -> Expr:
    return _FUNCTIONS[text(operation.node.attrs, "function")](x[0])


_FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "gelu": lambda x: x * 0.5 * (te.erf(x * float(np.float32(np.sqrt(0.5)))) + 1.0),
    "hard_swish": lambda x: x * te.clip(x * float(np.float32(1 / 6)) + 0.5, 0.0, 1.0),
    "sigmoid": te.sigmoid,
    "tanh": te.tanh,
}


def _lower_batch_norm(operation: GraphOperation) -> te.Tensor:
    """A gain and an offset per channel."""
    x = operation.map(0).tensor
    parameters = [operation.constant(index) for index in range(1, 5)]
    values = gain_and_offset(parameters, number(operation.node.attrs, "epsilon"))
    gain, offset = (operation.per_lane(value, x.shape[-2], "float32") for value in values)
    return operation.compute(x.shape, lambda *i: x[i] * gain[i[-2], i[-1]] + offset[i[-2], i[-1]])


def _suits_batch_norm(operation: GraphOperation) -> bool:
    names = operation.node.inputs[1:]
    return operation.has_map(0) and all(operation.graph.is_constant(name) for name in names)


LOWERINGS = {
    "activation": _lowered(_activation),
    "add": _lowered(lambda _, x: x[0] + x[1]),
    "batch_norm": GraphLowering(_lower_batch_norm, suits=_suits_batch_norm),
    "clip": _lowered(_clip),
    "leaky_relu": _lowered(_leaky_relu),
    "mul": _lowered(lambda _, x: x[0] * x[1]),
    "relu": _lowered(lambda _, x: _at_least(x[0], 0.0)),
    "sub": _lowered(lambda _, x: x[0] - x[1]),
}
"""By operator."""
