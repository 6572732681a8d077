"""`matching_tile`: the tile of a layer that the layer before it leaves in the accumulators.

The linker joins buffers of two layers where a tile of the second holds what tiles of the first one
stored (`daedal.compiler.link.on_chip.forward_rows`). Norms take whole rows of channels, so they can
do with any number of pixels: behind a layer of one tile, a half. The mean of a map takes the
channels whose results a convolution has in the accumulators, where they are requantized again
(`daedal.compiler.link.on_chip.requantized_rows`). Input: a node and the code of the layer before.
Output: a `Config`.
"""

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.integer_rows import Q_LAYER_NORM, Q_RMS_NORM
from daedal.compiler.link.on_chip.row_parts import RowAddresses
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.space import Config
from daedal.isa.scratchpad import Memory
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
    if node.op == "q_avg_pool":
        return _tile_of_mean(graph, node, before, variant)
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


def _tile_of_mean(graph: Graph, node: Node, before: Segment, variant: Variant) -> Config | None:
    """The tile of the mean of a map with the channels that `before` stores together; None where it
    stores only some of their pixels."""
    x = node.inputs[0]
    kind = graph.types[x]
    _, _, height, width, *_ = kind.physical_shape
    if node.attrs["kernel"] != (height, width) or not _multiplies(before):
        return None
    stores = [item for item in before.instructions if item.unit is Unit.STORE and item.tensor == x]
    if not stores or is_wide(kind):
        return None
    tile = [item for item in stores if item.rows[0].instance is stores[0].rows[0].instance]
    words = RowAddresses(variant, {}, Memory.OUT)
    moved = sorted(word for item in tile for word in words.of(item)[1])
    blocks, rest = divmod(len(moved), height * width)
    if rest or moved != list(range(0, len(moved) * words.row_beats, words.row_beats)):
        return None
    try:
        space = any_space_of(graph, node, variant)
        if blocks not in space.knobs["blocks"]:
            return None
        config = Config.of(**space.default.to_json() | {"blocks": blocks})
        return config if space.fits(space.table([config])).all() else None
    except ScheduleError:
        return None


def _multiplies(segment: Segment) -> bool:
    return any(item.unit is Unit.GEMM for item in segment.instructions)
