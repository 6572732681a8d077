"""`early_tile`: the tile of a convolution that can begin before the layers in front have ended.

The linker overlaps the last tiles of a norm with the products of the convolution that reads it
(`daedal.compiler.link.begin_early`). For that, the convolution has to go through the map in several
tiles, although its weights are then loaded several times. Input: a node and the code of the layers
before. Output: a `Config`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.link.interleave import SHORTEST_TILE, stretches
from daedal.compiler.link.side_by_side import UnitCycles
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.space import Config
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["early_tile", "work_in_front"]

LEAST_GAIN = 0.02
"""Of the cycles of all layers one after the other."""

SHARE = 4
"""A tile may take this part of the accumulators: two of them fit the half that the convolution has
while the layers in front run."""

_NEIGHBOURS = 3
"""Layers before that decide what is interleaved with the last one."""


def early_tile(
    graph: Graph, node: Node, front: Mapping[str, int], variant: Variant
) -> Config | None:
    """The tile of `node` with which it and the layers in front of it take the fewest cycles
    together; None where nothing is gained. `front` is the work of these layers."""
    try:
        space = any_space_of(graph, node, variant)
        if not isinstance(space, ConvSpace):
            return None
        usual = float(space.cycles(space.table([space.default]))[0])
    except ScheduleError:
        return None
    _, _, height, width = graph.types[node.output].shape
    table = space.all()
    maps = -(-height // table["height"]) * -(-width // table["width"])
    several = (maps > 1) & (table["turns"] == 0)
    for knob, value in space.added.items():
        several &= table[knob] == value
    table, maps = chosen(table, several), maps[several]
    features = space.features(table)
    most = scratchpad(variant, Memory.ACC).depth_rows // SHARE
    useful = features["accumulators"] <= most
    useful &= features["tile_product_cycles"] >= SHORTEST_TILE
    if not useful.any():
        return None
    table, maps = chosen(table, useful), maps[useful]
    cycles, beats = features["estimate"][useful], features["beats"][useful]
    alone, words = max(front.values()), front["bus"]
    late = (maps - 1) / maps
    # The products of the map's first tile overlap with all but the first part in front.
    first = np.maximum.reduce([cycles / maps, beats / maps + words * late, alone * late])
    together = alone / maps + first + cycles * late
    best = int(np.argmin(together))
    if together[best] > (1 - LEAST_GAIN) * (alone + usual):
        return None
    (config,) = space.configs(chosen(table, np.array([best])))
    return config


def work_in_front(node: Node, before: Sequence[Segment], variant: Variant) -> Counter[str] | None:
    """Cycles of each unit for the layers in front of a convolution, which run together and store
    its operand; None if they have products. Between them and the convolution, there may be layers
    that only read the same tensor."""
    if node.op not in CONVOLUTIONS:
        return None
    tensor = node.inputs[0]
    end = len(before)
    while end and _multiplies(before[end - 1]) and _reads(before[end - 1], tensor):
        end -= 1
    front = before[max(end - _NEIGHBOURS, 0) : end]
    if not front or tensor not in front[-1].writes or _multiplies(front[-1]):
        return None
    last = stretches(front, (), variant, resident=True)[-1]
    return None if last.multiplies else UnitCycles(variant).of(item for _, item in last.items)


def _multiplies(segment: Segment) -> bool:
    return any(item.unit is Unit.GEMM for item in segment.instructions)


def _reads(segment: Segment, tensor: str) -> bool:
    return tensor in segment.tensors and tensor not in segment.writes
