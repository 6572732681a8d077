"""`early_tile`: the tile of a convolution that can begin before the layers in front have ended.

The linker runs the last tiles of a norm beside the products of the convolution that reads it
(`daedal.compiler.link.begin_early`). For that, the convolution has to go through the map in several
tiles, although its weights are then loaded several times. Input: a node and the code of the layers
before. Output: a `Config`.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.link.interleave import SHORTEST_TILE, stretches
from daedal.compiler.link.side_by_side import UnitCycles
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.space import Config
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["early_tile"]

LEAST_GAIN = 0.02
"""Of the cycles of all layers one after the other."""

SHARE = 4
"""A tile may take this part of the accumulators: two of them fit the half that the convolution has
while the layers in front run."""

_NEIGHBOURS = 3
"""Layers before that decide what is interleaved with the last one."""


def early_tile(
    graph: Graph, node: Node, before: Sequence[Segment], variant: Variant
) -> Config | None:
    """The tile of `node` with which it and the layers in front of it take the fewest cycles
    together; None where these have products, or where nothing is gained."""
    front = _work_in_front(before, node.inputs[0], variant)
    if front is None:
        return None
    try:
        space = any_space_of(graph, node, variant)
        if not isinstance(space, ConvSpace):
            return None
        usual = float(space.cycles(space.table([space.default]))[0])
    except ScheduleError:
        return None
    _, _, height, width = graph.types[node.output].shape
    table = space.all()
    features = space.features(table)
    maps = -(-height // table["height"]) * -(-width // table["width"])
    useful = (maps > 1) & (table["turns"] == 0)
    useful &= features["tile_product_cycles"] >= SHORTEST_TILE
    useful &= features["accumulators"] <= scratchpad(variant, Memory.ACC).depth_rows // SHARE
    for knob, value in space.added.items():
        useful &= table[knob] == value
    if not useful.any():
        return None
    alone, words = max(front.values()), front["bus"]
    cycles, beats, maps = (
        column[useful] for column in (features["estimate"], features["beats"], maps)
    )
    late = (maps - 1) / maps
    # The products of the first tile of the map run beside all but the first part in front.
    first = np.maximum.reduce([cycles / maps, beats / maps + words * late, alone * late])
    together = alone / maps + first + cycles * late
    best = int(np.argmin(together))
    if together[best] > (1 - LEAST_GAIN) * (alone + usual):
        return None
    row = np.flatnonzero(useful)[best : best + 1]
    (config,) = space.configs({knob: column[row] for knob, column in table.items()})
    return config


def _work_in_front(before: Sequence[Segment], tensor: str, variant: Variant) -> Counter[str] | None:
    """Cycles of each unit for the layers in front that run together and store `tensor`; None if
    they have products. Between them and the node, there may be layers that only read `tensor`."""
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
