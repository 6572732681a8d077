"""Results computed for whole tiles: what lies behind the end is computed of zeros, and not stored.

An axis of the reduction that its tiles do not divide is longer than what it reads; a product of
elements that are not there is 0.
"""

from collections.abc import Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.gpu.tiles import GpuTiles
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Axis, Expr, Load, Reduce, Var
from daedal.compiler.tir.linear import bounds
from daedal.compiler.tir.lower.outputs import with_output
from daedal.compiler.tir.stmt import BufferStore, If, PrimFunc, Stmt
from daedal.compiler.tir.visit import rewrite, substitute

__all__ = ["padded", "stored"]


def padded(result: te.Tensor, reduction: te.Tensor, tiles: GpuTiles) -> tuple[te.Tensor, te.Tensor]:
    """`result` and `reduction` with axes that the tiles divide."""
    formula = reduction.value
    assert isinstance(formula, Reduce) and result.value is not None
    reduced = _longer(formula.axes, tiles.depth)
    axes = _longer(reduction.axes, tiles.block)
    value = _value(formula.value, (*reduction.axes, *formula.axes), (*axes, *reduced))
    whole = _tensor(reduction, axes, Reduce(formula.op, value, reduced))

    def reading(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer is reduction:
            return Load(whole, node.indices)
        return None

    axes = _longer(result.axes, tiles.block)
    value = _value(rewrite(result.value, reading), result.axes, axes)
    return _tensor(result, axes, value), whole


def stored(func: PrimFunc, shape: Sequence[int]) -> PrimFunc:
    """`func` as plain loops, which store only what lies in a result of `shape`."""
    (output,) = func.outputs
    if output.shape == tuple(shape):
        return func

    def placed(store: BufferStore, extents: Mapping[Var, int]) -> Stmt:
        inside = all_of(
            [
                index < size
                for index, size in zip(store.indices, shape, strict=True)
                if (limits := bounds(index, extents)) is None or limits[1] >= size
            ]
        )
        return store if inside is None else If(inside, store)

    return with_output(func, shape, placed)


def _longer(axes: Sequence[Axis], sizes: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(
        Axis(axis.name, extent=-(-axis.extent // size) * size, kind=axis.kind)
        for axis, size in zip(axes, sizes, strict=True)
    )


def _value(value: Expr, old: Sequence[Axis], new: Sequence[Axis]) -> Expr:
    """`value` over longer axes: 0 is read where an operand ends."""
    values: dict[Var, Expr] = dict(zip(old, new, strict=True))
    extents: dict[Var, int] = {axis: axis.extent for axis in new}

    def inside(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.pad_value is not None:
            return None
        for index, size in zip(node.indices, node.buffer.shape, strict=True):
            limits = bounds(index, extents)
            if limits is None or limits[1] >= size:
                return Load(node.buffer, node.indices, 0)
        return None

    return rewrite(substitute(value, values), inside)


def _tensor(tensor: te.Tensor, axes: Sequence[Axis], value: Expr) -> te.Tensor:
    shape = tuple(axis.extent for axis in axes)
    return te.Tensor(tensor.name, shape, tensor.dtype, "global", tuple(axes), value)
