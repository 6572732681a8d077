"""`chained_tiles`: the tiles of a depthwise convolution and of the pointwise convolution that reads
its result, with which both take the fewest cycles when the result stays in OUT.

The linker runs both part by part (`daedal.compiler.link.ordering.chain_tiles`) where tiles of the
second layer multiply what whole tiles of the first one have computed: all channels of some pixels,
as many as leave space in OUT for the next part. Input: a graph, and the nodes of the pair. Output:
a `Config` for each layer.
"""

from collections.abc import Mapping

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.pairs import Pair, PairTiles, pair_of
from daedal.compiler.link.ordering.chain_tiles import PART_CYCLES
from daedal.compiler.link.ordering.share_units import UNITS
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.depthwise.space import DepthwiseSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, ceil_div, chosen
from daedal.compiler.ops.space import Column, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = ["chain_of", "chained_tiles"]

LEAST_GAIN = 0.05
"""Of the cycles of both layers with their usual tiles, one after the other. Estimates of 200 pairs
of tiles were off by 3 %, and are by more where layers are small."""

NEARLY = 0.003
"""Estimates that differ by less than this share count as equal: fewer instructions decide."""

LINE_WORDS = 1
"""Bus words that could move in the time that a line of a tile costs beyond its own: each is a burst
or several. Of 0 to 3, what fits 200 pairs of tiles best."""

RESULT_TILES = 3
"""Tiles of the second layer's results that must fit OUT where its products take less time than the
ALU and twice the words of a STORE, whose bus LOADs share; else two. With two, up to 13 % more
cycles were measured."""


def chain_of(graph: Graph, node: Node, variant: Variant) -> Pair | None:
    """The pair of which `node` is the first or the second layer, and whose result in between can
    stay in OUT; None if there is none."""
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return None
    pair = pair_of(graph, node, depthwise_first=True)
    return None if pair is None or pair.first.output in graph.outputs else pair


def chained_tiles(
    graph: Graph, pair: Pair, variant: Variant, memory: MemoryModel = DDR
) -> PairTiles | None:
    """The tiles with which both layers take the fewest cycles; None where nothing is gained."""
    try:
        space = any_space_of(graph, pair.first, variant)
        other = any_space_of(graph, pair.second, variant)
        if not (isinstance(space, DepthwiseSpace) and isinstance(other, ConvSpace)):
            return None
        if not _is_pointwise(other.shapes[0]):
            return None
        usual = space.default_cycles(memory) + other.default_cycles(memory)
    except ScheduleError:
        return None
    first, second = _matching(space, other)
    chain = _Chain(space, other, first, second, variant, memory)
    cycles = chain.cycles
    if not cycles.size or cycles.min() > (1 - LEAST_GAIN) * usual:
        return None
    nearly = np.where(cycles <= (1 + NEARLY) * cycles.min(), chain.instructions, np.inf)
    best = int(np.argmin(nearly))
    return PairTiles(
        space.row(first, best),
        other.row(second, best),
        usual - float(cycles.min()),
    )


def _is_pointwise(shape: ConvShape) -> bool:
    alone = shape.kernel == (1, 1) and shape.strides == (1, 1) and shape.groups == 1
    return alone and shape.in_parts == 1 and shape.out_parts == 1


def _matching(space: DepthwiseSpace, other: ConvSpace) -> tuple[Table, Table]:
    """Pairs of tiles with the same pixels, whose weights are loaded once."""
    first = space.all()
    once = first["groups"] * first["blocks"] >= space.shape.blocks
    several = first["height"] * first["width"] < space.shape.height * space.shape.width
    dense = space.shape.width % first["width"] == 0
    first = chosen(first, once & several & dense)
    blocks = np.array(other.knobs["out_blocks"], dtype=np.int64)
    count = len(first["height"])
    first = {knob: np.repeat(column, len(blocks)) for knob, column in first.items()}
    blocks = np.tile(blocks, count)
    shape = other.shapes[0]
    turns = ceil_div(shape.out_blocks, blocks)
    values: dict[str, Column | int] = {
        **other.added,
        "gather": other.knobs["gather"][0],
        "height": first["height"],
        "width": first["width"],
        "out_blocks": blocks,
        "in_blocks": shape.in_blocks,
        "turns": turns,
        "keep_inputs": np.where(turns > 1, 1, 0),
        "tap_rows": 1,
        "tap_columns": 1,
    }
    return first, {knob: np.zeros_like(blocks) + values[knob] for knob in other.knobs}


class _Chain:
    """Pairs of tiles, one in each row of the tables `first` and `second`."""

    def __init__(
        self,
        space: DepthwiseSpace,
        other: ConvSpace,
        first: Table,
        second: Table,
        variant: Variant,
        memory: MemoryModel,
    ) -> None:
        self._variant = variant
        self._machine = machine_cost(variant, memory)
        self._shape, self._conv = space.shape, other.shapes[0]
        self._first, self._second = first, second
        self._features = space.features(first), other.features(second)
        self._pixels = first["height"] * first["width"]

    @property
    def cycles(self) -> Floats:
        """Estimated cycles of both layers; infinity where their tiles do not fit the scratchpads.

        The busiest unit counts, and what comes before the first part is multiplied and after the
        last one.
        """
        one, two = self._features
        machine, parts = self._machine, self._num_parts
        products = one["product_cycles"] + two["product_cycles"]
        work = {
            "bus": self._words * machine.word_cycles,
            "GEMM": products + self._waits + self._first_loads,
            "ALU": one["vector_cycles"] + two["vector_cycles"],
        }
        begin = one["input_rows"] * machine.row_cycles[Memory.INP]
        last = self._second["out_blocks"] * self._pixels
        end = last * (machine.requantize + machine.row_cycles[Memory.OUT])
        busiest = np.maximum.reduce([work[unit] for unit in UNITS])
        cycles = busiest + begin + end + PART_CYCLES * parts + machine.launch
        found: Floats = np.where(self._fits, cycles, np.inf)
        return found

    @property
    def instructions(self) -> Floats:
        """Of both layers, about."""
        return self._features[0]["instructions"] + self._features[1]["instructions"]

    @property
    def _num_parts(self) -> Column:
        height, width = (
            ceil_div(self._shape.height, self._first["height"]),
            ceil_div(self._shape.width, self._first["width"]),
        )
        found: Column = height * width * self._shape.batches
        return found

    @property
    def _waits(self) -> Floats:
        """Cycles that GEMM waits for a half of the accumulators.

        Tiles take turns between the halves. Where the ALU takes longer for a tile than GEMM for the
        next one, of the same layer or of the other, GEMM cannot begin with the one behind that.
        """
        shape, conv, alu = self._shape, self._conv, self._machine.requantize
        one = self._first["blocks"] * self._pixels
        two = self._second["out_blocks"] * self._pixels
        first = ceil_div(shape.blocks, self._first["blocks"])
        second = ceil_div(conv.out_blocks, self._second["out_blocks"])
        one_products, two_products = one * shape.products, two * conv.in_blocks
        waits = np.maximum(one * alu - two_products, 0) + np.maximum(two * alu - one_products, 0)
        waits = waits + (first - 1) * np.maximum(one * alu - one_products, 0)
        waits = waits + (second - 1) * np.maximum(two * alu - two_products, 0)
        found: Floats = waits * self._num_parts
        return found

    @property
    def _first_loads(self) -> Floats:
        """Cycles that GEMM waits at the beginning: for the operands of the first two parts, and for
        the weights of the second layer behind these, all of which its first part needs."""
        one, two = self._features
        shape, parts, word_cycles = self._shape, self._num_parts, self._machine.word_cycles
        vectors = shape.batches * shape.blocks * shape.height * shape.width
        operands = 2 * (one["beats"] - vectors * self._machine.row_beats[Memory.OUT]) / parts
        weights = two["kept_weight_beats"]
        first, second = 2 * one["product_cycles"] / parts, two["product_cycles"] / parts
        waits: Floats = np.maximum.reduce(
            [
                operands * word_cycles - first,
                (operands + weights) * word_cycles - first - second,
                np.zeros_like(first),
            ]
        )
        return waits

    @property
    def _words(self) -> Floats:
        """Bus words of both layers, without those of the first one's result."""
        shape, conv, machine = self._shape, self._conv, self._machine
        one, two = self._features
        vectors = shape.batches * shape.blocks * shape.height * shape.width
        kept = vectors * machine.row_beats[Memory.OUT] + two["input_beats"]
        height, width = self._first["height"], self._first["width"]
        # Lines of the whole width follow each other in memory.
        lines = shape.blocks * np.where(width < shape.width, shape.reach(0, height), 1)
        lines = lines + conv.out_blocks * np.where(width < shape.width, height, 1)
        words: Floats = one["beats"] + two["beats"] - kept + LINE_WORDS * lines * self._num_parts
        return words

    @property
    def _fits(self) -> Mask:
        """Whether two parts, and two tiles of each layer, fit the scratchpads."""
        shape, conv, blocks = self._shape, self._conv, self._second["out_blocks"]
        part, results = shape.blocks * self._pixels, blocks * self._pixels
        computed = self._first["blocks"] * self._pixels * (1 + shape.tail.rows)
        weights = shape.weight_rows(np.full_like(part, shape.blocks), self._variant.array.block_out)
        machine = self._machine
        short = conv.in_blocks < machine.requantize + 2 * machine.row_cycles[Memory.OUT]
        rows: Mapping[Memory, Floats | Column] = {
            # Were the part not kept, the second layer would have to load it.
            Memory.INP: np.maximum(2 * self._features[0]["input_rows"], part),
            Memory.WGT: weights + 1 + conv.out_blocks * conv.in_blocks,
            Memory.ACC: 2 * np.maximum(computed, results * conv.accumulators),
            Memory.OUT: 2 * part + (RESULT_TILES if short else 2) * results,
            Memory.PAR: shape.blocks
            + shape.tail.requantizes
            + 2 * (blocks * conv.classes + conv.tail.requantizes),
        }
        fits: Mask = np.all(
            [n <= scratchpad(self._variant, memory).depth_rows for memory, n in rows.items()],
            axis=0,
        )
        return fits & (shape.tail.stored == 1) & (conv.tail.stored == 1)
