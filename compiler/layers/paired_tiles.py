"""`paired_tile`: the tile of a convolution whose results a norm finds in the accumulators.

Where a norm reads a tensor that is too large for the accumulators, it can still find it there tile
by tile (`daedal.compiler.link.ordering.follow_pairs`), if a tile has all channels of some pixels.
Input: a node. Output: a `Config`.
"""

import math

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.cost.paired_tiles import in_pairs, weights_that_stay
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.divided_tiles import is_kept, norm_behind, with_norm
from daedal.compiler.layers.early_tiles import LEAST_GAIN
from daedal.compiler.link.ordering.follow_pairs import LEAST_TILES
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["paired_tile"]


def paired_tile(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of `node` with which it and the norm that reads its result take the fewest cycles
    together; None where nothing is gained, or the result could stay in the accumulators."""
    norm = norm_behind(graph, node)
    if norm is None or len(graph.users[node.output]) != 1 or is_kept(graph, node, variant):
        return None
    layers = with_norm(graph, node, norm, variant, memory)
    if layers is None:
        return None
    space, following = layers.space, layers.norm
    shape = space.shapes[0]
    table = space.in_usual_orders()
    pixels = table["height"] * table["width"]
    maps = -(-shape.height // table["height"]) * -(-shape.width // table["width"])
    fits = (table["turns"] == 0) & (table["keep_inputs"] == 0) & (table["threads"] == 1)
    fits &= (table["out_blocks"] == shape.out_blocks) & (
        pixels * maps == shape.height * shape.width
    )
    fits &= (maps >= LEAST_TILES) & (maps % 2 == 0) & (table["in_blocks"] == 1)
    rows = pixels * shape.out_blocks * shape.out_parts
    fits &= in_pairs(rows, scratchpad(variant, Memory.ACC).depth_rows)
    if not (fits.any() and shape.tail.loads and shape.kernel == (1, 1) and shape.in_parts == 1):
        return None
    table, maps = chosen(table, fits), maps[fits]
    features = space.features(table)
    word_cycles = machine_cost(variant, memory).word_cycles
    bus, alu = following["beats"][0] * word_cycles, following["vector_cycles"][0]
    # The sum is neither stored nor loaded.
    steps = shape.in_blocks
    size = math.prod(graph.types[node.output].physical_shape[:-2])
    saved = 2 * size * variant.array.block_out * 4 / variant.bus_bytes
    weights = shape.out_blocks * variant.array.block_in * variant.array.block_out
    beats = weights * variant.array.weight_bits / 8 / variant.bus_bytes
    pairs = maps / 2
    others = (features["beats"] - steps * beats * maps - saved) * word_cycles + bus
    # Weights of a step are loaded during the step before, by the first pair, and if they do not
    # stay, by each.
    step, moved = features["product_cycles"] / (pairs * steps), others / (pairs * steps)
    places = scratchpad(variant, Memory.WGT).depth_rows // shape.out_blocks
    stay = (pairs - 1) * weights_that_stay(steps, places)
    loading = np.maximum(step, moved + beats * word_cycles)
    busiest = (
        (pairs * steps - stay) * loading + stay * np.maximum(step, moved),
        features["vector_cycles"] + alu,
    )
    together = np.max(busiest, axis=0) + alu / maps
    return space.fastest(table, together, (1 - LEAST_GAIN) * (layers.usual + max(bus, alu) / 2))
