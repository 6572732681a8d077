"""`launch_cycles`: how long the layers of a launch take together, from estimates of each alone.

Each unit works on the layers in program order, and begins with the next one as soon as that has
something for it. So LOAD gets the weights of a layer while the one before is computed; layers whose
operands are on chip are computed while the one before still is; and what a layer stores has to be
in memory before the next one loads it.

Input: layers in order (`kept`), and of each an estimate and the cycles of its units. Output:
cycles.

Two timelines are compared: that of all layers, and those of each layer alone, with all tensors in
memory. An estimate knows more of a layer than its timeline, and the timelines what is gained
together; so the estimate is the sum of the layers' own, less that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple

from daedal.codesign.cycles.busy import BusyUnits
from daedal.codesign.cycles.kept import Operand, OrderedLayer
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import MemoryCost
from daedal.isa.memory_model import MemoryModel
from daedal.isa.registers import MARK_BYTES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["Estimate", "launch_cycles"]


@dataclass(frozen=True)
class Estimate:
    """Of a layer alone.

    Attributes
    ----------
    cycles : infinite where nothing fits.
    latency : those of them for latencies.
    busy : of the same schedule.
    """

    cycles: float
    latency: float = 0.0
    busy: BusyUnits = field(default=BusyUnits(0.0, 0.0, 0.0))


class _Work(NamedTuple):
    """Cycles of the units of a layer, and in how many tiles and bands. Of the bus: those of
    constants, of all else that is loaded, and of what is stored."""

    products: float
    vectors: float
    constants: float
    loaded: float
    stored: float
    tiles: float
    bands: float


class _Ready(NamedTuple):
    """When a tensor can be read: its first band, and all of it, by LOAD and on chip."""

    first_loaded: float
    all_loaded: float
    first_on_chip: float
    all_on_chip: float
    bands: float


class _Free(NamedTuple):
    """When LOAD has taken its last instruction, and the bus, GEMM, and the ALU have nothing more to
    do."""

    load: float = 0.0
    bus: float = 0.0
    gemm: float = 0.0
    alu: float = 0.0


_Latency = tuple[float, float, float, float]
"""Of LOAD, GEMM, ALU, and STORE."""


COPIES = 2
"""Tiles whose operands scratchpads hold: LOAD takes those of another one when the first is done."""

WEIGHTS_SHARE = 1 / 2
"""Of WGT, what constants may take that are loaded during the layer before."""

_MOST_PARTS = 16.0
"""Of a tile, in `_fitted`."""

_UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
_NO_LATENCY = (0.0, 0.0, 0.0, 0.0)


def launch_cycles(
    layers: Sequence[OrderedLayer],
    estimates: Mapping[str, Estimate],
    variant: Variant,
    memory: MemoryModel,
    chained: Collection[tuple[str, str]] = (),
) -> float:
    """Estimated cycles of one launch; `estimates` by key of a workload, `chained` the keys of
    layers of which the second one multiplies the first one's results in OUT, part by part.
    Infinite where a layer does not fit.

    Of a layer whose first operand is on chip, only the timeline counts: what its estimate has
    beyond that are waits for loads.
    """
    machine = machine_cost(variant, memory)
    load, gemm, alu, store = (float(machine.latency[unit]) for unit in _UNITS)
    latency = (load, gemm, alu, store)
    byte_cycles = max(MemoryCost.of(memory).word_cycles, 1) / variant.bus_bytes
    weights = scratchpad(variant, Memory.WGT)
    ahead = WEIGHTS_SHARE * weights.depth_rows * weights.row_bytes * byte_cycles
    free, end, waits = _Free(), 0.0, 0.0
    ready: list[_Ready] = []
    sources = {
        number: layer.operands[0].producer
        for number, layer in enumerate(layers)
        if layer.operands
        and layer.operands[0].producer is not None
        and (layers[layer.operands[0].producer].key, layer.key) in chained
    }
    unstored = set(sources.values())
    for number, layer in enumerate(layers):
        estimate = estimates[layer.key]
        if estimate.cycles == inf:
            return inf
        kept = [item.stays(variant) for item in layer.operands]
        if number in sources:
            kept[0] = True
        work = _work(layer, estimate.busy, byte_cycles)
        if layer.moves and kept and all(kept):
            work = work._replace(vectors=0.0, constants=0.0, loaded=0.0)
        else:
            alone = estimate.cycles - estimate.latency
            work = _fitted(work, alone)
            waits += 0.0 if kept and kept[0] else alone - _alone(work)
            work = work._replace(loaded=work.loaded * _loaded_share(layer.operands, kept))
        if number in unstored or (layer.result is not None and layer.result.stays(variant)):
            work = work._replace(stored=0.0)
        begins = _begins(layer.operands, kept, ready, work.bands)
        free, result = _run(work, free, begins, latency, ahead)
        # Each unit marks the end of a layer.
        marks = variant.units.counters * (2 + bool(work.products) + bool(work.vectors))
        free = free._replace(bus=free.bus + marks * MARK_BYTES * byte_cycles)
        ready.append(result)
        end = max(end, result.all_loaded)
    # Before the first LOAD, and after the last STORE.
    return machine.launch - sum(latency) + end + waits


def _work(layer: OrderedLayer, busy: BusyUnits, byte_cycles: float) -> _Work:
    constants = min(layer.constant_bytes * byte_cycles, busy.words)
    stored = min(layer.result_bytes * byte_cycles, busy.words - constants)
    loaded = busy.words - constants - stored
    return _Work(busy.products, busy.vectors, constants, loaded, stored, busy.tiles, busy.bands)


def _alone(work: _Work) -> float:
    """Cycles of the timeline of one layer, without latencies."""
    _, result = _run(work, _Free(), (0.0, 0.0), _NO_LATENCY)
    return result.all_loaded


def _fitted(work: _Work, cycles: float) -> _Work:
    """A layer in more tiles, where its estimate has fewer cycles than the timeline: units pass on
    parts of tiles, such as steps of a reduction."""
    words = work.constants + work.loaded + work.stored
    busiest = max(work.products, work.vectors, words)
    found = _alone(work)
    if found <= cycles or found <= busiest:
        return work
    more = min((found - busiest) / max(cycles - busiest, 1.0), _MOST_PARTS)
    return work._replace(tiles=work.tiles * more)


def _loaded_share(operands: Sequence[Operand], kept: Sequence[bool]) -> float:
    """Of what a layer loads behind its constants, the share that is not on chip."""
    total = sum(item.size_bytes for item in operands)
    there = sum(item.size_bytes for item, on_chip in zip(operands, kept, strict=True) if on_chip)
    return 1 - there / total if total else 1.0


def _begins(
    operands: Sequence[Operand], kept: Sequence[bool], ready: Sequence[_Ready], bands: float
) -> tuple[float, float]:
    """When the operands of the first tile, and all operands, can be read."""
    first = last = 0.0
    for operand, on_chip in zip(operands, kept, strict=True):
        if operand.producer is None:
            continue
        found = ready[operand.producer]
        begin, end = (
            (found.first_on_chip, found.all_on_chip)
            if on_chip
            else (found.first_loaded, found.all_loaded)
        )
        if not operand.by_parts or bands == 1 or found.bands == 1:
            begin = end
        else:
            needed = ceil(found.bands / bands) - 1
            begin += (end - begin) * max(needed / (found.bands - 1), 0.0)
        first, last = max(first, begin), max(last, end)
    return first, last


def _run(
    work: _Work,
    free: _Free,
    begins: tuple[float, float],
    latency: _Latency,
    ahead: float = inf,
) -> tuple[_Free, _Ready]:
    """When the units are free again, and the result is ready.

    A unit has work for the first tile when the one before it has done that of this tile, and ends
    when it has done its work, or when the last tile has come and is done. Of the next layer's
    constants, as many as take `ahead` cycles of the bus may come while LOAD waits for operands.
    """
    load, gemm, alu, store = latency
    tile = 1 / work.tiles
    first, last = begins
    if work.loaded:
        first = max(first, free.load)
    # Tiles with other channels need other constants; those of the first ones are loaded first.
    needed = work.constants * work.bands * tile
    early = min(needed, ahead, max(first - free.bus, 0.0))
    begin = max(free.bus + early, first) + needed - early
    loaded_before = min(max(begin - free.bus, needed), work.constants, max(ahead, needed))
    loaded = work.loaded + work.constants - loaded_before
    one = begin + loaded * tile
    bus = max(one + (loaded + work.stored) * (1 - tile), last + work.loaded * tile)
    came = one + (load if work.loaded or begin > first else 0.0)
    came_all = max(came, bus + (load if loaded else 0.0))
    multiplied = free.gemm
    if work.products:
        begin = max(free.gemm, came)
        multiplied = max(begin + work.products, came_all + work.products * tile)
        came, came_all = begin + work.products * tile + gemm, multiplied + gemm
    begin = max(free.alu, came)
    computed = max(begin + work.vectors, came_all + work.vectors * tile)
    on_chip, all_on_chip = begin + work.vectors * tile + alu, computed + alu
    in_memory, all_in_memory = on_chip, all_on_chip
    if work.stored:
        in_memory = on_chip + work.stored * tile + store
        all_in_memory = max(bus, all_on_chip) + work.stored * tile + store
    # LOAD takes the operands of the last tile when there is space for them.
    fed, busy = (multiplied, work.products) if work.products else (computed, work.vectors)
    taken = max(bus, fed - COPIES * busy * tile) if work.loaded else free.load
    return (
        _Free(taken, bus, multiplied, computed),
        _Ready(in_memory, all_in_memory, on_chip, all_on_chip, work.bands),
    )
