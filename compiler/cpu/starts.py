"""`started`: sums of integers that begin at a bias.

What is added to each sum is loaded before the reduction, where sums are set to 0 otherwise:
integers have one sum in any order::

    y[i, j] = f(r[i, j] + b[j]);  r[i, j] = sum(...)        y[i, j] = f(r[i, j]);  r begins at b[j]
"""

from collections.abc import Mapping

from daedal.compiler import te
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import Binary, Expr, Load, Reduce, Var
from daedal.compiler.tir.visit import free_vars, rewrite, substitute, walk

__all__ = ["started"]


def started(reduction: te.Tensor, result: te.Tensor) -> tuple[te.Tensor, Mapping[te.Tensor, Expr]]:
    """`result`, which reads only the sums where it added a bias to them, and at what `reduction`
    begins, over its axes; unchanged, and nothing, where there is no such bias."""
    formula, value = reduction.value, result.value
    assert isinstance(formula, Reduce) and value is not None
    if formula.op != "sum" or not is_integer(reduction.dtype):
        return result, {}
    nodes = list(walk(value))
    sums = [node for node in nodes if isinstance(node, Load) and node.buffer is reduction]
    added = [node for node in nodes if isinstance(node, Binary) and _is_added(node, reduction)]
    if len(set(added)) != 1 or len(sums) != len(added):
        return result, {}
    load, bias = sums[0], added[0].b
    places: dict[Var, Expr] = {
        index: axis
        for index, axis in zip(load.indices, reduction.axes, strict=True)
        if isinstance(index, Var)
    }
    start = substitute(bias, places)
    if not set(reduction.axes).issuperset(free_vars(start)):
        return result, {}

    def visit(node: Expr) -> Expr | None:
        return load if node == added[0] else None

    changed = rewrite(value, visit)
    tensor = te.Tensor(result.name, result.shape, result.dtype, "global", result.axes, changed)
    return tensor, {reduction: start}


def _is_added(node: Expr, reduction: te.Tensor) -> bool:
    match node:
        case Binary("+", Load(buffer), Load(other, _, None)):
            return buffer is reduction and other is not reduction
    return False
