"""`divided_tile`: the tile of a convolution with which the norm behind it runs part by part.

Where a norm reads a tensor that is too large for the accumulators, it can run during the products
of its operand (`daedal.compiler.link.ordering.begin_behind`), if these go through the pixels in
several parts, each with all channels. The weights are then loaded for each part, and the norm needs
the bus at the same time: larger tiles, whose residual stream is loaded in parts, move fewer words.
Input: a node. Output: a `Config`.
"""

import math

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.integer_rows import Q_LAYER_NORM, Q_RMS_NORM
from daedal.compiler.layers.early_tiles import LEAST_GAIN, SHARE
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["divided_tile"]


def divided_tile(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of `node` with which it and the norm that reads its result take the fewest cycles
    together; None where nothing is gained, or the result could stay in the accumulators."""
    kind = graph.types[node.output]
    norms = [x for x in graph.users[node.output] if x.op in (Q_LAYER_NORM.name, Q_RMS_NORM.name)]
    if not (norms and node.op in CONVOLUTIONS and is_wide(kind)):
        return None
    if math.prod(kind.physical_shape[:-2]) <= scratchpad(variant, Memory.ACC).depth_rows // SHARE:
        return None
    try:
        space, norm = any_space_of(graph, node, variant), any_space_of(graph, norms[0], variant)
        if not isinstance(space, ConvSpace):
            return None
        usual = space.default_cycles(memory)
        following = norm.features(norm.table([norm.default_with(memory)]))
    except ScheduleError:
        return None
    word_cycles = machine_cost(variant, memory).word_cycles
    bus, alu = following["beats"][0] * word_cycles, following["vector_cycles"][0]
    alone = max(bus, alu)
    _, _, height, width = kind.shape
    table = space.with_skips_in_parts
    maps = -(-height // table["height"]) * -(-width // table["width"])
    several = (maps > 1) & (table["turns"] == 0)
    if not several.any():
        return None
    table, maps = chosen(table, several), maps[several]
    features = space.features(table)
    cycles = space.cycles_with(table, memory)
    # The norm of all parts but the last runs during the products of the next part.
    busiest = (cycles, features["beats"] * word_cycles + bus, features["vector_cycles"] + alu)
    late = (maps - 1) / maps
    together = (cycles + alone) / maps + np.max(busiest, axis=0) * late
    together[features["tile_product_cycles"] < SHORTEST_TILE] = math.inf
    best = int(np.argmin(together))
    if together[best] > (1 - LEAST_GAIN) * (usual + alone):
        return None
    return space.row(table, best)
