"""`early_tile`: the tile of a convolution whose products begin while a norm in front still runs.

The linker overlaps the last tiles of the norm with the products of the convolution that reads it
(`daedal.compiler.link.ordering.begin_early`). For that, it has to go through the map in several
tiles, although its weights may then be loaded several times. Input: a node and the code of the
layers before. Output: a `Config`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment, SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE, stretches
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode, LoadMemory, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["early_tile", "work_in_front"]

LEAST_GAIN = 0.02
"""Of the cycles of all layers one after the other."""

SHARE = 4
"""A tile may take this part of the accumulators: two of them fit the half that the convolution has
while the layers in front run."""

_KEPT = (Memory.OUT, Memory.ACC)
"""Scratchpads in which small tensors stay."""

_NEIGHBOURS = 3
"""Layers before that decide what is interleaved with the last one."""


def early_tile(
    graph: Graph, node: Node, front: Counter[str], variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of `node` with which it and the layers in front of it take the fewest cycles
    together; None where nothing is gained. `front` is the work of these layers."""
    try:
        space = any_space_of(graph, node, variant)
        if not isinstance(space, ConvSpace):
            return None
        usual = space.default_cycles(memory)
    except ScheduleError:
        return None
    _, _, height, width = graph.types[node.output].shape
    table = space.in_usual_orders()
    table = chosen(table, (table["height"] < height) | (table["width"] < width))
    maps = -(-height // table["height"]) * -(-width // table["width"])
    features = space.features(table)
    most = scratchpad(variant, Memory.ACC).depth_rows // SHARE
    useful = features["accumulators"] <= most
    useful &= features["tile_product_cycles"] >= SHORTEST_TILE
    table, maps = chosen(table, useful), maps[useful]
    cycles = space.cycles_with(table, memory)
    beats = features["beats"][useful] * machine_cost(variant, memory).word_cycles
    alone, words = max(front.values()), front["bus"]
    late = (maps - 1) / maps
    # The products of the map's first tile overlap with all but the first part in front; where
    # weights stay for all of the map, those of the first weights do.
    group = np.maximum(table["turns"], 1) * table["out_blocks"]
    groups = np.where(table["turns"] > 0, -(-_blocks(graph, node, variant) // group), 1)
    early = 1 / (maps * groups)
    # GEMM and the bus also have work in front: where it keeps GEMM busy, there is nothing to gain.
    products = features["product_cycles"][useful] * early + front[Unit.GEMM.name] * late
    first = np.maximum.reduce(
        [cycles * early, products, beats * early + words * late, alone * late]
    )
    together = alone / maps + first + cycles * (1 - early)
    return space.fastest(table, together, (1 - LEAST_GAIN) * (alone + usual))


def _blocks(graph: Graph, node: Node, variant: Variant) -> int:
    """Blocks of GEMM that the result's channels fill."""
    return -(-graph.types[node.output].shape[1] // variant.array.block_out)


def work_in_front(
    node: Node, before: Sequence[Segment], variant: Variant, memory: MemoryModel = DDR
) -> Counter[str] | None:
    """Cycles of each unit for the layers in front of a convolution, which run together and store
    its operand; None if the last of them has products. Between them and the convolution, there may
    be layers that only read the same tensor."""
    if node.op not in CONVOLUTIONS:
        return None
    tensor = node.inputs[0]
    end = len(before)
    while end and _multiplies(before[end - 1]) and _reads(before[end - 1], tensor):
        end -= 1
    front = before[max(end - _NEIGHBOURS, 0) : end]
    if not front or tensor not in front[-1].writes or _multiplies(front[-1]):
        return None
    last = stretches(front, (), variant, resident=True, memory=memory)[-1]
    items = [item for layer, item in last.items if not (last.is_open and layer == last.layers[0])]
    return InstructionCost(variant, memory).by_unit(_without_kept(items, variant))


def _without_kept(
    items: Sequence[SegmentInstruction], variant: Variant
) -> Iterator[SegmentInstruction]:
    """The instructions but for transfers of tensors that are small enough to stay on chip, and so
    are neither loaded nor stored (`daedal.compiler.link.on_chip.unread_stores`)."""
    most = {memory: scratchpad(variant, memory).depth_rows // SHARE for memory in _KEPT}
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        del most[Memory.OUT]
    rows: Counter[tuple[str | None, Unit]] = Counter()
    for item in items:
        rows[item.tensor, item.unit] += _rows_moved(item)
    for item in items:
        memory = _kept_in(item)
        if memory not in most or rows[item.tensor, item.unit] > most[memory]:
            yield item


def _kept_in(item: SegmentInstruction) -> Memory | None:
    """Where the tensor of a transfer could stay: OUT, or the accumulators; None for others."""
    memory = item.template.values.get("memory", 0)
    if item.unit is Unit.STORE:
        return OutMemory(memory).memory
    if item.unit is not Unit.LOAD:
        return None
    return {LoadMemory.INP: Memory.OUT, LoadMemory.ACC: Memory.ACC}.get(LoadMemory(memory))


def _rows_moved(item: SegmentInstruction) -> int:
    values = item.template.values
    return math.prod(values.get(name, 0) for name in ("blocks", "rows", "cols"))


def _multiplies(segment: Segment) -> bool:
    return any(item.unit is Unit.GEMM for item in segment.instructions)


def _reads(segment: Segment, tensor: str) -> bool:
    return tensor in segment.tensors and tensor not in segment.writes
