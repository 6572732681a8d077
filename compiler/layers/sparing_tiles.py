"""`sparing_tile`: the tile of a convolution that leaves the bus to the weights of a later layer.

The bus bounds a layer that needs each of its weights once, as a classifier is. Its first weights
are loaded while the convolution in front of it multiplies (`weights_ahead`), if this leaves the bus
time for that: with tiles that load its operands less often, although these end later.

Input: a graph and a node. Output: a `Config`.
"""

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats
from daedal.compiler.ops.space import Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["sparing_tile"]

LEAST_GAIN = 0.02
"""Of the cycles of both layers with usual tiles."""


def sparing_tile(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of `node` with which it and the layer behind that the bus bounds take the fewest
    cycles; None where nothing is gained, or there is no such layer."""
    later = _later_layer(graph, node)
    if node.op not in CONVOLUTIONS or later is None:
        return None
    try:
        space, other = (any_space_of(graph, layer, variant) for layer in (node, later))
        if not (isinstance(space, ConvSpace) and isinstance(other, ConvSpace)):
            return None
        usual, following = (one.table([one.default_with(memory)]) for one in (space, other))
    except ScheduleError:
        return None
    machine = machine_cost(variant, memory)
    work, word = other.features(following), machine.word_cycles
    weights = scratchpad(variant, Memory.WGT).depth_rows * machine.row_beats[Memory.WGT]
    # Cycles of the first weights of the layer behind, as many as fit.
    words = min(float(work["beats"][0]), weights) * word
    if work["product_cycles"][0] >= work["beats"][0] * word:
        return None

    table = space.in_usual_orders()
    idle = _idle(space, table, word)
    if not idle.any():
        return None
    both = space.cycles_with(table, memory) + np.maximum(words - idle, 0)
    alone = space.cycles_with(usual, memory)[0]
    waits = np.maximum(words - _idle(space, usual, word)[0], 0)
    behind = other.cycles_with(following, memory)[0]
    return space.fastest(table, both, alone + waits - LEAST_GAIN * (alone + behind))


def _idle(space: ConvSpace, table: Table, word_cycles: float) -> Floats:
    """Cycles of the products of each tile without bus words of their own."""
    found = space.features(table)
    idle: Floats = np.maximum(found["product_cycles"] - found["beats"] * word_cycles, 0)
    return idle


def _later_layer(graph: Graph, node: Node) -> Node | None:
    """The convolution with a result of one pixel that reads what `node` computes, or a layer
    without weights computes of it."""
    for _ in range(2):
        users = graph.users[node.output]
        if len(users) != 1:
            return None
        (node,) = users
        if node.op in CONVOLUTIONS:
            batch, _, height, width = graph.types[node.output].shape
            return node if batch * height * width == 1 else None
    return None
