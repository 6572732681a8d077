"""A softmax written out in small operators, recognized in ONNX nodes.

::

    e = Exp(Sub(x, ReduceMax(x)))       or Exp(x)
    y = Div(e, ReduceSum(e))            or Mul(e, Reciprocal(ReduceSum(e)))

Both reductions are over the same axis, and keep it.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.frontend.attributes import attribute

__all__ = ["SoftmaxPatterns"]


class SoftmaxPatterns:
    """Finds them; the parameters are those of `NormPatterns`."""

    def __init__(
        self,
        nodes: Iterable[onnx.NodeProto],
        constant: Callable[[str], npt.NDArray[np.generic] | None],
        shape: Callable[[str], tuple[int, ...] | None],
    ) -> None:
        self._producers = {name: node for node in nodes for name in node.output if name}
        self._constant = constant
        self._shape = shape

    def match(self, node: onnx.NodeProto) -> tuple[str, int] | None:
        """The operand of the softmax that `node` gives, and its axis; None if it is none."""
        for powers, total in self._quotients(node):
            exp, reduction = self._producer(powers, "Exp"), self._producer(total, "ReduceSum")
            if exp is None or reduction is None or reduction.input[0] != powers:
                continue
            axis = self._axis(reduction)
            if axis is None:
                continue
            difference = self._producer(exp.input[0], "Sub")
            if difference is not None and self._is_most(difference, axis):
                return difference.input[0], axis
            return exp.input[0], axis
        return None

    def _quotients(self, node: onnx.NodeProto) -> list[tuple[str, str]]:
        """Dividend and divisor, in the orders that the operands may have."""
        if node.op_type == "Div":
            return [(node.input[0], node.input[1])]
        if node.op_type != "Mul":
            return []
        pairs = (tuple(node.input), tuple(reversed(node.input)))
        inverses = [(x, self._producer(factor, "Reciprocal")) for x, factor in pairs]
        return [(x, inverse.input[0]) for x, inverse in inverses if inverse is not None]

    def _is_most(self, difference: onnx.NodeProto, axis: int) -> bool:
        """Whether the largest element along the axis is subtracted from all."""
        x, subtracted = difference.input
        most = self._producer(subtracted, "ReduceMax")
        return most is not None and most.input[0] == x and self._axis(most) == axis

    def _axis(self, node: onnx.NodeProto) -> int | None:
        """The one axis that a reduction is over, if it keeps it."""
        axes = attribute(node, "axes")
        if axes is None and len(node.input) > 1:
            axes = self._constant(node.input[1])
        shape = self._shape(node.input[0])
        if axes is None or shape is None or len(axes) != 1 or not attribute(node, "keepdims", 1):
            return None
        return int(axes[0]) % len(shape)

    def _producer(self, name: str, op_type: str) -> onnx.NodeProto | None:
        node = self._producers.get(name)
        return node if node is not None and node.op_type == op_type else None
