"""`TileSpace`: register tiles of a reduction on a processor, and the order of loops around them.

Input: the candidates that `reuse` makes of a formula. Without records the compiler takes the one
with the fewest estimated cycles: the default.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.products import joined_terms, product_candidates
from daedal.compiler.ops.cpu.reuse import Candidate, Registers, Tiles, tile_candidates
from daedal.compiler.ops.listed_space import ListedSpace, Row
from daedal.compiler.ops.space import Config, Table
from daedal.compiler.tir.expr import Buffer, Reduce

__all__ = ["TileSpace", "tile_space"]

Reals = npt.NDArray[np.float64]

_KNOBS = ("lane_axis", "lanes", "row_axis", "rows", "row_axis2", "rows2", "order")
_PRODUCT_KNOBS = ("row_axis3", "rows3", "product")


class TileSpace(ListedSpace[Candidate]):
    """All register tiles of a kernel.

    A knob is the number of an axis or the extent of the tile along it; tiles have up to two axes of
    rows, and an extent of 1 where they have fewer. `order` is 1 where results of a row follow each
    other, and 0 where each vector goes by all that it is multiplied with. Where some tiles are
    products of matrices, all have up to three axes of rows, and `product` is the rows of a product,
    or 0.

    Parameters
    ----------
    candidates : at least one.
    results, terms : of the reduction: elements, and products of each.
    """

    def __init__(self, candidates: Sequence[Candidate], results: int, terms: int) -> None:
        found: dict[Row, Candidate] = {}
        has_products = any(candidate.tiles.product for candidate in candidates)
        for candidate in candidates:
            for row, tiles in _ordered(candidate.tiles):
                values = (*row, *_product_values(tiles)) if has_products else row
                found.setdefault(values, replace(candidate, tiles=tiles))
        super().__init__((*_KNOBS, *_PRODUCT_KNOBS) if has_products else _KNOBS, found)
        self._work = results * terms

    def tiles(self, config: Config) -> Tiles:
        """The tile of a configuration. Raises ScheduleError where it is none of this space."""
        return self.chosen(config).tiles

    def cycles(self, table: Table) -> Reals:
        """See `Space`."""
        return self._work * np.array([item.cycles for item in self.items(table)])

    def features(self, table: Table) -> dict[str, Reals]:
        """See `Space`."""
        found = self.items(table)
        rows = [math.prod(extent for _, extent in item.tiles.rows) for item in found]
        features = {
            "lanes": table["lanes"].astype(np.float64),
            "rows": np.array(rows, np.float64),
            "order": table["order"].astype(np.float64),
            "products": np.array([float(item.products) for item in found]),
            "loaded": np.array([float(item.loaded) for item in found]),
            "computed": self._work * np.array([item.computed for item in found]),
            "slower": np.array([item.slower for item in found]),
        }
        if "product" in table:
            features["product"] = table["product"].astype(np.float64)
        return features


def tile_space(
    reduction: te.Tensor, constants: Collection[Buffer], registers: Registers
) -> TileSpace | None:
    """All register tiles of a reduction; None where no axis suits a vector.

    `constants` are buffers whose layout may be chosen.
    """
    formula = reduction.value
    assert isinstance(formula, Reduce)
    given = reduction.axes, ELEMENT_BYTES[reduction.dtype], constants, registers
    terms = math.prod(axis.extent for axis in formula.axes)
    found = [
        *tile_candidates(formula.value, *given, terms=terms),
        *product_candidates(joined_terms(formula), *given),
    ]
    return TileSpace(found, math.prod(reduction.shape), terms) if found else None


def _ordered(tiles: Tiles) -> Iterator[tuple[Row, Tiles]]:
    """The tile with its values, in one or both orders of the loops around it, its own first."""
    (axis, rows), (axis2, rows2) = (*tiles.rows, (0, 1), (0, 1))[:2]
    values = (tiles.vector, tiles.lanes, axis, rows, axis2, rows2)
    orders = list(enumerate(tiles.orders))
    for order, other in sorted(orders, key=lambda item: item[1].outer != tiles.outer):
        yield (*values, order), other


def _product_values(tiles: Tiles) -> Row:
    """The third axis of rows, and the rows of a product."""
    axis, rows = (*tiles.rows, (0, 1), (0, 1), (0, 1))[2]
    return axis, rows, 0 if tiles.product is None else tiles.product[0]
