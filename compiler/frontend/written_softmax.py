"""A softmax written out in small operators, recognized in ONNX nodes.

::

    e = Exp(Sub(x, ReduceMax(x)))       or Exp(x)
    y = Div(e, ReduceSum(e))            or Mul(e, Reciprocal(ReduceSum(e)))

Both reductions are over the same axis, and keep it.
"""

import onnx

from daedal.compiler.frontend.written import WrittenPatterns

__all__ = ["SoftmaxPatterns"]


class SoftmaxPatterns(WrittenPatterns):
    """Finds them."""

    def match(self, node: onnx.NodeProto) -> tuple[str, int] | None:
        """The operand of the softmax that `node` gives, and its axis; None if it is none."""
        for powers, total in self.quotients(node):
            exp, reduction = self.producer(powers, "Exp"), self.producer(total, "ReduceSum")
            if exp is None or reduction is None or reduction.input[0] != powers:
                continue
            axis = self.reduced_axis(reduction)
            if axis is None:
                continue
            difference = self.producer(exp.input[0], "Sub")
            if difference is not None and self._is_most(difference, axis):
                return difference.input[0], axis
            return exp.input[0], axis
        return None

    def _is_most(self, difference: onnx.NodeProto, axis: int) -> bool:
        """Whether the largest element along the axis is subtracted from all."""
        x, subtracted = difference.input
        most = self.producer(subtracted, "ReduceMax")
        return most is not None and most.input[0] == x and self.reduced_axis(most) == axis
