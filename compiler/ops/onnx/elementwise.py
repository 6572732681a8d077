"""Operators that compute each element of the result from one element of each operand.

Source: ONNX, operators of the same names; broadcasting as "Multidirectional Broadcasting".
"""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operation
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]


def _unary(function: Callable[[Expr], Expr]) -> Lowering:
    def lower(operation: Operation) -> list[te.Tensor]:
        x = operation.operand(0)
        return [operation.compute(x.shape, lambda *i: function(x.broadcast(i)))]

    return lower


def _binary(function: Callable[[Expr, Expr], Expr]) -> Lowering:
    def lower(operation: Operation) -> list[te.Tensor]:
        a, b = operation.operand(0), operation.operand(1)
        return [
            operation.compute(
                operation.result.shape, lambda *i: function(a.broadcast(i), b.broadcast(i))
            )
        ]

    return lower


LOWERINGS: Mapping[str, Lowering] = {
    "Add": _binary(lambda a, b: a + b),
    "Mul": _binary(lambda a, b: a * b),
    "Relu": _unary(lambda x: te.maximum(x, 0)),
    "Sub": _binary(lambda a, b: a - b),
    "Tanh": _unary(te.tanh),
}
"""By operator."""
