"""Axes of which every operand and the result have the elements one after the other become one.

A 1x1 convolution walks over rows and columns of a map; over its pixels it has fewer tiles that are
not full. An elementwise operator has one long loop of vectors instead of short ones.
"""

from daedal.compiler import te
from daedal.compiler.tir.expr import Axis, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import element_number
from daedal.compiler.tir.visit import children, free_vars, rewrite, substitute

__all__ = ["merged"]


def merged(result: te.Tensor, reduction: te.Tensor | None) -> tuple[te.Tensor, te.Tensor | None]:
    """Both with as few axes as possible; `reduction`, which has the result's axes, is read by it.

    The elements lie in memory as before.
    """
    for position in reversed(range(len(result.axes) - 1)):
        tensors = [result] if reduction is None else [result, reduction]
        if all(_follow(tensor, position, reduction) for tensor in tensors):
            joined = None if reduction is None else _joined(reduction, position, None, None)
            result = _joined(result, position, reduction, joined)
            reduction = joined
    return result, reduction


def _follow(tensor: te.Tensor, position: int, reduction: te.Tensor | None) -> bool:
    """Whether axis `position` and the next one can be one in the formula of `tensor`."""
    outer, inner = tensor.axes[position : position + 2]
    assert tensor.value is not None
    return 1 in (outer.extent, inner.extent) or _alike(tensor.value, outer, inner, reduction)


def _alike(value: Expr, outer: Axis, inner: Axis, reduction: te.Tensor | None) -> bool:
    """Whether all that a formula reads lies along `outer` as behind the end of `inner`."""
    if isinstance(value, Var):
        return value is not outer and value is not inner
    if not isinstance(value, Load):
        return all(_alike(part, outer, inner, reduction) for part in children(value))
    used = {var for index in value.indices for var in free_vars(index)}
    if value.buffer is reduction or used.isdisjoint((outer, inner)):
        return True
    form = element_number(value.indices, value.buffer.shape)
    mixed = any(
        term is not outer and term is not inner and not {outer, inner}.isdisjoint(free_vars(term))
        for term, _ in form.terms
    )
    follows = form.coefficient(outer) == inner.extent * form.coefficient(inner)
    return value.pad_value is None and not mixed and follows


def _joined(
    tensor: te.Tensor, position: int, reduction: te.Tensor | None, joined: te.Tensor | None
) -> te.Tensor:
    """`tensor` with one axis instead of two; it reads `joined` instead of `reduction`."""
    outer, inner = tensor.axes[position : position + 2]
    axis = Axis(outer.name, extent=outer.extent * inner.extent)
    axes = (*tensor.axes[:position], axis, *tensor.axes[position + 2 :])
    values: dict[Var, Expr] = {outer: axis // inner.extent, inner: axis % inner.extent}
    if inner.extent == 1:
        values = {outer: axis, inner: IntImm(0)}
    elif outer.extent == 1:
        values = {outer: IntImm(0), inner: axis}

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and reduction is not None and node.buffer is reduction:
            assert joined is not None
            return Load(joined, axes)
        return None

    assert tensor.value is not None
    value = substitute(rewrite(tensor.value, visit), values)
    shape = tuple(item.extent for item in axes)
    return te.Tensor(tensor.name, shape, tensor.dtype, "global", axes, value)
