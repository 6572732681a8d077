"""Chooses tiles of a convolution with which the norm behind it runs part by part.

The norm can run during the products of its operand if these go through the pixels in several parts,
each with all channels.

- `leading_tile`: the result stays in the accumulators, and the norm follows tile by tile
  (`daedal.compiler.link.ordering.follow_tiles`).
- `divided_tile`: the result is too large for that (`daedal.compiler.link.ordering.begin_behind`).
  The weights are then loaded for each part, and the norm needs the bus at the same time: larger
  tiles, whose residual stream is loaded in parts, move fewer words.

Input: a node, and the code of the layer before. Output: a `Config`.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment
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
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, ceil_div, chosen
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["WithNorm", "divided_tile", "is_kept", "leading_tile", "norm_behind", "with_norm"]

_NORMS = (Q_LAYER_NORM.name, Q_RMS_NORM.name)


class WithNorm(NamedTuple):
    """A convolution, its cycles with the usual tile, and features of the norm behind it."""

    space: ConvSpace
    usual: float
    norm: Mapping[str, Floats]


def leading_tile(
    graph: Graph, node: Node, before: Segment, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of a convolution with which it and the norm that reads its result take the fewest
    cycles together; None where nothing is gained, or the result does not stay in the accumulators.

    It has the pixels of the tiles in which `before` computes its operand, so that this stays on
    chip, too. The norm begins when a part of the pixels has all of its channels.
    """
    norm = norm_behind(graph, node)
    if norm is None or not is_kept(graph, node, variant):
        return None
    layers = with_norm(graph, node, norm, variant, memory)
    if layers is None:
        return None
    space, behind = layers.space, float(layers.norm["vector_cycles"][0])
    table = space.in_usual_orders()
    maps = _parts(graph, node, table)
    blocks = -(-graph.types[node.output].shape[1] // variant.array.block_out)
    # All channels of a part of the pixels, block by block or at once: those stay on chip.
    whole = (table["turns"] == 0) | (table["turns"] * table["out_blocks"] >= blocks)
    whole &= (table["out_blocks"] == 1) | (table["out_blocks"] == blocks)
    several = (maps > 1) & whole & (table["height"] * table["width"] == _pixels(before, node))
    table, maps = chosen(table, several), maps[several]
    long = space.features(table)["product_cycles"] >= SHORTEST_TILE * maps
    table, maps = chosen(table, long), maps[long]
    cycles = space.cycles_with(table, memory)
    late = (maps - 1) / maps
    together = cycles / maps + np.maximum(cycles, behind) * late + behind / maps
    return space.fastest(table, together, (1 - LEAST_GAIN) * (layers.usual + behind))


def divided_tile(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> Config | None:
    """The tile of `node` with which it and the norm that reads its result take the fewest cycles
    together; None where nothing is gained, or the result could stay in the accumulators."""
    norm = norm_behind(graph, node)
    if norm is None or is_kept(graph, node, variant):
        return None
    layers = with_norm(graph, node, norm, variant, memory)
    if layers is None:
        return None
    space, word_cycles = layers.space, machine_cost(variant, memory).word_cycles
    bus, alu = layers.norm["beats"][0] * word_cycles, layers.norm["vector_cycles"][0]
    alone = max(bus, alu)
    table = space.with_skips_in_parts
    maps = _parts(graph, node, table)
    several = (maps > 1) & (table["turns"] == 0)
    table, maps = chosen(table, several), maps[several]
    features = space.features(table)
    cycles = space.cycles_with(table, memory)
    # The norm of all parts but the last runs during the products of the next part.
    busiest = (cycles, features["beats"] * word_cycles + bus, features["vector_cycles"] + alu)
    late = (maps - 1) / maps
    together = (cycles + alone) / maps + np.max(busiest, axis=0) * late
    together[features["tile_product_cycles"] < SHORTEST_TILE] = math.inf
    return space.fastest(table, together, (1 - LEAST_GAIN) * (layers.usual + alone))


def norm_behind(graph: Graph, node: Node) -> Node | None:
    """The norm that reads the wide result of a convolution; None if `node` is none, or has none."""
    if node.op not in CONVOLUTIONS or not is_wide(graph.types[node.output]):
        return None
    return next((user for user in graph.users[node.output] if user.op in _NORMS), None)


def is_kept(graph: Graph, node: Node, variant: Variant) -> bool:
    """Whether the result of `node` is small enough to stay in the accumulators."""
    rows = math.prod(graph.types[node.output].physical_shape[:-2])
    return rows <= scratchpad(variant, Memory.ACC).depth_rows // SHARE


def with_norm(
    graph: Graph, node: Node, norm: Node, variant: Variant, memory: MemoryModel
) -> WithNorm | None:
    """Both layers with their usual tiles; None where one has none."""
    try:
        space, behind = any_space_of(graph, node, variant), any_space_of(graph, norm, variant)
        if not isinstance(space, ConvSpace):
            return None
        usual = space.default_cycles(memory)
        return WithNorm(space, usual, behind.features(behind.table([behind.default_with(memory)])))
    except ScheduleError:
        return None


def _parts(graph: Graph, node: Node, table: Table) -> Column:
    """The parts in which each tile goes through the pixels of the result."""
    _, _, height, width = graph.types[node.output].shape
    parts: Column = ceil_div(height, table["height"]) * ceil_div(width, table["width"])
    return parts


def _pixels(before: Segment, node: Node) -> int:
    """Of a tile of the operand of `node`; 0 if `before` does not compute it."""
    stores = (x for x in before.instructions if x.unit is Unit.STORE and x.tensor == node.inputs[0])
    first = next(stores, None)
    return 0 if first is None else first.template.values.get("cols", 0)
