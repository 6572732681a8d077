"""The accelerator's schedules of softmax and norms: the ALU works on whole rows of channels.

A tile has all channels of some pixels. It is loaded once, all stages are computed in the
accumulators, mostly in place, and the results are stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from daedal.compiler.codegen.intrinsics import SQUARE, accelerator_intrinsics
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.elementwise_stages import (
    MAP_RANK,
    tensorize_rows,
)
from daedal.compiler.ops.accelerator.vector.space import VectorSpace
from daedal.compiler.ops.accelerator.vector.tile import TileWork, accumulation
from daedal.compiler.ops.accelerator.wide_results import result_intrin, result_scope
from daedal.compiler.ops.space import Column, Config, Table
from daedal.compiler.schedule.edit import find_site
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["ROW_NEEDS", "computes_rows", "rows_template", "tensorize_row_stage"]

_OVER_BLOCKS = {
    "belows": "alu_add_accumulate",
    "powers": "alu_add_accumulate",
    "tops": "alu_max_accumulate",
    "totals": "alu_add_accumulate",
    "zeros": "alu_add_accumulate",
}
"""Reductions over rows of accumulators."""

_OVER_STEPS = {"belows": "below", "zeros": "bytes"}
"""Those of them over rows that have a stage's results of several steps, and this stage."""

_OVER_LANES = {
    "half": "alu_sum_lanes",
    "power": "alu_sum_lanes",
    "top": "alu_max_lanes",
    "total": "alu_sum_lanes",
}

_LOOKUPS = ("bytes", "entries", "inverse", "root_high", "root_low")

_OPERATIONS = {
    "amount": "alu_add_immediate",
    "below": "requantize_widen",
    "counted": "alu_mul",
    "deviation": "alu_sub",
    "distance": "alu_sub",
    "divided": "alu_mul",
    "even": "alu_mul_immediate",
    "factor": "alu_shift_even",
    "from_zero": "alu_sub_immediate",
    "low_mask": "alu_mul_immediate",
    "mantissa": "alu_shift_even",
    "masked": "alu_add",
    "mean": "requantize_wide",
    "normal": "alu_shift_even",
    "present": "alu_square",
    "product": "alu_mul",
    "root": "alu_add",
    "rounded": "alu_shift_even_immediate",
    "scaled": "alu_mul_immediate",
    "signed": "alu_mul",
    "squares": "alu_square",
    "variance": "alu_add_immediate",
}
"""Operations on elements, by stage of `daedal.compiler.ops.softmax` and `.norms`."""

_OF_MAP = (
    *("wide", "masked", "distance", "entries", "product"),
    *("from_zero", "scaled", "counted", "deviation", "signed", "rounded", "squares", "normal"),
)
"""Stages of all channels; others belong to a row or to channels."""

_REQUANTIZING = (*_LOOKUPS, "below", "mean")

_LOADS = ("wide", "wide_mask", "wide_present", "wide_signs")

_PARAMETERS = "steps"
_TABLES = ("bits", "exp", "high", "low", "reciprocal")

_IN_CHUNKS = ("rounded", "squares")
"""Stages of all elements that cannot work in place: a few channel blocks at a time."""

_CHUNK_BLOCKS = 4


ROW_NEEDS: Mapping[str, Callable[[Variant], bool]] = {
    "tables": lambda variant: variant.memory.tables >= 3,
    "units.lane_reductions": lambda variant: variant.units.lane_reductions,
    "units.wide_requantize": lambda variant: variant.units.wide_requantize,
    "accumulators of 32 bits": lambda variant: variant.array.accumulator_bits == 32,
    "multipliers of 17 bits": lambda variant: variant.units.multiplier_bits >= 17,
}
"""What softmax and norms need, in words, and whether a variant has it."""


def computes_rows(variant: Variant) -> bool:
    """Whether `variant` has what softmax and norms need."""
    return all(has(variant) for has in ROW_NEEDS.values())


def rows_template(func: PrimFunc, variant: Variant) -> TileTemplate:
    """The schedules of a function of `daedal.compiler.ops.softmax` or `.norms`.

    Raises ScheduleError for more parameters than the scratchpad has rows.
    """
    sites, _ = collect(func.body)
    stages = _stages(func, sites)
    blocks, parts = func.outputs[0].shape[1], func.outputs[0].shape[4]

    def work(tiles: Table) -> TileWork:
        pixels = tiles["height"] * tiles["width"]
        loaded = sum(stage.loads * stage.vectors(pixels, blocks) for stage in stages)
        even = pixels + pixels % 2
        held = [stage.vectors(even, blocks) for stage in stages if stage.holds]
        rows = _peak_rows(stages, sites, _chunk(func) * parts)
        return TileWork(np.asarray(loaded), (*held, -(-rows * pixels // parts)))

    def alu_cycles(tiles: Table, target: Variant) -> Column:
        pixels = tiles["height"] * tiles["width"]
        found = [stage.cycles(pixels, blocks * parts, target) for stage in stages]
        return np.asarray(np.sum(found, axis=0))

    def build(config: Config) -> Schedule:
        return _scheduled(func, variant, VectorSpace.tile(config), sites)

    return TileTemplate(
        VectorSpace(
            func,
            variant,
            work,
            alu_cycles=alu_cycles,
            blocks=blocks,
            parameters=("params", "steps"),
        ),
        build,
    )


@dataclass(frozen=True)
class _Stage:
    """What a stage costs for a tile.

    Parameters
    ----------
    name : of its block.
    rows : for each pixel, or for each channel block of `of_map` or `of_channels`.
    of_map : whether it has all channels of the pixels.
    of_channels : whether it is the same for all pixels.
    loads : vectors of 8 bits that a LOAD moves for each.
    holds : whether it has rows of accumulators of its own, and all channels.
    """

    name: str
    rows: int
    of_map: bool
    of_channels: bool
    loads: int
    holds: bool

    def vectors(self, pixels: Column, blocks: int) -> Column:
        """Of a tile, per part of a channel block."""
        if self.of_channels:
            return np.full_like(pixels, blocks)
        return pixels * blocks if self.of_map else pixels * self.rows

    def cycles(self, pixels: Column, blocks: int, variant: Variant) -> Column:
        """The ALU's cycles for a tile; an instruction waits for the results of the one before."""
        latency = machine_cost(variant).reuse
        units, elements = variant.units, variant.array.batch * variant.array.block_out
        lanes = units.requantize_lanes if self.name in _REQUANTIZING else units.alu_lanes
        per_vector = -(-elements // lanes)
        if self.loads:
            return np.zeros_like(pixels)
        if self.name in _OVER_BLOCKS:
            steps = np.full_like(pixels, self.rows if self.name in _OVER_STEPS else blocks)
            return accumulation(steps, pixels * per_vector, variant)
        # A square reads one row twice.
        reads = 2 if _OPERATIONS.get(self.name) == SQUARE else 1
        vectors = self.vectors(pixels, blocks) * max(per_vector, reads)
        return np.maximum(vectors, latency)


def _peak_rows(stages: Sequence[_Stage], sites: Sequence[Site], chunk: int) -> int:
    """Rows of accumulators that results of a row, and chunks of others, take at most at the same
    time, for each pixel. A result replaces an operand that nothing else reads."""
    rows = {
        stage.name: chunk if stage.name in _IN_CHUNKS else stage.rows
        for stage in stages
        if stage.name in _IN_CHUNKS or not (stage.of_map or stage.of_channels)
    }
    reads = {site.block.name: {region.buffer.name for region in site.block.reads} for site in sites}
    order = [site.block.name for site in sites]
    last = {name: number for number, user in enumerate(order) for name in reads[user]}
    live: dict[str, int] = {}
    most = 0
    for number, name in enumerate(order):
        dying = [operand for operand in live if last[operand] <= number]
        if name in rows:
            replaced = any(live[operand] == rows[name] for operand in dying)
            most = max(most, sum(live.values()) + (0 if replaced else rows[name]))
            live[name] = rows[name]
        for operand in dying:
            del live[operand]
    return most


def _chunk(func: PrimFunc) -> int:
    """Channel blocks of `_IN_CHUNKS`."""
    return min(_CHUNK_BLOCKS, func.outputs[0].shape[1])


def _stages(func: PrimFunc, sites: Sequence[Site]) -> list[_Stage]:
    shapes = {site.block.name: site.block.writes[0].buffer.shape for site in sites}
    dtype = func.inputs[0].dtype
    found = []
    for name, shape in shapes.items():
        if name == "y":
            continue
        own = name in _LOADS
        of_channels = name in ("low_mask", "present") or (own and name != "wide")
        of_map = not of_channels and len(shape) == MAP_RANK and name in _OF_MAP
        rows = shape[0] if len(shape) > MAP_RANK else 1
        if name in _OVER_STEPS:
            rows = shapes[_OVER_STEPS[name]][0]
        loads = (4 if name == "wide" and dtype == "int32" else 1) if own else 0
        found.append(_Stage(name, rows, of_map, of_channels, loads, own))
    return found


def _scheduled(
    func: PrimFunc, variant: Variant, tile: tuple[int, int, int], sites: Sequence[Site]
) -> Schedule:
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    n, c, h, w, u, b, o = sch.get_loops(store)
    h_0, h_1 = sch.split(h, [None, tile[1]])
    w_0, w_1 = sch.split(w, [None, tile[2]])
    sch.reorder(n, h_0, w_0, c, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    names = [site.block.name for site in reversed(sites) if site.block.name != "y"]
    summed = {_OVER_STEPS[name] for name in names if name in _OVER_STEPS}
    loop = w_0
    odd_pixels = tile[1] * tile[2] % 2 == 1
    for name in names:
        sch.set_scope(sch.get_block(name), 0, "acc")
        of_steps = name in summed
        if odd_pixels and (name in _OF_MAP or of_steps):
            # Both operands of an operation then lie in two banks, in every channel block.
            row = prod(func.outputs[0].shape[-3:])
            sch.storage_align(sch.get_block(name), 0, int(not of_steps), 2 * row)
        sch.compute_at(sch.get_block(name), loop if name in _IN_CHUNKS else w_0)
        if name == "powers":
            *_, n, c, h, w, u, b, o, blocks, parts = sch.get_loops(sch.get_block(name))
            loop, inner = sch.split(blocks, [None, _chunk(func)])
            sch.reorder(loop, n, c, h, w, u, inner, parts, b, o)
    reads = {site.block.name: [item.buffer for item in site.block.reads] for site in sites}
    for name in names:
        tensorize_row_stage(sch, sch.get_block(name), reads[name])
    params = sch.cache_read(y, "params", "par")
    sch.tensorize(sch.get_loops(params)[-3], "load")
    tensorize_rows(sch, y, result_intrin(sch))
    sch.tensorize(sch.get_loops(store)[-6], "store")
    return sch


def tensorize_row_stage(sch: Schedule, block: BlockRef, reads: Sequence[Buffer]) -> None:
    """Tensorize a stage, and load the parameters and the table that it reads, once."""
    name = block.name
    for operand in (buffer.name for buffer in reads):
        if operand == _PARAMETERS:
            copy = sch.cache_read(block, operand, "par")
            sch.tensorize(sch.get_loops(copy)[-3], "load")
        elif operand in _TABLES:
            copy = sch.cache_read(block, operand, "tab")
            sch.tensorize(sch.get_loops(copy)[0], "load")
    if name in _LOADS:
        narrow = reads[0].dtype == "int8"
        sch.tensorize(sch.get_loops(block)[-MAP_RANK], "load_widen" if narrow else "load")
    elif name in _OVER_BLOCKS:
        if name != "powers":
            count = len(find_site(sch.bare, name).block.reduce_vars)
            *_, b, o = (loops := sch.get_loops(block))[:-count]
            sch.reorder(*loops[-count:], b, o)
        sch.tensorize(sch.get_loops(block)[-2], _OVER_BLOCKS[name])
    elif name in _OVER_LANES:
        sch.tensorize(sch.get_loops(block)[-3], _OVER_LANES[name])
    else:
        intrin = "lookup_entry" if name in _LOOKUPS else _OPERATIONS[name]
        tensorize_rows(sch, block, intrin)
