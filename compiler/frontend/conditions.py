"""Refuses models whose conditions can be neither true nor false.

Input: a ModelProto that onnx's checker accepts. Output: nothing, or a ModelError. A condition has
one element, as the number of a Loop's iterations has; the checker looks at neither.
"""

import math
from collections.abc import Iterator, Mapping

import onnx

from daedal.common.errors import ModelError

__all__ = ["check_conditions"]

_SINGLE = {"If": ((0, "condition"),), "Loop": ((0, "number of iterations"), (1, "condition"))}
"""Inputs that must have one element, and what they are.

Source: ONNX operators If and Loop: "tensor of one element".
"""


def check_conditions(model: onnx.ModelProto) -> None:
    """Raise ModelError for a condition that is known not to have one element."""
    _check(model.graph, {})


def _check(graph: onnx.GraphProto, outer: Mapping[str, int]) -> None:
    """Check a graph; `outer` has sizes of tensors of the graphs around it."""
    known = {**outer, **dict(_sizes(graph))}
    for node in graph.node:
        if node.domain in ("", "ai.onnx"):
            for place, what in _SINGLE.get(node.op_type, ()):
                name = node.input[place] if place < len(node.input) else ""
                if known.get(name, 1) != 1:
                    raise ModelError(
                        f"the {what} of an operator {node.op_type} must have one element, and "
                        f"{name!r} has {known[name]}; repair the model"
                    )
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _check(attribute.g, known)


def _sizes(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    """Numbers of elements of constants, and of other tensors with a known shape."""
    for item in (*graph.value_info, *graph.input):
        kind = item.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            yield item.name, math.prod(dim.dim_value for dim in kind.shape.dim)
    for value in graph.initializer:
        yield value.name, math.prod(value.dims)
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.name == "value":
                    yield node.output[0], math.prod(attribute.t.dims)
                elif attribute.name in ("value_ints", "value_floats"):
                    yield node.output[0], len(attribute.ints) + len(attribute.floats)
