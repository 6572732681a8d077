"""`combination_groups`: small constant matrices times tiles, two after each other in one kernel.

A transform of a tile (`compiler.ops.graph.winograd`) multiplies its rows and then its columns by a
matrix, and each row of that is a formula of its own (`compiler.ops.graph.combined`), which the
element's number along an axis chooses. A kernel computes all elements of a tile: numbers along its
axes are known there, so each element has one formula, and what the first product makes stays in the
cache::

    for tile:
        for column, u: r[u, column] = row u of the matrix . x[:, column]
        for u, v:      y[u, v]      = row v of the matrix . r[u, :]
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.tir.expr import Axis, Binary, Buffer, Compare, Expr, IntImm, Load, Select
from daedal.compiler.tir.visit import loads

__all__ = [
    "Combination",
    "alternatives",
    "choosing_axis",
    "combination_groups",
    "is_combination",
]


@dataclass(frozen=True)
class Combination:
    """A tensor whose tiles are computed as a whole.

    Attributes
    ----------
    stage : the tensor of the first product, of which a tile of the second one reads a part.
    tile : axes of the second one, and how many elements along each are a tile.
    """

    stage: te.Tensor
    tile: tuple[tuple[int, int], ...]


def is_combination(formula: Expr) -> bool:
    """Whether an element's number along an axis chooses among formulas, one for each number."""
    choice = _choice(formula)
    if choice is None:
        return False
    number, count = 0, choice[1]
    while _choice(formula) == choice:
        assert isinstance(formula, Select) and isinstance(formula.condition, Compare)
        if formula.condition.b != IntImm(number):
            return False
        formula, number = formula.false, number + 1
    return number == count - 1


def alternatives(formula: Expr) -> list[Expr]:
    """The formulas of a combination, by the number that chooses them; else the formula alone."""
    found = []
    while isinstance(formula, Select) and _choice(formula) is not None:
        found.append(formula.true)
        formula = formula.false
    return [*found, formula]


def choosing_axis(formula: Expr) -> Axis | None:
    """The axis whose number chooses a formula, if there is one."""
    choice = _choice(formula)
    return None if choice is None else choice[0]


def _choice(formula: Expr) -> tuple[Axis, int] | None:
    """The axis whose number chooses, and after how many elements the choices repeat."""
    match formula:
        case Select(Compare("==", Axis() as axis, IntImm()), _, _):
            return axis, axis.extent
        case Select(Compare("==", Binary("%", Axis() as axis, IntImm(size)), IntImm()), _, _):
            return axis, size
    return None


def combination_groups(
    formulas: Mapping[te.Tensor, Expr],
    readers: Mapping[Buffer, Sequence[te.Tensor]],
    apart: Collection[Buffer],
) -> dict[te.Tensor, Combination]:
    """Combinations of combinations.

    Parameters
    ----------
    formulas : of all tensors that would be in memory.
    readers : among these.
    apart : those that must be in memory.
    """
    found: dict[te.Tensor, Combination] = {}
    for tensor, formula in formulas.items():
        if not is_combination(formula):
            continue
        for stage in dict.fromkeys(load.buffer for load in loads(formula)):
            if (
                isinstance(stage, te.Tensor)
                and stage not in apart
                and readers.get(stage) == [tensor]
                and is_combination(formulas[stage])
            ):
                tile = _tile(tensor, formula, stage, formulas[stage])
                if tile is not None:
                    found[tensor] = Combination(stage, tile)
    stages = {item.stage for item in found.values()}
    return {tensor: item for tensor, item in found.items() if tensor not in stages}


def _tile(
    tensor: te.Tensor, formula: Expr, stage: te.Tensor, before: Expr
) -> tuple[tuple[int, int], ...] | None:
    """The tile of `tensor` that reads one tile of `stage`; None where there is none."""
    choice, first = _choice(formula), _choice(before)
    assert choice is not None and first is not None
    sizes = {choice[0]: choice[1]}
    chosen = stage.axes.index(first[0])
    read = [load for load in loads(formula) if load.buffer is stage]
    indices = {load.indices[chosen] for load in read}
    if len(indices) > 1:
        return None
    match indices.pop():
        case Axis() as axis if axis.extent == stage.shape[chosen]:
            sizes[axis] = axis.extent
        case Binary("%", Axis() as axis, IntImm(size)) if size == stage.shape[chosen]:
            sizes[axis] = size
        case _:
            return None
    if len(sizes) < 2 or not all(_is_inside(load, sizes) for load in read):
        return None
    return tuple((tensor.axes.index(axis), size) for axis, size in sizes.items())


def _is_inside(load: Load, sizes: Mapping[Axis, int]) -> bool:
    """Whether all that one tile reads is in one tile."""
    if load.pad_value is not None:
        return False
    for index in load.indices:
        match index:
            case Axis() as axis if axis not in sizes or sizes[axis] == axis.extent:
                pass
            case Binary("//" | "%", Axis() as axis, IntImm(size)) if sizes.get(axis) == size:
                pass
            case IntImm():
                pass
            case _:
                return False
    return True
