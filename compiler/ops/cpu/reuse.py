"""Which axes of a reduction suit vectors and register tiles.

An axis suits a vector where every operand either stays in place along it or moves by one element
(constants can be laid out so that they do). Along another axis on which the vector's operand stays
in place, the loaded vector is used again: that axis is tiled, with one accumulator per iteration.
Source: the register blocking of Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34(3), 2008.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load
from daedal.compiler.tir.linear import Linear, linear
from daedal.compiler.tir.visit import free_vars, loads

__all__ = ["Tiles", "choose_tiles", "divisors", "strides"]

VECTOR_BYTES = 64
ACCUMULATORS = 12
"""Vectors of 64 bytes that are accumulated at once."""


@dataclass(frozen=True)
class Tiles:
    """The axes of a register tile, by their positions, and its extents.

    `packed` are the constants to lay out with the vector's axis innermost.
    """

    vector: int
    lanes: int
    tile: int | None
    rows: int
    packed: tuple[Buffer, ...] = ()


def divisors(extent: int, limit: int) -> list[int]:
    """The divisors of `extent` up to `limit`, ascending."""
    return [number for number in range(1, min(extent, limit) + 1) if extent % number == 0]


def strides(load: Load) -> Linear:
    """The number of the element that `load` reads, as an affine form."""
    total, step = Linear((), 0), 1
    for index, extent in zip(reversed(load.indices), reversed(load.buffer.shape), strict=True):
        form = linear(index)
        scaled = tuple((term, factor * step) for term, factor in form.terms)
        total = total + Linear(scaled, form.constant * step)
        step *= extent
    return total


def choose_tiles(
    value: Expr, axes: Sequence[Axis], element_bytes: int, constants: Collection[Buffer]
) -> Tiles | None:
    """The register tile of a reduction over `value`, or None where no axis suits a vector.

    Parameters
    ----------
    axes : of the result.
    element_bytes : of an accumulator.
    constants : buffers whose layout may be chosen.
    """
    read = loads(value)
    places = {load: strides(load) for load in read}
    limit = 2 * VECTOR_BYTES // element_bytes
    best: tuple[float, Tiles] | None = None
    for number, axis in enumerate(axes):
        packed = _packed(read, places, axis, constants)
        if packed is None:
            continue
        one = VECTOR_BYTES // element_bytes
        lanes = max(divisors(axis.extent, limit), key=lambda n: (n / (one * -(-n // one)), n))
        if lanes < 4:
            continue
        vectors = -(-lanes // one)
        moving = [load for load in read if axis in _vars(places[load])]
        tile, rows = _tile(places, moving, axes, number, max(1, ACCUMULATORS // vectors))
        score = lanes / (one * vectors) * min(rows * vectors, ACCUMULATORS)
        if best is None or score > best[0]:
            best = score, Tiles(number, lanes, tile, rows, packed)
    return None if best is None else best[1]


def _vars(form: Linear) -> set[object]:
    return {var for term, _ in form.terms for var in free_vars(term)}


def _packed(
    read: Sequence[Load], places: dict[Load, Linear], axis: Axis, constants: Collection[Buffer]
) -> tuple[Buffer, ...] | None:
    """The constants to lay out anew for vectors along `axis`; None where it suits none."""
    moves, packed = False, []
    for load in read:
        form = places[load]
        if any(term is not axis and axis in free_vars(term) for term, _ in form.terms):
            return None
        step = form.coefficient(axis)
        if step not in (0, 1):
            if load.buffer not in constants or not _is_index(load, axis):
                return None
            packed.append(load.buffer)
        moves = moves or step != 0
    return tuple(packed) if moves else None


def _is_index(load: Load, axis: Axis) -> bool:
    """Whether one index of `load` is `axis`, over its whole dimension, and no other has it."""
    used = [number for number, index in enumerate(load.indices) if axis in free_vars(index)]
    return (
        len(used) == 1
        and load.indices[used[0]] is axis
        and load.buffer.shape[used[0]] == axis.extent
    )


def _tile(
    places: dict[Load, Linear],
    moving: Sequence[Load],
    axes: Sequence[Axis],
    vector: int,
    limit: int,
) -> tuple[int | None, int]:
    """The axis along which all loaded vectors stay in place, with the most rows, and these."""
    best: tuple[int | None, int] = None, 1
    for number, axis in reversed(list(enumerate(axes))):
        if number == vector or any(axis in _vars(places[load]) for load in moving):
            continue
        rows = divisors(axis.extent, limit)[-1]
        if rows > best[1]:
            best = number, rows
    return best
