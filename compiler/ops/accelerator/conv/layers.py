"""`ConvLayers`: the schedules of several convolutions, enumerated and estimated together.

A network has dozens of convolutions, each with some hundred tiles that fit: for arrays of that
length, numpy's calls cost more than their work. Here the tiles of all layers share the columns, and
the numbers of their shapes become columns, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.conv.cost import ConvCost
from daedal.compiler.ops.accelerator.conv.rules import ConvRules
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.fused_tail import FusedTail
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, chosen
from daedal.compiler.ops.conv2d import Gather
from daedal.compiler.ops.space import Column, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["GATHERS", "ORDERS", "ConvLayers", "columns_of_tiles", "conv_knobs"]

GATHERS = list(Gather)
"""By the values of knob ``gather``."""


ORDERS: Mapping[str, Sequence[int]] = {"threads": [1, 2], "sums_outside": [0, 1]}
"""Knobs that only change the order of a tile's work, not its size. The default has the first value
of each: which one is best, measurements tell better than the estimate."""


def conv_knobs(shapes: Sequence[ConvShape]) -> Mapping[str, Sequence[int]]:
    """The knobs of a convolution with each useful `Gather`, without `ORDERS`."""
    shape = shapes[0]
    blocks = tile_sizes(shape.out_blocks)
    steps = {-(-shape.out_blocks // count) for count in blocks}
    turns = sorted({size for count in steps for size in tile_sizes(count)}, reverse=True)
    return {
        "gather": [GATHERS.index(shape.gather) for shape in shapes],
        "height": tile_sizes(shape.height),
        "width": tile_sizes(shape.width),
        "out_blocks": blocks,
        "in_blocks": tile_sizes(shape.in_blocks),
        "turns": [0, *turns],
        "keep_inputs": [0, 1],
        "tap_rows": tile_sizes(shape.kernel[0]),
        "tap_columns": tile_sizes(shape.kernel[1]),
    }


def columns_of_tiles(table: Table) -> Table:
    """Columns of the fields of `ConvTile`."""
    group = table["turns"] * table["out_blocks"]
    return {"group": group, **{name: table[name] for name in table if name not in _OTHERS}}


_OTHERS = ("gather", "turns", "layer")


class ConvLayers:
    """Convolutions, each given by its shapes with each useful `Gather`."""

    def __init__(self, layers: Sequence[Sequence[ConvShape]]) -> None:
        self._count = len(layers)
        knobs = [conv_knobs(shapes) for shapes in layers]
        self._knobs = {name: _Ragged([item[name] for item in knobs]) for name in knobs[0]}
        self._shapes = _Stack([shape for shapes in layers for shape in shapes])
        self._numbers = np.zeros((self._count, len(GATHERS)), dtype=np.int64)
        number = 0
        for layer, shapes in enumerate(layers):
            for shape in shapes:
                self._numbers[layer, GATHERS.index(shape.gather)] = number
                number += 1

    def all(
        self, variant: Variant, *, overlap: bool = True, whole: bool = False
    ) -> tuple[Table, Column]:
        """The tiles that fit, layer by layer, each in the order of the knobs; and how many tiles of
        each layer fit at once. Column ``layer`` is the number of the layer. `whole` is that of
        `ConvRules`."""
        copies = np.full(self._count, 2 if overlap else 1)
        table = self._fitting(variant, np.arange(self._count), copies, whole)
        missing = np.setdiff1d(np.arange(self._count), table["layer"])
        if overlap and len(missing):
            copies[missing] = 1
            others = self._fitting(variant, missing, copies, whole)
            table = {name: np.concatenate([table[name], others[name]]) for name in table}
            table = chosen(table, np.argsort(table["layer"], kind="stable"))
        return table, copies

    def least(self, variant: Variant, memory: MemoryModel = DDR) -> Floats:
        """The least estimate of each layer with a memory; infinite where nothing fits."""
        return self.least_rows(variant, memory)[0]

    def least_rows(
        self, variant: Variant, memory: MemoryModel = DDR
    ) -> tuple[Floats, Mapping[int, Mapping[str, float]]]:
        """`least`, and by the number of a layer that fits, the `LayerSpace.features` of its
        tiles."""
        table, _ = self.all(variant, whole=MemoryCost.of(memory).slows_words)
        found = np.full(self._count, np.inf)
        layers = table["layer"]
        if not len(layers):
            return found, {}
        cost = ConvCost(self._shape(table), variant, overlap=True, memory=memory)
        begins = np.flatnonzero(np.diff(layers, prepend=-1))
        cycles = cost.cycles(columns_of_tiles(table))
        found[layers[begins]] = np.minimum.reduceat(cycles, begins)
        hits = np.flatnonzero(cycles == found[layers])
        numbers, firsts = np.unique(layers[hits], return_index=True)
        rows = chosen(table, hits[firsts])
        features = ConvCost(self._shape(rows), variant, overlap=True).features(
            columns_of_tiles(rows)
        )
        return found, {
            number: {name: float(column[place]) for name, column in features.items()}
            for place, number in enumerate(numbers.tolist())
        }

    def _fitting(self, variant: Variant, layers: Column, copies: Column, whole: bool) -> Table:
        capacity = Capacity(variant, 1)
        table: Table = {"layer": layers}
        for knob, values in self._knobs.items():
            counts, column = values.of(table["layer"])
            table = {name: np.repeat(held, counts) for name, held in table.items()}
            table = {**table, knob: column}
            if knob in _RULED:
                rules = ConvRules(capacity, copies[table["layer"]], whole=whole)
                table = chosen(table, np.asarray(rules.after(knob, self._shape(table), table)))
        rules = ConvRules(capacity, copies[table["layer"]], whole=whole)
        return chosen(table, rules.fits(self._shape(table), table))

    def _shape(self, table: Table) -> ConvShape:
        """The shapes of the rows."""
        return self._shapes.rows(self._numbers[table["layer"], table["gather"]])


_RULED = ("width", "out_blocks", "in_blocks", "turns", "keep_inputs", "tap_rows", "tap_columns")
"""Knobs that `ConvRules.after` has a rule for."""


class _Ragged:
    """Lists of different lengths."""

    def __init__(self, lists: Sequence[Sequence[int]]) -> None:
        self._values = np.array([value for values in lists for value in values], dtype=np.int64)
        self._counts = np.array([len(values) for values in lists], dtype=np.int64)
        self._begins = np.cumsum(self._counts) - self._counts

    def of(self, numbers: Column) -> tuple[Column, Column]:
        """The lengths of some of the lists, and their values in sequence."""
        counts = self._counts[numbers]
        skipped = self._begins[numbers] - (np.cumsum(counts) - counts)
        return counts, self._values[np.repeat(skipped, counts) + np.arange(counts.sum())]


class _Columns(ConvShape):
    """A shape whose numbers are columns, one value for each row of a table."""

    @property
    def weight_sets(self) -> Any:
        return np.where(np.greater(self.groups, 1), self.batches, 1)

    @property
    def skips_columns(self) -> Any:
        return np.logical_and(self.skips_padding, np.greater(self.pads[1], 0))

    @property
    def gathers_rows(self) -> Any:
        return self.gather

    def _reach(
        self, height: Extent, width: Extent, taps: tuple[Extent, Extent]
    ) -> tuple[Extent, Extent]:
        rows, columns = self._spans(height, width, taps)
        return np.where(self.gathers_rows, height * taps[0], rows), columns


class _Stack:
    """The numbers of several shapes, as columns."""

    def __init__(self, shapes: Sequence[ConvShape]) -> None:
        self._fields = {
            spec.name: _stacked([getattr(shape, spec.name) for shape in shapes])
            for spec in fields(ConvShape)
        }

    def rows(self, numbers: Column) -> ConvShape:
        """A shape with columns: those of the shapes of these numbers."""
        return _Columns(**{name: _taken(field, numbers) for name, field in self._fields.items()})


def _stacked(values: Sequence[Any]) -> Any:
    """A number if all are equal, else a column of them; the same for each part of structures."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(_stacked([value[part] for value in values]) for part in range(len(first)))
    if isinstance(first, FusedTail):
        parts = {spec.name: [getattr(v, spec.name) for v in values] for spec in fields(FusedTail)}
        return replace(first, **{name: _stacked(part) for name, part in parts.items()})
    if isinstance(first, Gather):
        return _stacked([value is not Gather.NOTHING for value in values])
    return first if all(value == first for value in values) else np.array(values)


def _taken(field: Any, numbers: Column) -> Any:
    if isinstance(field, tuple):
        return tuple(_taken(part, numbers) for part in field)
    if isinstance(field, FusedTail):
        parts = {spec.name: getattr(field, spec.name) for spec in fields(FusedTail)}
        return FusedTail(**{name: _taken(part, numbers) for name, part in parts.items()})
    return field[numbers] if isinstance(field, np.ndarray) else field
