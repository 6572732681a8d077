"""The axes of a kernel as its operands lie in memory.

Axes of which every operand and the result have the elements one after the other become one: a 1x1
convolution walks over rows and columns of a map; over its pixels it has fewer tiles that are not
full. An axis of which formulas read ``i // k`` and ``i % k`` becomes two: within a group, all
channels of a grouped convolution read the same elements.
"""

from collections.abc import Collection

from daedal.compiler import te
from daedal.compiler.codegen.llvm.places import REPEATED
from daedal.compiler.tir.expr import Axis, Binary, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import accessed_element, simplify
from daedal.compiler.tir.visit import children, free_vars, rewrite, substitute, walk

__all__ = ["merged"]


def merged(
    result: te.Tensor, reduction: te.Tensor | None, rows: Collection[int] = ()
) -> tuple[te.Tensor, te.Tensor | None]:
    """Both with as few axes as possible; `reduction`, which has the result's axes, is read by it.

    The elements lie in memory as before. Axes in `rows`, by number, are not joined to those before
    them.
    """
    for position in reversed(range(len(result.axes))):
        tensors = [result] if reduction is None else [result, reduction]
        digits = {size for tensor in tensors for size in _digits(tensor, position)}
        is_last = reduction is None and position == len(result.axes) - 1
        if len(digits) == 1 and not (is_last and _repeats(result)):
            (size,) = digits
            parted = None if reduction is None else _parted(reduction, position, size, None, None)
            result = _parted(result, position, size, reduction, parted)
            reduction = parted
    for position in reversed(range(len(result.axes) - 1)):
        if position + 1 in rows:
            continue
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
    form = accessed_element(value)
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

    assert tensor.value is not None
    value = substitute(_reading(tensor.value, reduction, joined, axes), values)
    shape = tuple(item.extent for item in axes)
    return te.Tensor(tensor.name, shape, tensor.dtype, "global", axes, value)


def _digits(tensor: te.Tensor, position: int) -> set[int]:
    """By what a formula divides an axis, as far as it divides its extent."""
    axis = tensor.axes[position]
    assert tensor.value is not None
    return {
        node.b.value
        for node in walk(tensor.value)
        if isinstance(node, Binary) and node.op in ("//", "%") and node.a is axis
        if isinstance(node.b, IntImm) and 1 < node.b.value < axis.extent
        if axis.extent % node.b.value == 0
    }


def _repeats(tensor: te.Tensor) -> bool:
    """Whether a formula reads each element for several places of the last axis that lie side by
    side, as machine code does by full vectors."""
    axis = tensor.axes[-1]
    assert tensor.value is not None
    used = [node for node in walk(tensor.value) if any(part is axis for part in children(node))]
    return all(
        isinstance(node, Binary)
        and node.op == "//"
        and isinstance(node.b, IntImm)
        and node.b.value in REPEATED
        for node in used
    )


def _parted(
    tensor: te.Tensor,
    position: int,
    size: int,
    reduction: te.Tensor | None,
    parted: te.Tensor | None,
) -> te.Tensor:
    """`tensor` with two axes instead of one, the inner one of `size`; it reads `parted` instead of
    `reduction`."""
    axis = tensor.axes[position]
    outer = Axis(f"{axis.name}_outer", extent=axis.extent // size)
    inner = Axis(f"{axis.name}_inner", extent=size)
    axes = (*tensor.axes[:position], outer, inner, *tensor.axes[position + 1 :])
    assert tensor.value is not None
    value = substitute(
        _reading(tensor.value, reduction, parted, axes), {axis: outer * size + inner}
    )
    extents: dict[Var, int] = {item: item.extent for item in axes}
    shape = tuple(item.extent for item in axes)
    simple = simplify(value, extents)
    return te.Tensor(tensor.name, shape, tensor.dtype, "global", axes, simple)


def _reading(
    value: Expr, old: te.Tensor | None, new: te.Tensor | None, axes: tuple[Axis, ...]
) -> Expr:
    """A formula that reads `new` at `axes` instead of `old`."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and old is not None and node.buffer is old:
            assert new is not None
            return Load(new, axes)
        return None

    return rewrite(value, visit)
