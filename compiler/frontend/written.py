"""`WrittenPatterns`: what recognizes an operator that a model writes out in small ones shares."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.frontend.attributes import attribute

__all__ = ["WrittenPatterns"]


class WrittenPatterns:
    """Looks back from a node of a model.

    Parameters
    ----------
    nodes : of the model.
    constant : the value of a constant by name, or None for other tensors.
    shape : the static shape of a float32 tensor by name, or None if there is none.
    """

    def __init__(
        self,
        nodes: Iterable[onnx.NodeProto],
        constant: Callable[[str], npt.NDArray[np.generic] | None],
        shape: Callable[[str], tuple[int, ...] | None],
    ) -> None:
        self.producers = {name: node for node in nodes for name in node.output if name}
        self.constant = constant
        self.shape = shape

    def producer(self, name: str, *op_types: str) -> onnx.NodeProto | None:
        """The node that gives a tensor, if it is one of these operators."""
        node = self.producers.get(name)
        return node if node is not None and node.op_type in op_types else None

    def number(self, name: str) -> float | None:
        """The value of a constant of one element."""
        value = self.constant(name) if name else None
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def quotients(self, node: onnx.NodeProto) -> list[tuple[str, str]]:
        """Dividend and divisor, in the orders that the operands may have: of a Div, or of a Mul by
        a reciprocal."""
        if node.op_type == "Div":
            return [(node.input[0], node.input[1])]
        if node.op_type != "Mul":
            return []
        found = []
        for x, factor in (tuple(node.input), tuple(reversed(node.input))):
            inverse = self.producer(factor, "Reciprocal", "Div")
            if inverse is not None and inverse.op_type == "Reciprocal":
                found.append((x, inverse.input[0]))
            elif inverse is not None and self.number(inverse.input[0]) == 1:
                found.append((x, inverse.input[1]))
        return found

    def reduced_axis(self, node: onnx.NodeProto) -> int | None:
        """The one axis that a reduction is over, if it keeps it."""
        axes = attribute(node, "axes")
        if axes is None and len(node.input) > 1:
            axes = self.constant(node.input[1])
        shape = self.shape(node.input[0])
        if axes is None or shape is None or len(axes) != 1 or not attribute(node, "keepdims", 1):
            return None
        return int(axes[0]) % len(shape)
