"""`ConvRules`: which tiles of a convolution are useful and fit the scratchpads.

Input: the shape of the convolution, and tiles as columns. The numbers of a shape may be columns
themselves, one value for each tile: then the tiles are those of several convolutions.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity
from daedal.compiler.ops.accelerator.wide_results import result_rows
from daedal.compiler.ops.space import Column, Table

__all__ = ["ConvRules"]

_Mask = npt.NDArray[np.bool_]
_Taps = tuple[Extent, Extent]


class ConvRules:
    """The rules of one variant.

    Parameters
    ----------
    capacity : rows of the whole scratchpads.
    copies : how many tiles fit at once, 2 or 1.
    whole : whether the results of one tile, and weights that stay, may take whole scratchpads. Then
        more is loaded for a tile, and less of it again, but the next results wait for the STORE of
        these, and the next weights for the last products with these.
    """

    def __init__(self, capacity: Capacity, copies: Extent, *, whole: bool = False) -> None:
        self._capacity = capacity
        self._copies = copies
        self._whole = whole

    def allows(self, shape: ConvShape, table: Table) -> _Mask:
        """Whether rows with values for the first knobs of `ConvSpace` only can be completed."""
        found = np.ones(len(table["gather"]), dtype=np.bool_)
        for knob in table:
            found &= self.after(knob, shape, table)
        return found

    def after(self, knob: str, shape: ConvShape, table: Table) -> _Mask | bool:
        """What a value of `knob` adds to the rules of the knobs before it."""
        match knob:
            case "width":
                rows: _Mask = (table["width"] == shape.width) | (table["height"] == 1)
                return rows
            case "out_blocks":
                return self._holds_results(shape, table)
            case "in_blocks":
                return self._may_hold_operands(shape, table)
            case "turns":
                taps = _least_taps(shape, table["in_blocks"] > 1)
                fit = self._weights(shape, table, taps) <= self._capacity.wgt
                return _groups_weights(shape, table) & fit
            case "keep_inputs":
                taps = _least_taps(shape, (table["in_blocks"] > 1) | (table["keep_inputs"] > 0))
                fit = self._inputs(shape, table, taps) <= self._capacity.inp
                return _reuses_inputs(shape, table) & fit
            case "tap_rows":
                whole: _Mask = table["tap_rows"] == shape.kernel[0]
                return whole | _streams_inputs(table)
            case "tap_columns":
                return _cuts_windows(shape, table)
            case "threads":
                alone: _Mask = table["threads"] == 1
                return alone | self._interleaves(shape, table)
            case "sums_outside":
                inside: _Mask = table["sums_outside"] == 0
                return inside | _has_order(shape, table)
            case _:
                return True

    def fits(self, shape: ConvShape, table: Table) -> _Mask:
        """Whether inputs and weights of tiles fit."""
        taps = table["tap_rows"], table["tap_columns"]
        fit: _Mask = self._inputs(shape, table, taps) <= self._capacity.inp
        fit &= self._weights(shape, table, taps) <= self._capacity.wgt
        return fit

    def _inputs(self, shape: ConvShape, table: Table, taps: _Taps) -> Column:
        """Rows of INP that all copies take."""
        steps = np.where(_maps(shape, table) * _groups(shape, table) > 1, self._copies, 1)
        steps = np.where(
            table["keep_inputs"] > 0, shape.in_blocks * steps, table["in_blocks"] * self._copies
        )
        return np.asarray(shape.input_rows(table["height"], table["width"], taps) * steps)

    def _weights(self, shape: ConvShape, table: Table, taps: _Taps) -> Column:
        """Rows of WGT that all copies take."""
        blocks, group = table["out_blocks"], table["turns"] * table["out_blocks"]
        reloads = _groups(shape, table) * shape.weight_sets
        copies = np.where(reloads > 1, 1 if self._whole else self._copies, 1)
        kept = group * shape.in_blocks * copies * shape.weight_rows()
        streamed = blocks * table["in_blocks"] * self._copies * shape.weight_rows(taps)
        return np.where(group > 0, kept, streamed)

    def _holds_results(self, shape: ConvShape, table: Table) -> _Mask:
        """Whether accumulators, results and parameters of a tile fit."""
        capacity = self._capacity
        vectors = table["out_blocks"] * shape.out_parts
        results = vectors * table["height"] * table["width"]
        rows = results * self._copies
        params = (vectors * shape.classes + shape.tail.requantizes) * self._copies
        held = result_rows(capacity, shape.tail.stored)
        holds: _Mask = (rows <= capacity.acc // shape.accumulators) & (params <= capacity.par)
        holds &= (results if self._whole else rows) <= held
        return holds

    def _interleaves(self, shape: ConvShape, table: Table) -> _Mask:
        """Two threads take two tiles of output blocks, and the space of both."""
        turns, tiles = table["turns"], _ceil(shape.out_blocks, table["out_blocks"])
        useful: _Mask = (tiles > 1) & (turns % 2 == 0) & np.equal(self._copies, 2)
        return useful

    def _may_hold_operands(self, shape: ConvShape, table: Table) -> _Mask:
        """Whether the least that knobs still to come may leave of a step's operands fits."""
        taps = _least_taps(shape, table["in_blocks"] > 1)
        steps = np.minimum(table["in_blocks"] * self._copies, shape.in_blocks)
        inputs = shape.input_rows(table["height"], table["width"], taps) * steps
        weights = table["out_blocks"] * shape.weight_rows(taps) * steps
        holds: _Mask = (inputs <= self._capacity.inp) & (weights <= self._capacity.wgt)
        return holds


def _least_taps(shape: ConvShape, whole: _Mask) -> _Taps:
    """Rows and columns of a window's smallest part."""
    rows, columns = (np.where(whole, size, 1) for size in shape.kernel)
    return rows, columns


def _groups(shape: ConvShape, table: Table) -> Column:
    """Groups of output blocks whose weights stay in turn."""
    group = table["turns"] * table["out_blocks"]
    return np.where(group > 0, _ceil(shape.out_blocks, np.maximum(group, 1)), 1)


def _groups_weights(shape: ConvShape, table: Table) -> _Mask:
    """Weights that are used only once are streamed; groups have nearly equal sizes."""
    turns, tiles = table["turns"], _ceil(shape.out_blocks, table["out_blocks"])
    some = np.maximum(turns, 1)
    even = _ceil(tiles, _ceil(tiles, some)) == some
    useful: _Mask = (turns == 0) | ((_maps(shape, table) > 1) & (turns <= tiles) & even)
    return useful


def _reuses_inputs(shape: ConvShape, table: Table) -> _Mask:
    """Inputs that are used only once are streamed."""
    turns, tiles = table["turns"], _ceil(shape.out_blocks, table["out_blocks"])
    useful: _Mask = (table["keep_inputs"] == 0) | (np.where(turns > 0, turns, tiles) > 1)
    return useful


def _cuts_windows(shape: ConvShape, table: Table) -> _Mask:
    """Windows are cut where a whole one does not fit, and rows before columns."""
    rows, columns = shape.kernel
    rows_cut, columns_cut = table["tap_rows"] < rows, table["tap_columns"] < columns
    whole = ~rows_cut & ~columns_cut
    useful: _Mask = whole | (_streams_inputs(table) & (~columns_cut | (table["tap_rows"] == 1)))
    return useful


def _has_order(shape: ConvShape, table: Table) -> _Mask:
    """Whether a step has several products for an output, and several outputs."""
    taps = table["tap_rows"] * table["tap_columns"]
    sums = table["in_blocks"] * taps * shape.in_parts
    outputs = table["out_blocks"] * table["height"] * table["width"]
    return np.asarray((sums > 1) & (outputs > 1))


def _streams_inputs(table: Table) -> _Mask:
    """Whether inputs are streamed block by block; only then windows are cut."""
    streams: _Mask = (table["in_blocks"] == 1) & (table["keep_inputs"] == 0)
    return streams


def _maps(shape: ConvShape, table: Table) -> Column:
    """Tiles of the maps."""
    tiles = _ceil(shape.height, table["height"]) * _ceil(shape.width, table["width"])
    return np.asarray(tiles * shape.batches)


def _ceil(extent: Extent, size: Column) -> Column:
    return np.asarray(-(-extent // size))
