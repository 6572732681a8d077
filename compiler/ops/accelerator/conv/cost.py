"""`ConvCost`: the estimated cost of a convolution's tiles, from bytes, products and their overlap.

Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: estimated
cycles, by which `ConvSpace` ranks configurations, and what a learned cost model sees of them.
"""

from dataclasses import dataclass

import numpy as np

from daedal.compiler.cost.machine import CONTENTION_CYCLES, HAND_OVER_CYCLES, LOAD_STALL_CYCLES
from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.ops.accelerator.conv.passes import ConvPasses, Pass, PassUnits, total
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.fused_tail import NO_TAIL
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, ceil_div, last_size
from daedal.compiler.ops.accelerator.wide_results import result_rows
from daedal.compiler.ops.space import Table
from daedal.isa.latencies import PATIENCE_CYCLES
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["ConvCost", "ConvTile"]

GEMM_LEAD = 4
"""How many times the ALU's cycles for a vector GEMM needs for its products, so that the next layer
hides the end: a choice. It leaves out pointwise convolutions of few channels; with all of them and
all fused operators, ShuffleNet took 0.24 % more cycles."""


@dataclass(frozen=True)
class ConvTile:
    """Sizes in blocks and pixels, and which operand stays on chip while the other is streamed.

    Parameters
    ----------
    height, width : of a tile of the output map.
    out_blocks : output blocks that are accumulated at once.
    in_blocks : input blocks of one step of the reduction, with one LOAD and one GEMM each.
    taps : rows and columns of the window of one step; None for all.
    group : output blocks whose weights stay on chip for all tiles of the map; 0 if weights are
        reloaded for each tile.
    keep_inputs : whether all input blocks of a tile stay on chip for all output blocks.
    threads : virtual threads, each with the next output blocks of one tile. The linker's renaming
        interleaves tiles without them; if it is off, only threads do.
    sums_outside : the order of the loops of a product. GEMM adds one product to each of the outputs
        before it adds the next one, instead of all products of an output in turn.
    """

    height: int
    width: int
    out_blocks: int
    in_blocks: int
    group: int
    keep_inputs: bool
    threads: int = 1
    taps: tuple[int, int] | None = None
    sums_outside: bool = False


class ConvCost:
    """Estimated cycles of the tiles of one convolution.

    Tables have the columns ``height``, ``width``, ``out_blocks``, ``in_blocks``, ``group``,
    ``keep_inputs``, ``tap_rows`` and ``tap_columns``, with the meaning of the fields of `ConvTile`,
    and may have ``threads`` and ``sums_outside``. Threads are estimated as if there were one: what
    they gain or lose has either sign.

    Parameters
    ----------
    overlap : whether units work at the same time.
    keeps : whether constants stay on chip as in a program of this layer alone (ADR 38). In a
        network, other layers need rows, too: chosen as if constants stayed, tiles take more cycles
        there (a vision transformer 10 %, ResNet-20 5 %).
    """

    def __init__(
        self,
        shape: ConvShape,
        variant: Variant,
        overlap: bool,
        memory: MemoryModel = DDR,
        *,
        keeps: bool = False,
    ) -> None:
        self._shape = shape
        self._overlap = overlap
        self._units = PassUnits(shape, variant, memory, keeps=keeps)
        self._machine = self._units.machine
        self._capacity = Capacity(variant, 1)
        self._queue_depth = variant.units.queue_depth
        self._whole = MemoryCost.of(memory).slows_words

    def cycles(self, tiles: Table, *, followed: bool = False) -> Floats:
        """Cycles of the busier of multipliers and bus in each pass, plus what does not overlap.

        Loads of the first accumulated tile overlap only with its own products, those of weights
        that stay only with products of tiles that are loaded already. After the last product, the
        last tiles are requantized and stored. Without overlap, everything adds up.

        Parameters
        ----------
        followed : whether another layer follows: its loads and products hide what a fused change of
            scale adds to the end.
        """
        passes = ConvPasses(self._units, tiles)
        count = total(item.times * item.tiles for item in passes.all)
        if not self._overlap:
            busy = total(
                item.times * (item.products + item.vector_cycles + item.beats)
                for item in passes.all
            )
            busy = busy + passes.kept_weights * (passes.turns - 1)
            latency = self._machine.latency
            loads = (passes.steps - 1) * latency[Unit.LOAD]
            return busy + count * (loads + sum(latency.values()))
        first = passes.first
        alu = self._before_another_layer() if followed else self._units.vector_cycles
        others = total(item.times * self._busy(item, tiles) for item in passes.all)
        usual, begun = self._busy(passes.all[0], tiles), self._busy(first, tiles)
        others = others - usual + (passes.turns - 1) * (begun - usual)
        return total(
            [
                self._begin(passes, first),
                others,
                self._reloads(passes, first),
                self._stalls(tiles),
                self._contention(tiles, passes),
                self._end(passes, alu),
                HAND_OVER_CYCLES * count + self._machine.launch,
            ]
        )

    def _busy(self, item: Pass, tiles: Table) -> Floats:
        """Cycles of a pass whose units work at the same time.

        Where the results of a tile fill more than half of OUT, those of the next one wait until
        these are stored.
        """
        busy: Floats = np.maximum(item.computing, item.beats)
        if not self._whole:
            return busy
        results = tiles["out_blocks"] * self._shape.out_parts * tiles["height"] * tiles["width"]
        alone = 2 * results > result_rows(self._capacity, self._shape.tail.stored)
        in_turn = item.vector_cycles + item.vectors * self._units.out
        return np.where(alone, np.maximum(busy, in_turn), busy)

    def _begin(self, passes: ConvPasses, first: Pass) -> Floats:
        """Cycles until the products of the first pass are done.

        GEMM waits for the loads of the first tile, and where these take longer, for those of all
        its tiles. The store of the last one comes later.
        """
        share, steps = passes.first_share, passes.joined_steps
        kept = passes.kept_weights
        loads = first.tile_beats + kept * share
        step, computing = first.products * share / steps, first.computing * share
        loaded = loads + np.maximum(step, computing - (steps - 1) * loads / steps)
        store = first.vectors * self._units.out * share
        begin: Floats = np.maximum(
            loaded + first.computing - computing, first.beats + kept - store + step
        )
        return begin

    def _reloads(self, passes: ConvPasses, first: Pass) -> Floats:
        """Cycles that GEMM waits for weights that stay, after the first ones.

        LOAD works in order: it begins with the weights of the next pass over the map when it has
        loaded the last inputs of this one. By then it is ahead of GEMM by what the scratchpads and
        queues hold, and at most by what it gained during a pass.
        """
        share, steps = passes.first_share, passes.joined_steps
        weights = passes.kept_weights
        maps = passes.maps_of_turn
        gained = maps * np.maximum(first.computing - first.beats, 0)
        ahead = np.minimum(gained, self._ahead(passes, first))
        if self._whole:
            # The next weights wait for rows, until the last products with these.
            kept = passes.tiles["group"] * (self._shape.in_blocks * self._shape.weight_rows())
            gained = np.where(2 * kept > self._capacity.wgt, 0, gained)
            ahead = np.minimum(gained, ahead)
        tile, step = weights * share, first.products * share / steps
        # GEMM waits for the first step, for the last one of the first tile, or of the last tile.
        waits = np.maximum.reduce(
            [tile / steps, tile - (steps - 1) * step, weights - first.products + step]
        )
        waits = np.maximum.reduce([waits - ahead, weights - gained, np.zeros_like(waits)])
        return np.asarray((passes.turns - 1) * waits, np.float64)

    def _ahead(self, passes: ConvPasses, first: Pass) -> Floats:
        """Cycles of products whose operands may all be on chip or in GEMM's queue."""
        shape, tiles = self._shape, passes.tiles
        taps = tiles["tap_rows"], tiles["tap_columns"]
        steps, joined = passes.steps, passes.joined_steps
        keeps = tiles["keep_inputs"] > 0
        computing = first.computing * passes.first_share
        inputs = shape.input_rows(tiles["height"], tiles["width"], taps)
        inputs = inputs * np.where(keeps, shape.in_blocks, tiles["in_blocks"])
        params = tiles["out_blocks"] * (shape.out_parts * shape.classes) + shape.tail.requantizes
        held = [
            (self._capacity.inp // inputs - 1)
            * np.where(keeps, first.computing, computing / steps),
            (self._capacity.par // params - 1) * computing,
            self._queue_depth * computing / joined,
        ]
        ahead: Floats = np.maximum(np.minimum.reduce(held), 0)
        return ahead

    def _stalls(self, tiles: Table) -> Floats:
        """Cycles in which GEMM leaves a bank of the accumulators to LOAD.

        LOAD writes the rows of another map while GEMM accumulates the same tile. A row that finds
        its bank taken for `PATIENCE_CYCLES` takes a slot from GEMM. That happens where GEMM adds as
        many products to one row in turn. Products with padding are left out, column by column of
        the window, so that there those of one column follow each other.
        """
        shape = self._shape
        columns = np.where(shape.skips_columns, 1, tiles["tap_columns"])
        in_row = tiles["in_blocks"] * shape.in_parts * tiles["tap_rows"] * columns
        if "sums_outside" in tiles:
            in_row = np.where(tiles["sums_outside"] > 0, 1, in_row)
        rows = shape.batches * shape.out_blocks * shape.out_parts * shape.height * shape.width
        stalls: Floats = np.where(
            in_row >= PATIENCE_CYCLES, rows * shape.tail.loads * LOAD_STALL_CYCLES, 0.0
        )
        return stalls

    def _contention(self, tiles: Table, passes: ConvPasses) -> Floats:
        """Cycles in which GEMM and ALU wait for each other's banks of the accumulators.

        That happens where GEMM accumulates another row in each cycle, and only while the ALU works.
        """
        if "sums_outside" not in tiles:
            return np.zeros(len(tiles["height"]))
        products = total(item.times * item.products for item in passes.all)
        vectors = total(item.times * item.vectors for item in passes.all)
        working = total(item.times * item.vector_cycles for item in passes.all)
        share = np.minimum(working / np.maximum(products, 1), 1)
        waits: Floats = np.where(tiles["sums_outside"] > 0, vectors * share * CONTENTION_CYCLES, 0)
        return waits

    def _before_another_layer(self) -> int:
        """ALU cycles for a vector at the end of the layer, without those that the next one hides.

        Those of a fused change of scale are, where GEMM is so much busier than the ALU that this
        has time for them. Of other fused operators, all count: some networks lose otherwise.
        """
        tail = self._shape.tail
        cycles = tail.vector_cycles(self._machine)
        if not tail.requantizes or tail.operations or tail.loads:
            return cycles
        products = self._shape.in_blocks * self._shape.weight_rows() / self._shape.out_parts
        return NO_TAIL.vector_cycles(self._machine) if products >= GEMM_LEAD * cycles else cycles

    def _end(self, passes: ConvPasses, alu: int) -> Floats:
        """Cycles after the last product: the last two tiles are requantized and stored, with `alu`
        cycles of the ALU for a vector."""
        shape, tiles = self._shape, passes.tiles
        blocks = last_size(shape.out_blocks, passes.blocks)
        last_blocks = blocks - (ceil_div(blocks, tiles["out_blocks"]) - 1) * tiles["out_blocks"]
        whole = tiles["height"] * tiles["width"]
        pixels = last_size(shape.height, tiles["height"]) * last_size(shape.width, tiles["width"])
        last = last_blocks * pixels * shape.out_parts
        alone = blocks <= tiles["out_blocks"]
        before = np.where(alone, last_blocks * whole, tiles["out_blocks"] * pixels)
        before = before * shape.out_parts
        # Of one vector.
        products = shape.in_blocks * shape.weight_rows() / shape.out_parts * shape.needed
        late = np.maximum(before * alu - last * products, 0)
        # A slower ALU is counted as computing, which begins after the products of the first tile.
        computed = np.where(alu < products, late + last * alu, last * products)
        stored = np.maximum(computed, before * (alu + self._units.out) - last * products)
        return np.asarray(stored + last * self._units.out, np.float64)

    def instructions(self, tiles: Table) -> Floats:
        """Estimated number of instructions: one per load, product and operation of a tile."""
        passes = ConvPasses(self._units, tiles)
        return total(item.times * item.instructions for item in passes.all)

    def beats(self, tiles: Table) -> Floats:
        """Cycles of the bus for everything that is moved: words, with preset `ddr`."""
        passes = ConvPasses(self._units, tiles)
        kept = passes.kept_weights * passes.turns
        kept = kept + (passes.first.beats - passes.all[0].beats) * passes.turns
        return total([kept, *(item.times * item.beats for item in passes.all)])

    def features(self, tiles: Table) -> dict[str, Floats]:
        """What a learned cost model sees: cycles of every unit, and sizes of a tile."""
        shape, passes = self._shape, ConvPasses(self._units, tiles)
        pixels = tiles["height"] * tiles["width"]
        taps = tiles["tap_rows"], tiles["tap_columns"]
        first = passes.all[0]
        vectors = tiles["out_blocks"] * shape.out_parts * pixels
        reads = total(
            item.times * np.where(tiles["keep_inputs"] > 0, 1, item.tiles) for item in passes.all
        )
        found = {
            "estimate": self.cycles(tiles),
            "product_cycles": total(item.times * item.products for item in passes.all),
            "vector_cycles": total(item.times * item.vector_cycles for item in passes.all),
            "beats": self.beats(tiles),
            # What begins and ends the layer overlaps with nothing.
            "first_step_beats": first.tile_beats / passes.steps,
            "first_tile_beats": first.tile_beats,
            "kept_weight_beats": passes.kept_weights,
            "tile_product_cycles": first.products / first.tiles,
            "last_vector_cycles": vectors * self._units.vector_cycles,
            "last_beats": vectors * self._units.out,
            "input_beats": reads * passes.input_beats(tiles["height"], tiles["width"]),
            "unbalanced_cycles": total(
                item.times * np.maximum(item.computing, item.beats) for item in passes.all
            ),
            "instructions": self.instructions(tiles),
            "steps": passes.steps,
            "tile_products": tiles["out_blocks"]
            * tiles["in_blocks"]
            * pixels
            * shape.weight_rows(taps),
            "accumulators": tiles["out_blocks"] * pixels * shape.out_parts * shape.accumulators,
            "input_rows": shape.input_rows(tiles["height"], tiles["width"], taps),
            "weight_rows": tiles["out_blocks"] * tiles["in_blocks"] * shape.weight_rows(taps),
            **{name: tiles[name] for name in tiles},
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}
