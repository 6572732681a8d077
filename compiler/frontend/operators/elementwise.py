"""Arithmetic of two or more operands, Relu, LeakyRelu, Clip, Softmax and LogSoftmax."""

import math
from collections.abc import Mapping

import numpy as np

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.record import (
    ACCELERATOR,
    BY_ROWS,
    FLOAT,
    HOST,
    ImportedOperator,
)

__all__ = ["OPERATORS"]


def import_add(context: ImportContext, node: OnnxNode) -> None:
    """Add-7 to -14, with broadcasting."""
    context.emit(node, "add", [context.operand(node, 0), context.operand(node, 1)])


def import_sub(context: ImportContext, node: OnnxNode) -> None:
    """Sub-7 to -14, with broadcasting."""
    context.emit(node, "sub", [context.operand(node, 0), context.operand(node, 1)])


def import_mul(context: ImportContext, node: OnnxNode) -> None:
    """Mul-7 to -14, with broadcasting."""
    context.emit(node, "mul", [context.operand(node, 0), context.operand(node, 1)])


def import_div(context: ImportContext, node: OnnxNode) -> None:
    """Div-7 to -14 of reals by a constant: a product with its reciprocal."""
    x, divisor = context.operand(node, 0), context.required_constant(node, 1)
    reals = context.builder.types[x].dtype == "float32" and divisor.dtype == np.float32
    with np.errstate(divide="ignore", over="ignore"):
        reciprocal = (1 / divisor.astype(np.float64)).astype(np.float32)
    if not reals or not np.all(np.isfinite(divisor)) or not np.all(np.isfinite(reciprocal)):
        raise node.refuse("a divisor must be of finite reals, not 0 or next to it", "use Mul")
    factor = context.add_constant(f"{node.outputs[0]}.reciprocal", reciprocal)
    context.emit(node, "mul", [x, factor])


def import_sum(context: ImportContext, node: OnnxNode) -> None:
    """Sum-8 to -13, with broadcasting: additions one after the other."""
    _import_chain(context, node, "add")


def import_max(context: ImportContext, node: OnnxNode) -> None:
    """Max-8 to -13, with broadcasting: of a tensor and one number a clip at one end, else maxima
    one after the other."""
    values = [context.constant_value(name) for name in node.inputs]
    if len(values) == 2 and any(value is not None and value.size == 1 for value in values):
        import_bound(context, node)
    else:
        _import_chain(context, node, "maximum")


def _import_chain(context: ImportContext, node: OnnxNode, op: str) -> None:
    """An operator of two operands for one of two or more."""
    result, *others = [context.operand(node, index) for index in range(len(node.inputs))]
    if not others:
        raise node.refuse("it must have two operands or more", "remove the node")
    for name in others[:-1]:
        partial = context.builder.fresh_name(f"{node.outputs[0]}.partial")
        result = context.builder.add(op, [result, name], output=partial, name=node.name)
    context.emit(node, op, [result, others[-1]])


def import_bound(context: ImportContext, node: OnnxNode) -> None:
    """Max-8 to -13 and Min-8 to -13 of a tensor and one number: a clip at one end."""
    values = [context.constant_value(name) for name in node.inputs]
    numbers = [value for value in values if value is not None and value.size == 1]
    if len(values) != 2 or len(numbers) != 1 or math.isnan(float(numbers[0].reshape(()))):
        raise node.refuse(
            "the accelerator has no minimum of two tensors, only of one and a constant",
            "the host computes it",
        )
    x = 1 if values[1] is None or values[1].size != 1 else 0
    bound = float(numbers[0].reshape(()))
    if context.operand_type(node, x).rank < numbers[0].ndim:
        raise node.refuse("the number must have no more dimensions than the tensor", "use Clip")
    bounds = (bound, math.inf) if node.op_type == "Max" else (-math.inf, bound)
    context.emit(node, "clip", [context.operand(node, x)], low=bounds[0], high=bounds[1])


def import_hard_sigmoid(context: ImportContext, node: OnnxNode) -> None:
    """HardSigmoid-6 to -22: a line between bounds."""
    slope, offset = node.real("alpha", 0.2), node.real("beta", 0.5)
    if not math.isfinite(slope) or not math.isfinite(offset):
        raise node.damaged(f"alpha and beta must be finite, not {slope} and {offset}")
    line = context.operand(node, 0)
    for op, value in (("mul", slope), ("add", offset)):
        name = context.builder.fresh_name(f"{node.outputs[0]}.{op}")
        factor = context.add_constant(f"{name}.number", np.array(value, np.float32))
        line = context.builder.add(op, [line, factor], output=name, name=node.name)
    context.emit(node, "clip", [line], low=0.0, high=1.0)


def import_leaky_relu(context: ImportContext, node: OnnxNode) -> None:
    """LeakyRelu-6 and -16."""
    slope = node.real("alpha", 0.01)
    if not math.isfinite(slope):
        raise node.damaged(f"alpha must be finite, not {slope}")
    context.emit(node, "leaky_relu", [context.operand(node, 0)], slope=slope)


def import_relu(context: ImportContext, node: OnnxNode) -> None:
    """Relu-6 to -14."""
    context.emit(node, "relu", [context.operand(node, 0)])


def import_clip(context: ImportContext, node: OnnxNode) -> None:
    """Clip-6 (bounds as attributes) to -13 (bounds as constant operands)."""
    bounds = {"low": -math.inf, "high": math.inf}
    if context.opset < 11:
        # Source: ONNX Clip-6, whose defaults are the extremes of float32.
        bounds = {"low": node.real("min", -math.inf), "high": node.real("max", math.inf)}
    else:
        for index, name in ((1, "low"), (2, "high")):
            if node.input(index) is not None:
                value = context.required_constant(node, index)
                if value.size != 1:
                    raise node.damaged("bounds must be scalars")
                bounds[name] = float(value.reshape(()))
    if math.isnan(bounds["low"]) or math.isnan(bounds["high"]):
        raise node.refuse("bounds must be numbers, not NaN", "repair the model")
    # Source: ONNX Clip-13: where the lower bound exceeds the upper, all elements become the upper.
    bounds["low"] = min(bounds["low"], bounds["high"])
    context.emit(node, "clip", [context.operand(node, 0)], **bounds)


def import_softmax(context: ImportContext, node: OnnxNode) -> None:
    """Softmax-1 to -13."""
    _import_softmax(context, node, "softmax")


def import_log_softmax(context: ImportContext, node: OnnxNode) -> None:
    """LogSoftmax-1 to -13."""
    _import_softmax(context, node, "log_softmax")


def _import_softmax(context: ImportContext, node: OnnxNode, op: str) -> None:
    """Until opset 12 all axes from `axis` on are normalized together, from 13 on only `axis`.

    Source: ONNX Softmax-1, -11, -13.
    """
    rank = context.operand_type(node, 0).rank
    axis = node.integer("axis", -1 if context.opset >= 13 else 1)
    if not -rank <= axis < rank:
        raise node.damaged(f"axis must lie in {rank} dimensions, not {axis}")
    first = axis % rank
    axes = (first,) if context.opset >= 13 else tuple(range(first, rank))
    context.emit(node, op, [context.operand(node, 0)], axes=axes)


_PAIR = "both operands quantized, or one of them a constant number; one has the shape of the result"
_BOUND = "of a tensor and one constant number"

OPERATORS: Mapping[str, ImportedOperator] = {
    "Add": ImportedOperator(import_add, ACCELERATOR, _PAIR),
    "Clip": ImportedOperator(import_clip, ACCELERATOR, "constant bounds"),
    "Div": ImportedOperator(import_div, ACCELERATOR, "by one positive number"),
    "HardSigmoid": ImportedOperator(import_hard_sigmoid, ACCELERATOR, "a positive alpha"),
    "HardSwish": ImportedOperator(
        None,
        ACCELERATOR,
        "if 8 bits are enough for the factor HardSigmoid(x)",
    ),
    "LeakyRelu": ImportedOperator(import_leaky_relu, ACCELERATOR),
    "LogSoftmax": ImportedOperator(import_log_softmax, HOST, FLOAT),
    "Max": ImportedOperator(import_max, ACCELERATOR, _PAIR),
    "Min": ImportedOperator(import_bound, ACCELERATOR, _BOUND),
    "Mul": ImportedOperator(import_mul, ACCELERATOR, _PAIR),
    "Relu": ImportedOperator(import_relu, ACCELERATOR),
    "Softmax": ImportedOperator(import_softmax, HOST, BY_ROWS),
    "Sub": ImportedOperator(import_sub, ACCELERATOR, _PAIR),
    "Sum": ImportedOperator(import_sum, ACCELERATOR, "of two operands, as Add"),
}
