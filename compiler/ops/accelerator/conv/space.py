"""`ConvSpace`: the schedules of a convolution on a variant.

The knobs are those of `ConvTile`: rows, columns and blocks. `turns` is the number of tiles of
output blocks whose weights stay on chip, 0 if they are streamed; `gather` is the value of a
`Gather`. Besides, there are the knobs of `ORDERS`; the default leaves them alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.ops.accelerator.conv.bound import ConvBound
from daedal.compiler.ops.accelerator.conv.cost import ConvCost, ConvTile
from daedal.compiler.ops.accelerator.conv.instructions import ConvInstructions
from daedal.compiler.ops.accelerator.conv.layers import (
    GATHERS,
    ORDERS,
    ConvLayers,
    columns_of_tiles,
    conv_knobs,
)
from daedal.compiler.ops.accelerator.conv.rules import ConvRules
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity
from daedal.compiler.ops.accelerator.tiles.tile_space import Mask, chosen
from daedal.compiler.ops.conv2d import Gather
from daedal.compiler.ops.lower_bound import least_cycles
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["ConvSpace", "best_tile", "columns_of_tiles", "decode", "useful_gathers"]

WHOLE_LOSS = 0.03
"""Of a layer's cycles, what tiles that take whole scratchpads must gain: layers around it have less
space, so that they begin later."""

NEARLY = 0.0025
"""Estimates that differ by less than this share count as equal."""


_USUAL = {knob: values[0] for knob, values in ORDERS.items()}


class ConvSpace(LayerSpace):
    """All tiles of a convolution that fit the scratchpads.

    A tile leaves space to load the next one meanwhile, unless no tile does.

    Parameters
    ----------
    shapes : the convolution with each useful `Gather`.
    overlap : whether units work at the same time. Without it, a tile may take whole scratchpads.
    strided : whether the result's pixels may lie apart in memory.
    """

    def __init__(
        self,
        shapes: Sequence[ConvShape],
        variant: Variant,
        *,
        overlap: bool = True,
        strided: bool = False,
    ) -> None:
        self._shapes = {GATHERS.index(shape.gather): shape for shape in shapes}
        self._shape = shapes[0]
        self.variant = variant
        self._overlap = overlap
        self._strided = strided
        self._costs = self._costs_with(DDR)

    def all(self) -> Table:
        return self._ordered

    @cached_property
    def _ordered(self) -> Table:
        """What fits, in each order."""
        table = self._fitting[1]
        for knob, values in ORDERS.items():
            count = len(table["gather"])
            table = {name: np.repeat(column, len(values)) for name, column in table.items()}
            table = {**table, knob: np.tile(np.array(values, dtype=np.int64), count)}
            rule = partial(self._rules.after, knob)
            table = chosen(table, self._by_shape(table, rule))
        return table

    @property
    def _rules(self) -> ConvRules:
        return self._fitting[0]

    @cached_property
    def _fitting(self) -> tuple[ConvRules, Table]:
        """The rules, and what fits by them, without the knobs of `ORDERS`."""
        table, copies = ConvLayers([self.shapes]).all(self.variant, overlap=self._overlap)
        rules = ConvRules(Capacity(self.variant, 1), int(copies[0]))
        return rules, {knob: table[knob] for knob in self.knobs if knob not in ORDERS}

    @cached_property
    def _larger(self) -> Table:
        """What fits if results and weights that stay may take whole scratchpads."""
        table, _ = ConvLayers([self.shapes]).all(self.variant, overlap=self._overlap, whole=True)
        return {knob: table[knob] for knob in self.knobs if knob not in ORDERS}

    @cached_property
    def with_skips_in_parts(self) -> Table:
        """As `in_usual_orders`, with tiles that fit if another map that is added is loaded in parts
        (`daedal.compiler.ops.accelerator.conv.conv2d.skip_parts`)."""
        tail = self._shape.tail
        if not tail.loads or tail.rows > 1:
            return self.in_usual_orders()
        alone = [replace(shape, tail=replace(tail, rows=0)) for shape in self.shapes]
        space = ConvSpace(alone, self.variant, overlap=self._overlap, strided=self._strided)
        table = space.in_usual_orders()
        part = table["height"] * table["width"] * self._shape.out_parts
        half = Capacity(self.variant, 2).acc
        return chosen(table, part * (table["out_blocks"] + 1) <= half)

    @property
    def shapes(self) -> list[ConvShape]:
        """The convolution with each useful `Gather`."""
        return list(self._shapes.values())

    def on(self, variant: Variant) -> "ConvSpace":
        return ConvSpace(self.shapes, variant, overlap=self._overlap, strided=self._strided)

    def shape_of(self, config: Config) -> ConvShape:
        """The convolution with the `Gather` of `config`."""
        return self._shapes[config["gather"]]

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        return {**conv_knobs(self.shapes), **ORDERS}

    @property
    def added(self) -> Mapping[str, int]:
        return _USUAL

    def in_usual_orders(self) -> Table:
        """What fits, with the usual values of `ORDERS` alone."""
        table = self.all()
        return chosen(table, np.all([table[knob] == x for knob, x in _USUAL.items()], axis=0))

    def possible(self, table: Table) -> Mask:
        return self._by_shape(table, self._rules.allows)

    def fits(self, table: Table) -> Mask:
        fitting: Mask = self.possible(table) & self._by_shape(table, self._rules.fits)
        return fitting

    def _by_shape(self, table: Table, rule: Callable[[ConvShape, Table], Mask | bool]) -> Mask:
        """`rule` of all rows, those of each `Gather` with its shape."""
        found = np.zeros(len(table["gather"]), dtype=np.bool_)
        for number, shape in self._shapes.items():
            rows = table["gather"] == number
            found[rows] = rule(shape, chosen(table, rows))
        return found

    def cycles(self, table: Table) -> npt.NDArray[np.float64]:
        return self.cycles_alone(table, DDR)

    def cycles_with(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        return self._cycles_by(self._costs_with(memory), table)

    def cycles_alone(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        return self._cycles_by(self._costs_with(memory, keeps=True), table)

    def _cycles_by(self, costs: Mapping[int, ConvCost], table: Table) -> npt.NDArray[np.float64]:
        return self._evaluate(lambda _, cost, tiles: cost.cycles(tiles), table, np.float64, costs)

    def latency_cycles(self, memory: MemoryModel) -> float:
        return machine_cost(self.variant, memory).launch

    def _costs_with(self, memory: MemoryModel, *, keeps: bool = False) -> Mapping[int, ConvCost]:
        return {
            number: ConvCost(shape, self.variant, self._overlap, memory, keeps=keeps)
            for number, shape in self._shapes.items()
        }

    def bound(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        def least(shape: ConvShape, _cost: ConvCost, tiles: Table) -> npt.NDArray[np.float64]:
            work = ConvBound(shape, self.variant).work(tiles)
            return least_cycles(work, self.variant, memory)

        return self._evaluate(least, table, np.float64)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        found = [np.zeros((1, len(table["gather"])), dtype=np.int64) for _ in range(2)]
        tiles = columns_of_tiles(table)
        for number, shape in self._shapes.items():
            rows = table["gather"] == number
            bounds = ConvInstructions(shape, self.variant, strided=self._strided)
            for column, part in zip(found, bounds.bounds(chosen(tiles, rows)), strict=True):
                column[0, rows] = part
        return found[0], found[1]

    def features(self, table: Table) -> dict[str, npt.NDArray[np.float64]]:
        tiles = columns_of_tiles(table)
        found = {"gather": table["gather"].astype(np.float64)}
        for number, cost in self._costs.items():
            chosen = table["gather"] == number
            part = cost.features({name: column[chosen] for name, column in tiles.items()})
            for name, column in part.items():
                found.setdefault(name, np.zeros(len(chosen)))[chosen] = column
        return found

    def default_with(self, memory: MemoryModel) -> Config:
        """Of the configurations that cost nearly the least, the one with the fewest instructions.

        The costs are those of a layer that another one follows (`ConvCost.cycles`). With a memory
        whose words take longer than a cycle, larger tiles than those of `all` may be chosen
        (`ConvRules`, `whole`).

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        return self.row(self._ranked(NEARLY, memory), 0)

    def ranked(self) -> list[Config]:
        """Every configuration in the usual order, the one with the fewest estimated cycles before
        another layer first.

        Raises ScheduleError as `default`.
        """
        return self.configs(self._ranked(0, DDR))

    def _ranked(self, nearly: float, memory: MemoryModel) -> Table:
        slow = MemoryCost.of(memory).slows_words
        table = self._larger if slow else self._fitting[1]
        count = len(table["gather"])
        table = {**table, **{knob: np.full(count, value) for knob, value in _USUAL.items()}}
        if not count:
            shape, sizes = self._shape, self.variant.memory
            raise ScheduleError(
                f"an output vector of a convolution must fit scratchpads 'acc' "
                f"({sizes.acc_bytes} bytes) and 'out' ({sizes.out_bytes} bytes), and its "
                f"{shape.classes * shape.out_parts} parameter rows 'par' ({sizes.par_bytes} "
                "bytes); use a variant with larger scratchpads"
            )
        # Windows are cut only where whole ones do not fit.
        taps = dict(zip(("tap_rows", "tap_columns"), self._shape.kernel, strict=True))
        cut = np.any([table[name] < whole for name, whole in taps.items()], axis=0)
        uncut = {**table, **{name: np.full_like(cut, n, np.int64) for name, n in taps.items()}}
        needed = ~cut | ~self.fits(uncut)
        table = {knob: column[needed] for knob, column in table.items()}
        costs = self._costs_with(memory)
        cycles = self._evaluate(_cycles_before_another_layer, table, np.float64, costs)
        if slow:
            cycles = np.where(self.fits(table), cycles, (1 + WHOLE_LOSS) * cycles)
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
        costs: Mapping[int, ConvCost] | None = None,
    ) -> npt.NDArray[Any]:
        """`function` of all rows, those of each `Gather` with its shape and cost: by default, with
        preset `ddr`."""
        costs = self._costs if costs is None else costs
        tiles = columns_of_tiles(table)
        result = np.zeros(len(table["gather"]), dtype)
        for number, shape in self._shapes.items():
            chosen = table["gather"] == number
            if chosen.any():
                part = {name: column[chosen] for name, column in tiles.items()}
                result[chosen] = function(shape, costs[number], part)
        return result


def _cycles_before_another_layer(
    _: ConvShape, cost: ConvCost, tiles: Table
) -> npt.NDArray[np.float64]:
    return cost.cycles(tiles, followed=True)


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
        config["threads"],
        sums_outside=bool(config["sums_outside"]),
        taps=None if taps == shape.kernel else taps,
    )
    return GATHERS[config["gather"]], tile


def useful_gathers(shape: ConvShape) -> list[Gather]:
    """Every `Gather` that may pay for this convolution, whatever `shape.gather` is."""
    kernel, stride = shape.kernel[0], shape.strides[0]
    if kernel == 1:
        return [Gather.ROWS if stride > 1 else Gather.NOTHING]
    # Windows of several rows share them, unless rows are skipped in a window or between windows.
    apart = shape.dilations[0] > 1 or stride >= kernel
    return [Gather.NOTHING, *([Gather.ROWS] if apart else [])]
