"""`sharing_tiles`: the tiles of a convolution and of the depthwise convolution that reads its
result, with which both take the fewest cycles when they run at the same time.

The linker runs both together if two tiles of each fit INP, and if the second layer can begin long
before the first one has ended (`daedal.compiler.link.ordering.share_units`). The tiles that are the
fastest ones alone fill INP, and those of the second layer need nearly all of the first one.
Input: a graph and a pair. Output: a `Config` for each layer.
"""

from collections.abc import Mapping

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph
from daedal.compiler.layers.pairs import Pair, PairTiles
from daedal.compiler.link.ordering.share_units import TILE_CYCLES, UNITS, cycles_together
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.depthwise.space import DepthwiseSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, ceil_div, chosen
from daedal.compiler.ops.space import Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["sharing_tiles"]

LEAST_GAIN = 0.02
"""Of the cycles of both layers with their usual tiles, together if that is possible."""

NEARLY = 0.001
"""Estimates that differ by less than this share count as equal: fewer instructions decide."""

SHARE = 4
"""A tile may take this part of INP, ACC and OUT: two of each layer are in use."""

ROOM = 2
"""Tiles of both layers may take this part of INP. Rows that are in use divide the others, so that
more tiles would often not find their rows in one piece."""

SHORTEST_TILE = 256
"""Products of a tile of the first layer. Shorter ones wait for other units."""

SLOWEST_FIRST, MOST_WORDS = 1.15, 1.4
"""Of the first layer's cycles and the second one's bus words, as multiples of the fewest: other
tiles are not considered."""

_FEATURES = dict(zip(UNITS, ("beats", "product_cycles", "vector_cycles"), strict=True))


def sharing_tiles(
    graph: Graph, pair: Pair, variant: Variant, memory: MemoryModel = DDR
) -> PairTiles | None:
    """The tiles with which both layers take the fewest cycles; None where nothing is gained."""
    try:
        space = any_space_of(graph, pair.first, variant)
        other = any_space_of(graph, pair.second, variant)
        if not (isinstance(space, ConvSpace) and isinstance(other, DepthwiseSpace)):
            return None
        usual = (
            space.table([space.default_with(memory)]),
            other.table([other.default_with(memory)]),
        )
    except ScheduleError:
        return None
    depth = scratchpad(variant, Memory.INP).depth_rows
    one, two = _features(space, usual[0], memory), _features(other, usual[1], memory)
    apart = float(one["estimate"][0] + two["estimate"][0])
    most = (1 - LEAST_GAIN) * apart
    # Nothing is gained where a unit is busy all the time with the usual tiles.
    if max(float(one[name][0] + two[name][0]) for name in _FEATURES.values()) > most:
        return None
    usual_together = float(_cycles(space, other, *usual, depth, memory)[0, 0])
    most = min(most, (1 - LEAST_GAIN) * usual_together)
    first, second = _useful_first(space, variant, memory), _useful_second(other, variant)
    cycles = _cycles(space, other, first, second, depth // ROOM, memory)
    if not cycles.size or cycles.min() > most:
        return None
    instructions = np.add.outer(
        space.features(first)["instructions"], other.features(second)["instructions"]
    )
    nearly = np.where(cycles <= cycles.min() * (1 + NEARLY), instructions, np.inf)
    number, behind = divmod(int(np.argmin(nearly)), nearly.shape[1])
    return PairTiles(
        space.row(first, number),
        other.row(second, behind),
        apart - float(cycles.min()),
    )


def _features(
    space: ConvSpace | DepthwiseSpace, table: Table, memory: MemoryModel
) -> dict[str, Floats]:
    """`LayerSpace.features` with a memory: the estimate, and bus words by what they take."""
    words = machine_cost(space.variant, memory).word_cycles
    features = space.features(table)
    estimate, beats = space.cycles_with(table, memory), features["beats"] * words
    return {**features, "estimate": estimate, "beats": beats}


def _cycles(
    space: ConvSpace,
    other: DepthwiseSpace,
    first: Table,
    second: Table,
    rows: int,
    memory: MemoryModel,
) -> Floats:
    """Estimated cycles of both layers, with each of the tiles `first` and each of `second`;
    infinity where they take more than `rows` rows of INP."""
    features = _features(space, first, memory), _features(other, second, memory)
    one = {name: column[:, np.newaxis] for name, column in features[0].items()}
    two = {name: column[np.newaxis] for name, column in features[1].items()}
    work = [{unit: layer[name] for unit, name in _FEATURES.items()} for layer in (one, two)]
    cycles = cycles_together(work[0], work[1], *_shares(space, other, first, second))
    lost = one["estimate"] - np.maximum.reduce([work[0][unit] for unit in UNITS])
    cycles = cycles + np.maximum(lost, 0) + TILE_CYCLES * two["tiles"]
    fits = 2 * (_loaded_rows(space, one) + two["input_rows"]) <= rows
    found: Floats = np.where(fits, cycles, np.inf)
    return found


def _shares(
    space: ConvSpace, other: DepthwiseSpace, first: Table, second: Table
) -> tuple[Floats, Floats]:
    """What `cycles_together` calls head and tail, with each of the tiles `first` and `second`.

    A layer that goes through the whole map for each group of output channels leaves a group of
    them to the second layer at a time; else it leaves rows of all channels.
    """
    shape, blocks = other.shape, space.shapes[0].out_blocks
    group = (first["turns"] * first["out_blocks"])[:, np.newaxis]
    by_rows = (group == 0) | (group >= blocks)
    channels = 1 / ceil_div(blocks, np.where(by_rows, blocks, group))
    height = second["height"][np.newaxis]
    needed = np.minimum(shape.reach(0, height) - shape.pads[0], shape.input_height)
    needed = np.maximum(needed, first["height"][:, np.newaxis])
    head = needed / (shape.input_height * shape.batches)
    tail = 1 / (ceil_div(shape.height, height) * shape.batches)
    return np.where(by_rows, head, channels), np.where(by_rows, tail, channels)


def _loaded_rows(space: ConvSpace, features: Mapping[str, Floats]) -> Floats:
    """Rows of INP of a tile of the first layer, or of one step of the reduction."""
    blocks = np.where(features["keep_inputs"] > 0, space.shapes[0].in_blocks, features["in_blocks"])
    rows: Floats = features["input_rows"] * blocks
    return rows


def _useful_first(space: ConvSpace, variant: Variant, memory: MemoryModel) -> Table:
    """Tiles of the first layer that are considered."""
    table = space.in_usual_orders()
    features = _features(space, table, memory)
    useful = _leaves_room(_loaded_rows(space, features), features["accumulators"], variant)
    useful &= features["tile_product_cycles"] >= SHORTEST_TILE
    return chosen(table, useful & _near(features["estimate"], useful, SLOWEST_FIRST))


def _useful_second(space: DepthwiseSpace, variant: Variant) -> Table:
    """Tiles of the second layer that are considered: those whose weights are loaded once."""
    table = space.all()
    once = table["groups"] * table["blocks"] >= space.shape.blocks
    table = chosen(table, once & (table["keep_padding"] == 0))
    features = space.features(table)
    useful = _leaves_room(features["input_rows"], features["accumulators"], variant)
    return chosen(table, useful & _near(features["beats"], useful, MOST_WORDS))


def _leaves_room(inp: Floats, accumulators: Floats, variant: Variant) -> Mask:
    """Whether tiles take only their `SHARE`; each accumulator leaves a row of OUT."""
    rows = {Memory.INP: inp, Memory.ACC: accumulators, Memory.OUT: accumulators}
    leaves: Mask = np.all(
        [SHARE * n <= scratchpad(variant, memory).depth_rows for memory, n in rows.items()], axis=0
    )
    return leaves


def _near(values: Floats, useful: Mask, share: float) -> Mask:
    """Values of at most `share` times the least of those that are useful."""
    near: Mask = values <= share * np.min(values, where=useful, initial=np.inf)
    return near
