"""`matching_tile`: the tile of a layer that the layer before it leaves in the accumulators.

The linker joins buffers of two layers where a tile of the second holds what tiles of the first one
stored (`daedal.compiler.link.on_chip.forward_rows`). Norms take whole rows of channels, so they can
do with any number of pixels: behind a layer of one tile, a half. Input: a node and the code of the
layer before. Output: a `Config`.
"""

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.integer_rows import Q_LAYER_NORM, Q_RMS_NORM
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.space import Config
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["matching_tile"]

MOST_CYCLES = 1.25
"""Cycles of the ALU with the tile, as a multiple of those with the usual one. In small tiles, an
instruction mostly waits for the results of the one before."""

_MATCHING = (Q_CHANNEL_REQUANTIZE.name, Q_LAYER_NORM.name, Q_RMS_NORM.name)


def matching_tile(graph: Graph, node: Node, before: Segment, variant: Variant) -> Config | None:
    """The tile of `node` with the pixels that `before` stores together; None where `before` does
    not store its operand, or such a tile does not fit or is slow."""
    x = node.inputs[0]
    if node.op not in _MATCHING or not is_wide(graph.types[x]):
        return None
    stores = (item for item in before.instructions if item.unit is Unit.STORE and item.tensor == x)
    first = next(stores, None)
    if first is None:
        return None
    _, blocks, height, width, *_ = graph.types[x].physical_shape
    pixels = first.template.values["cols"]
    if pixels >= height * width:
        # All at once: the layer behind can begin when a half is done.
        pixels = -(-height * width // 2)
    rows, columns = (pixels // width, width) if pixels >= width else (1, pixels)
    config = Config.of(blocks=blocks, height=rows, width=columns)
    try:
        space = any_space_of(graph, node, variant)
        both = space.table([config, space.default])
        if not space.fits(both).all():
            return None
    except ScheduleError:
        return None
    cycles, usual = space.features(both)["vector_cycles"]
    return config if cycles <= MOST_CYCLES * usual else None
