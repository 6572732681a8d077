"""`ConvSpace`: the schedules of a convolution on a variant.

The knobs are those of `ConvTile`: rows, columns and blocks. `turns` is the number of tiles of
output blocks whose weights stay on chip, 0 if they are streamed; `gather` is the value of a
`Gather`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.lower_bound import least_cycles
from daedal.compiler.ops.accelerator.conv.bound import ConvBound
from daedal.compiler.ops.accelerator.conv.cost import ConvCost, ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.conv2d import Gather
from daedal.compiler.space import Column, Config, Space, Table
from daedal.isa.errors import ScheduleError
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["ConvSpace", "best_tile", "columns_of_tiles", "decode", "useful_gathers"]

NEARLY = 0.0025
"""Estimates that differ by less than this share count as equal."""

_Mask = npt.NDArray[np.bool_]
_GATHERS = list(Gather)


class ConvSpace(Space):
    """All tiles of a convolution that fit the scratchpads.

    A tile leaves space to load the next one meanwhile, unless no tile does.

    Parameters
    ----------
    shapes : the convolution with each useful `Gather`.
    overlap : whether units work at the same time. Without it, a tile may take whole scratchpads.
    """

    def __init__(
        self, shapes: Sequence[ConvShape], variant: Variant, *, overlap: bool = True
    ) -> None:
        self._shapes = {_GATHERS.index(shape.gather): shape for shape in shapes}
        self._shape = shapes[0]
        self._capacity = Capacity(variant, 1)
        self.variant = variant
        self._costs = {
            number: ConvCost(shape, variant, overlap) for number, shape in self._shapes.items()
        }
        self._overlap = overlap
        self._copies = 2 if overlap else 1
        self._all = super().all()
        if overlap and not len(self._all["gather"]):
            self._copies = 1
            self._all = super().all()

    def all(self) -> Table:
        return self._all

    def on(self, variant: Variant) -> "ConvSpace":
        return ConvSpace(list(self._shapes.values()), variant, overlap=self._overlap)

    def shape_of(self, config: Config) -> ConvShape:
        """The convolution with the `Gather` of `config`."""
        return self._shapes[config["gather"]]

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        shape = self._shape
        blocks = tile_sizes(shape.out_blocks)
        steps = {-(-shape.out_blocks // count) for count in blocks}
        turns = sorted({size for count in steps for size in tile_sizes(count)}, reverse=True)
        return {
            "gather": list(self._shapes),
            "height": tile_sizes(shape.height),
            "width": tile_sizes(shape.width),
            "out_blocks": blocks,
            "in_blocks": tile_sizes(shape.in_blocks),
            "turns": [0, *turns],
            "keep_inputs": [0, 1],
            "tap_rows": tile_sizes(shape.kernel[0]),
            "tap_columns": tile_sizes(shape.kernel[1]),
        }

    def possible(self, table: Table) -> _Mask:
        found = np.ones(len(table["gather"]), dtype=np.bool_)
        if "width" in table:
            found &= (table["width"] == self._shape.width) | (table["height"] == 1)
        if "out_blocks" in table:
            found &= self._holds_results(table)
        if "turns" in table:
            found &= self._is_useful(table)
        return found

    def _holds_results(self, table: Table) -> _Mask:
        """Whether accumulators, results and parameters of a tile fit."""
        shape, capacity = self._shape, self._capacity
        vectors = table["out_blocks"] * shape.out_parts
        rows = vectors * table["height"] * table["width"] * self._copies
        params = (vectors * shape.classes + shape.tail.requantizes) * self._copies
        most = min(capacity.acc // shape.accumulators, capacity.out)
        holds: _Mask = (rows <= most) & (params <= capacity.par)
        return holds

    def _is_useful(self, table: Table) -> _Mask:
        """Operands that are used only once are streamed; windows are cut where a whole one does not
        fit, and rows before columns."""
        turns, tiles = table["turns"], _ceil(self._shape.out_blocks, table["out_blocks"])
        some = np.maximum(turns, 1)
        # Groups of nearly equal size.
        even = _ceil(tiles, _ceil(tiles, some)) == some
        found = (turns == 0) | ((self._maps(table) > 1) & (turns <= tiles) & even)
        if "keep_inputs" in table:
            found &= (table["keep_inputs"] == 0) | (np.where(turns > 0, turns, tiles) > 1)
        if "tap_columns" in table:
            rows, columns = self._shape.kernel
            rows_cut, columns_cut = table["tap_rows"] < rows, table["tap_columns"] < columns
            whole = ~rows_cut & ~columns_cut
            streamed = (table["in_blocks"] == 1) & (table["keep_inputs"] == 0)
            found &= whole | (streamed & (~columns_cut | (table["tap_rows"] == 1)))
        useful: _Mask = found
        return useful

    def _maps(self, table: Table) -> Column:
        """Tiles of the maps."""
        shape = self._shape
        tiles = _ceil(shape.height, table["height"]) * _ceil(shape.width, table["width"])
        return tiles * shape.batches

    def fits(self, table: Table) -> _Mask:
        def operands_fit(shape: ConvShape, _cost: ConvCost, tiles: Table) -> _Mask:
            copies, group = self._copies, tiles["group"]
            groups = np.where(group > 0, _ceil(shape.out_blocks, np.maximum(group, 1)), 1)
            taps = tiles["tap_rows"], tiles["tap_columns"]
            kept = shape.in_blocks * np.where(self._maps(tiles) * groups > 1, copies, 1)
            steps = np.where(tiles["keep_inputs"] > 0, kept, tiles["in_blocks"] * copies)
            inputs = shape.input_rows(tiles["height"], tiles["width"], taps) * steps
            reloads = groups * (shape.batches if shape.groups > 1 else 1)
            kept = group * shape.in_blocks * np.where(reloads > 1, copies, 1) * shape.weight_rows()
            streamed = tiles["out_blocks"] * tiles["in_blocks"] * copies * shape.weight_rows(taps)
            weights = np.where(group > 0, kept, streamed)
            fit: _Mask = (inputs <= self._capacity.inp) & (weights <= self._capacity.wgt)
            return fit

        fitting: _Mask = self.possible(table) & self._evaluate(operands_fit, table, np.bool_)
        return fitting

    def cycles(self, table: Table) -> npt.NDArray[np.float64]:
        return self._evaluate(lambda _, cost, tiles: cost.cycles(tiles), table, np.float64)

    def bound(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        def least(shape: ConvShape, _cost: ConvCost, tiles: Table) -> npt.NDArray[np.float64]:
            work = ConvBound(shape, self.variant).work(tiles)
            return least_cycles(work, self.variant, memory)

        return self._evaluate(least, table, np.float64)

    def features(self, table: Table) -> dict[str, npt.NDArray[np.float64]]:
        tiles = columns_of_tiles(table)
        found = {"gather": table["gather"].astype(np.float64)}
        for number, cost in self._costs.items():
            chosen = table["gather"] == number
            part = cost.features({name: column[chosen] for name, column in tiles.items()})
            for name, column in part.items():
                found.setdefault(name, np.zeros(len(chosen)))[chosen] = column
        return found

    @property
    def default(self) -> Config:
        """Of the configurations that cost nearly the least, the one with the fewest instructions.

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        config, *_ = self.configs(self._ranked(NEARLY))
        return config

    def ranked(self) -> list[Config]:
        """Every configuration, the one with the fewest estimated cycles first.

        Raises ScheduleError as `default`.
        """
        return self.configs(self._ranked(0))

    def _ranked(self, nearly: float) -> Table:
        table = self._all
        if not len(table["gather"]):
            shape, memory = self._shape, self.variant.memory
            raise ScheduleError(
                f"an output vector of a convolution must fit scratchpads 'acc' "
                f"({memory.acc_bytes} bytes) and 'out' ({memory.out_bytes} bytes), and its "
                f"{shape.classes * shape.out_parts} parameter rows 'par' ({memory.par_bytes} "
                "bytes); use a variant with larger scratchpads"
            )
        # Windows are cut only where whole ones do not fit.
        taps = dict(zip(("tap_rows", "tap_columns"), self._shape.kernel, strict=True))
        cut = np.any([table[name] < whole for name, whole in taps.items()], axis=0)
        uncut = {**table, **{name: np.full_like(cut, n, np.int64) for name, n in taps.items()}}
        needed = ~cut | ~self.fits(uncut)
        table = {knob: column[needed] for knob, column in table.items()}
        cycles = self.cycles(table)
        close = cycles <= cycles.min() * (1 + nearly)
        counts = self._evaluate(lambda _, cost, tiles: cost.instructions(tiles), table, np.float64)
        # Equal estimates differ in what the bus has to spare.
        beats = self._evaluate(lambda _, cost, tiles: cost.beats(tiles), table, np.float64)
        order = np.lexsort((beats, cycles, np.where(close & (nearly > 0), counts, np.inf)))
        return {knob: column[order] for knob, column in table.items()}

    def _evaluate(
        self,
        function: Callable[[ConvShape, ConvCost, Table], npt.NDArray[Any]],
        table: Table,
        dtype: type[np.generic],
    ) -> npt.NDArray[Any]:
        """`function` of all rows, those of each `Gather` with its shape and cost."""
        tiles = columns_of_tiles(table)
        result = np.zeros(len(table["gather"]), dtype)
        for number, shape in self._shapes.items():
            chosen = table["gather"] == number
            if chosen.any():
                part = {name: column[chosen] for name, column in tiles.items()}
                result[chosen] = function(shape, self._costs[number], part)
        return result


def best_tile(shapes: Sequence[ConvShape], variant: Variant) -> tuple[Gather, ConvTile]:
    """The default of the space of `shapes`."""
    return _best(tuple(shapes), variant)


@lru_cache(maxsize=1024)
def _best(shapes: tuple[ConvShape, ...], variant: Variant) -> tuple[Gather, ConvTile]:
    return decode(ConvSpace(shapes, variant).default, shapes[0])


def decode(config: Config, shape: ConvShape) -> tuple[Gather, ConvTile]:
    """The decisions of a configuration."""
    taps = config["tap_rows"], config["tap_columns"]
    tile = ConvTile(
        config["height"],
        config["width"],
        config["out_blocks"],
        config["in_blocks"],
        config["turns"] * config["out_blocks"],
        bool(config["keep_inputs"]),
        taps=None if taps == shape.kernel else taps,
    )
    return _GATHERS[config["gather"]], tile


def useful_gathers(shape: ConvShape) -> list[Gather]:
    """Every `Gather` that may pay for this convolution, whatever `shape.gather` is."""
    kernel, stride = shape.kernel[0], shape.strides[0]
    if kernel == 1:
        return [Gather.ROWS if stride > 1 else Gather.NOTHING]
    # Windows of several rows share them, unless rows are skipped in a window or between windows.
    apart = shape.dilations[0] > 1 or stride >= kernel
    return [Gather.NOTHING, *([Gather.ROWS] if apart else [])]


def columns_of_tiles(table: Table) -> Table:
    """Columns of the fields of `ConvTile`."""
    group = table["turns"] * table["out_blocks"]
    return {"group": group, **{name: table[name] for name in table if name not in _OTHERS}}


_OTHERS = ("gather", "turns")


def _ceil(extent: int | Column, size: Column) -> Column:
    return -(-extent // size)
