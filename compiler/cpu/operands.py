"""Operands of reductions that are copied first, because no axis suits vectors as they lie.

Queries times keys sum over the last axis of both. A copy of the keys with their rows last makes
these the lanes::

    s[i, j] = sum(q[i, k] * key[j, k])        t[k, j] = key[j, k]; s[i, j] = sum(q[i, k] * t[k, j])
"""

import math
from collections.abc import Collection, Sequence

from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.reuse import NARROW, tile_candidates
from daedal.compiler.tir.expr import Axis, Buffer, Call, Expr, Load, Reduce, Var
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.visit import free_vars, loads, rewrite, substitute, walk

__all__ = ["laid_out"]

REUSE = 8
"""Times that an element must be read for its copy to pay: to copy it takes about a nanosecond, and
each product is an eighth of that shorter."""

Copies = dict[tuple[Buffer, str], te.Tensor]


def laid_out(
    formula: Reduce, axes: Sequence[Axis], constants: Collection[Buffer], copies: Copies
) -> tuple[Reduce, list[te.Tensor]]:
    """The formula, which reads copies of operands where that makes lanes of one of `axes`; and the
    copies that are new.

    Parameters
    ----------
    axes : of the result.
    constants : they can be laid out beforehand.
    copies : those that exist; new ones are added.
    """
    if _suits(formula.value, axes, formula.dtype, constants):
        return formula, []
    for axis in reversed(axes):  # lanes of the last one are stored side by side
        apart = [load for load in loads(formula.value) if _moves_apart(load, axis)]
        if not all(_is_worth_a_copy(load, formula, axes, constants) for load in apart):
            continue
        made: dict[Expr, Expr] = {}
        added = list[te.Tensor]()
        for load in apart:
            made[load], tensor = _copied(load, axis, copies)
            added += [] if tensor is None else [tensor]
        value = rewrite(formula.value, made.get)
        if apart and _suits(value, axes, formula.dtype, constants):
            for tensor in added:
                copies[_key(tensor)] = tensor
            return Reduce(formula.op, value, formula.axes), added
    return formula, []


def _suits(value: Expr, axes: Sequence[Axis], dtype: str, constants: Collection[Buffer]) -> bool:
    found = tile_candidates(value, axes, ELEMENT_BYTES[dtype], constants, NARROW)
    return next(found, None) is not None


def _moves_apart(load: Load, axis: Axis) -> bool:
    """Whether what lies along `axis` does not lie side by side."""
    if all(axis not in free_vars(index) for index in load.indices):
        return False
    return accessed_element(load).coefficient(axis) != 1


def _is_worth_a_copy(
    load: Load, formula: Reduce, axes: Sequence[Axis], constants: Collection[Buffer]
) -> bool:
    """Whether its elements are read often enough, one by one and inside the buffer."""
    if load.buffer in constants or load.pad_value is not None:
        return False
    if any(load in loads(node) for node in walk(formula.value) if _is_grouped(node)):
        return False
    terms = math.prod(axis.extent for axis in (*axes, *formula.axes))
    return terms >= REUSE * math.prod(axis.extent for axis in _axes(load))


def _is_grouped(node: Expr) -> bool:
    return isinstance(node, Call) and node.name in DOT_PRODUCTS


def _axes(load: Load) -> list[Axis]:
    """The axes along which it moves, each once."""
    found = (var for index in load.indices for var in free_vars(index))
    return [var for var in dict.fromkeys(found) if isinstance(var, Axis)]


def _copied(load: Load, last: Axis, copies: Copies) -> tuple[Load, te.Tensor | None]:
    """What reads a copy with `last` as its last dimension, and the copy if it is a new one."""
    order = [axis for axis in _axes(load) if axis is not last] + [last]
    own = [Axis(f"i{number}", extent=axis.extent) for number, axis in enumerate(order)]
    values: dict[Var, Expr] = dict(zip(order, own, strict=True))
    shape = tuple(axis.extent for axis in order)
    made = te.Tensor("t", shape, load.dtype, "global", tuple(own), substitute(load, values))
    known = copies.get(_key(made))
    return Load(known or made, tuple(order)), None if known else made


def _key(tensor: te.Tensor) -> tuple[Buffer, str]:
    """Equal for copies with the same elements."""
    assert isinstance(tensor.value, Load)
    return tensor.value.buffer, str(tensor.value.indices)
