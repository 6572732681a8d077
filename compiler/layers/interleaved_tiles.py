"""`interleaved_tile`: a tile of a pool that leaves room for the convolution before it.

The linker interleaves a layer without products with the one before it, if a tile of each fits half
of the accumulators (`daedal.compiler.link.ordering.interleave`). The pool then costs hardly
anything, so its usual tile, the fastest one alone, is not the best. Input: a node and the code of
the layer before. Output: a `Config`.
"""

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE, is_long, tile_rows
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["interleaved_tile"]

LEAST_GAIN = 0.02
"""Of the cycles of both layers one after the other."""

SHORTEST_CYCLES = 256
"""Of the ALU for a tile. A tile waits about 200 cycles for a requantization and a STORE
(`SHORTEST_TILE`); shorter tiles wait longer than they work."""

_POOLS = ("q_avg_pool", "q_max_pool")


def interleaved_tile(
    graph: Graph, node: Node, before: Segment, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile with which the pool `node` and `before` take the fewest cycles when interleaved.

    None where the linker can interleave the usual tile, where nothing is gained, and where `before`
    does not compute the pool's operand. Of interleaved layers, the busiest unit counts.
    """
    if node.op not in _POOLS or not is_long(before.instructions):
        return None
    if graph.types[node.output].shape[2:] == (1, 1):
        return None  # it waits for the whole map
    x = node.inputs[0]
    if not any(item.unit is Unit.STORE and item.tensor == x for item in before.instructions):
        return None
    room = scratchpad(variant, Memory.ACC).depth_rows // 2 - tile_rows(before.instructions)
    try:
        space = any_space_of(graph, node, variant)
        default, table = space.table([space.default_with(memory)]), space.all()
    except ScheduleError:
        return None
    features, usual = space.features(table), space.features(default)
    cycles = space.cycles_with(table, memory)
    front = InstructionCost(variant, memory).by_unit(before.instructions)
    fits = features["accumulators"] <= room
    fits &= features["tile_vector_cycles"] >= SHORTEST_CYCLES
    fits &= features["tiles"] * SHORTEST_TILE <= front[Unit.GEMM.name]
    if usual["accumulators"][0] <= room or not fits.any():
        return None
    alone = max(front.values())
    together = np.maximum.reduce(
        [
            np.full(len(fits), alone),
            cycles,
            features["vector_cycles"] + front[Unit.ALU.name],
            features["beats"] * machine_cost(variant, memory).word_cycles + front["bus"],
        ]
    )
    # What costs least alone, of the tiles that cost least together.
    best = int(np.lexsort((cycles, together, ~fits))[0])
    if together[best] > (1 - LEAST_GAIN) * (alone + space.cycles_with(default, memory)[0]):
        return None
    return space.row(table, best)
