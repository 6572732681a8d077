"""`with_output`: a function that stores its result elsewhere: in a part of a tensor, or each tile
where it lies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.lower import lower, mark_lowered
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.stmt import BufferStore, For, PrimFunc, Stmt

__all__ = ["with_output"]


def with_output(
    func: PrimFunc,
    shape: Sequence[int],
    placed: Callable[[BufferStore, Mapping[Var, int]], Stmt],
) -> PrimFunc:
    """`func` as plain loops, with an output of another `shape`.

    `placed` makes of each store in the output, given with the new buffer and the old indices, and
    of the extents of the loops around it, what stands there; its indices must be simplified.
    """
    lowered = lower(func)
    (output,) = lowered.outputs
    buffer = Buffer(output.name, tuple(shape), output.dtype, output.scope)

    def visit(stmt: Stmt, extents: Mapping[Var, int]) -> Stmt:
        if isinstance(stmt, For):
            extents = {**extents, stmt.var: stmt.extent}
        if isinstance(stmt, BufferStore) and stmt.buffer is output:
            return placed(replace(stmt, buffer=buffer), extents)
        return rebuilt(stmt, lambda expr: expr, lambda part: visit(part, extents))

    params = (*lowered.inputs, buffer)
    return mark_lowered(replace(lowered, params=params, body=visit(lowered.body, {})))
