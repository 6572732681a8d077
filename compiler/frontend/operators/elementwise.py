"""Add, Sub, Mul, Relu, LeakyRelu, Clip, activations by formula, Softmax and LogSoftmax."""

import math

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode

__all__ = [
    "import_activation",
    "import_add",
    "import_clip",
    "import_leaky_relu",
    "import_log_softmax",
    "import_mul",
    "import_relu",
    "import_softmax",
    "import_sub",
]

_ACTIVATIONS = {"Gelu": "gelu", "HardSwish": "hard_swish", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def import_add(context: ImportContext, node: OnnxNode) -> None:
    """Add-7 to -14, with broadcasting."""
    context.emit(node, "add", [context.operand(node, 0), context.operand(node, 1)])


def import_sub(context: ImportContext, node: OnnxNode) -> None:
    """Sub-7 to -14, with broadcasting."""
    context.emit(node, "sub", [context.operand(node, 0), context.operand(node, 1)])


def import_mul(context: ImportContext, node: OnnxNode) -> None:
    """Mul-7 to -14, with broadcasting."""
    context.emit(node, "mul", [context.operand(node, 0), context.operand(node, 1)])


def import_leaky_relu(context: ImportContext, node: OnnxNode) -> None:
    """LeakyRelu-6 and -16."""
    slope = node.real("alpha", 0.01)
    if not math.isfinite(slope):
        raise node.damaged(f"alpha must be finite, not {slope}")
    context.emit(node, "leaky_relu", [context.operand(node, 0)], slope=slope)


def import_activation(context: ImportContext, node: OnnxNode) -> None:
    """Gelu-20 without approximation, HardSwish-14, Sigmoid-6 to -13, Tanh-6 to -13."""
    node.expect(approximate="none")
    operand = context.operand(node, 0)
    context.emit(node, "activation", [operand], function=_ACTIVATIONS[node.op_type])


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
    if math.isnan(bounds["low"]) or math.isnan(bounds["high"]) or bounds["low"] > bounds["high"]:
        raise node.damaged(
            f"the lower bound must not exceed the upper, not {bounds['low']} to {bounds['high']}"
        )
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
