"""`TileSpace`: register tiles of a reduction on a processor, and the order of loops around them.

Input: the candidates that `reuse` makes of a formula. Without records the compiler takes the one
with the fewest estimated cycles: the default.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.reuse import Candidate, Registers, Tiles, tile_candidates
from daedal.compiler.ops.space import Config, Space, Table
from daedal.compiler.tir.expr import Buffer, Reduce

__all__ = ["TileSpace", "tile_space"]

Reals = npt.NDArray[np.float64]
Row = tuple[int, ...]
"""The values of a configuration."""

_KNOBS = ("lane_axis", "lanes", "row_axis", "rows", "row_axis2", "rows2", "order")


class TileSpace(Space):
    """All register tiles of a kernel.

    A knob is the number of an axis or the extent of the tile along it; tiles have up to two axes of
    rows, and an extent of 1 where they have fewer. `order` is 1 where the loops along which the
    vector's operand stays in place are outside of the others.

    Parameters
    ----------
    candidates : at least one.
    results, terms : of the reduction: elements, and products of each.
    """

    def __init__(self, candidates: Sequence[Candidate], results: int, terms: int) -> None:
        self._found: dict[Row, Candidate] = {}
        for candidate in candidates:
            for row, tiles in _ordered(candidate.tiles):
                self._found.setdefault(row, replace(candidate, tiles=tiles))
        self._work = results * terms

    def tiles(self, config: Config) -> Tiles:
        """The tile of a configuration. Raises ScheduleError where it is none of this space."""
        table = self.table([config])
        if not self.fits(table)[0]:
            raise ScheduleError(f"a register tile must be one of {self}; {config} is not")
        return self._of(table)[0].tiles

    @property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        """See `Space`."""
        columns = zip(*self._found, strict=True)
        return {knob: sorted(set(column)) for knob, column in zip(_KNOBS, columns, strict=True)}

    def fits(self, table: Table) -> npt.NDArray[np.bool_]:
        """See `Space`: whether it is a candidate."""
        return np.array([row in self._found for row in _rows(table)], dtype=np.bool_)

    def all(self) -> Table:
        """See `Space`; in the order of the candidates: the default is the first of the best."""
        columns = zip(*self._found, strict=True)
        return {
            knob: np.array(column, dtype=np.int64)
            for knob, column in zip(_KNOBS, columns, strict=True)
        }

    def cycles(self, table: Table) -> Reals:
        """See `Space`."""
        return self._work * np.array([item.cycles for item in self._of(table)])

    def features(self, table: Table) -> dict[str, Reals]:
        """See `Space`."""
        found = self._of(table)
        return {
            "lanes": table["lanes"].astype(np.float64),
            "rows": (table["rows"] * table["rows2"]).astype(np.float64),
            "order": table["order"].astype(np.float64),
            "products": np.array([float(item.products) for item in found]),
            "loaded": np.array([float(item.loaded) for item in found]),
            "computed": self._work * np.array([item.computed for item in found]),
            "slower": np.array([item.slower for item in found]),
        }

    def _of(self, table: Table) -> list[Candidate]:
        """The candidates of configurations that fit."""
        return [self._found[row] for row in _rows(table)]

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        return f"{len(self._found)} register tiles"


def tile_space(
    reduction: te.Tensor, constants: Collection[Buffer], registers: Registers
) -> TileSpace | None:
    """All register tiles of a reduction; None where no axis suits a vector.

    `constants` are buffers whose layout may be chosen.
    """
    formula = reduction.value
    assert isinstance(formula, Reduce)
    found = list(
        tile_candidates(
            formula.value,
            reduction.axes,
            ELEMENT_BYTES[reduction.dtype],
            constants,
            registers,
        )
    )
    terms = math.prod(axis.extent for axis in formula.axes)
    return TileSpace(found, math.prod(reduction.shape), terms) if found else None


def _rows(table: Table) -> Iterator[Row]:
    return zip(*(table[knob].tolist() for knob in _KNOBS), strict=True)


def _ordered(tiles: Tiles) -> Iterator[tuple[Row, Tiles]]:
    """The tile with its values, in one or both orders of the loops around it."""
    (axis, rows), (axis2, rows2) = (*tiles.rows, (0, 1), (0, 1))[:2]
    values = (tiles.vector, tiles.lanes, axis, rows, axis2, rows2)
    yield (*values, 0), tiles
    if 0 < tiles.num_held < len(tiles.outer):
        held, free = tiles.outer[: tiles.num_held], tiles.outer[tiles.num_held :]
        yield (*values, 1), replace(tiles, outer=(*free, *held), num_held=0)
