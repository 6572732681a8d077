"""GEMM: one (batch x block_in) by (block_in x block_out) product per cycle, added to one row.

Input: GEMM instructions, micro-ops from LOAD, rows of INP (or OUT) and WGT. Output: accumulator
rows.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from daedal.hw.contracts import before, checks_contracts, contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.gemm.forwarding import Accumulation
from daedal.hw.gemm.product import DotProducts, tap_element
from daedal.hw.interfaces import (
    Activity,
    accumulator_ports,
    fill_signature,
    unit_signature,
)
from daedal.hw.issue.sequencer import Sequencer
from daedal.hw.layouts import retire_layout
from daedal.hw.memory.accumulators import bank_of
from daedal.hw.memory.scratchpad import read_signature
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.latencies import (
    ACC_READ_TO_SUM_CYCLES,
    ACC_READ_TO_WRITE_CYCLES,
    GEMM_AHEAD_CYCLES,
    GEMM_OPERAND_CYCLES,
    RAM_READ_CYCLES,
)
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode, Opcode
from daedal.isa.variant import Variant

__all__ = ["Gemm"]


class Gemm(wiring.Component):
    """A sequencer, an issue point and a pipeline that never stalls: an issued product always moves.

    One product per cycle for any order of accumulator rows: sums still in flight are forwarded at
    every distance. Cycles after the issue of a product: rows 2, operands (in the depthwise modes
    from selected vectors) 3, then `DotProducts.latency` to the sums. The accumulator row's write is
    in that cycle; its data, the accumulating register, comes one cycle later. `retire` follows the
    write by one cycle.

    Members
    -------
    fill : micro-ops. inp_read, wgt_read : operands. out_read : operands of mode DENSE_OUT, if the
    variant has it. gemm_read, gemm_write, gemm_hold : the accumulators' ports of the same names.
    The rest is `unit_signature`.

    `reads_three`, for contracts only: `inp_read` reads the two rows after its own, too.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        self._reads_out = GemmMode.DENSE_OUT in GemmMode.of(variant)
        ports = accumulator_ports(variant)
        operands = (Memory.INP, Memory.OUT) if self._reads_out else (Memory.INP,)
        super().__init__(
            {
                **unit_signature(variant, Opcode.GEMM),
                "fill": In(fill_signature(variant)),
                **{f"{mem.value}_read": Out(read_signature(variant, mem)) for mem in operands},
                "wgt_read": Out(read_signature(variant, Memory.WGT)),
                **{name: ports[name].flip() for name in ("gemm_read", "gemm_write", "gemm_hold")},
            }
        )
        self.reads_three = Signal()

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.sequencer = sequencer = Sequencer(
            variant=variant, opcode=Opcode.GEMM, controls=("mode",)
        )
        wiring.connect(m, wiring.flipped(self.issue), sequencer.issue)
        wiring.connect(m, wiring.flipped(self.fill), sequencer.fill)

        issue, leave = Signal(), Signal()
        valid, product, advance, step = self._decode(m, platform, sequencer)
        m.d.comb += [
            issue.eq(product & advance),
            leave.eq(valid & advance & step.last),
            self.work.eq(issue),
        ]
        inp = self._operand(m, product, step)
        m.d.comb += [
            self.wgt_read.enable.eq(product),
            self.wgt_read.row.eq(step.wgt),
        ]
        if checks_contracts(platform):
            m.d.comb += self.reads_three.eq(step.three)
            held = before(m, self.gemm_hold).bit_select(bank_of(variant, step.acc), 1)
            contract(m, platform, ~(issue & held), "no product must start where its bank is held")
        m.d.sync += [
            self.error.valid.eq(valid & advance & (step.illegal | step.beyond)),
            self.error.code.eq(
                Mux(step.illegal, ErrorCode.ILLEGAL_INSTRUCTION, ErrorCode.ROW_RANGE)
            ),
            self.error.index.eq(step.retire.index),
        ]
        totals, latency = self._multiply(m, platform, inp, step.lane, step.depthwise, step.three)

        lead = latency - ACC_READ_TO_SUM_CYCLES
        reads = delay(m, issue, lead - GEMM_AHEAD_CYCLES, name="valid", reset_less=False)
        row = delay(m, step.acc, lead - GEMM_AHEAD_CYCLES, name="row")
        restart = delay(m, step.restart, lead, name="restart")
        bits = variant.array.accumulator_bits
        accumulation = Accumulation(
            m, platform, read=self.gemm_read, write=self.gemm_write, bits=bits
        )
        accumulation.add(valid=reads, row=row, restart=restart, totals=totals)

        leaving = [leave]
        for age in range(lead + ACC_READ_TO_WRITE_CYCLES + 1):
            leaving.append(register(m, leaving[-1], name=f"leave_{age}", reset_less=False))
        m.d.comb += [
            self.retire.valid.eq(leaving[-1]),
            self.retire.payload.eq(delay(m, step.retire, len(leaving) - 1, name="retire")),
        ]
        with m.If(issue):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(~sequencer.idle | valid | self.issue.valid):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(Cat(leaving).any()):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _decode(
        self, m: Module, platform: Platform, sequencer: Sequencer
    ) -> tuple[Signal, Signal, Value, Any]:
        """Return (a step is at the issue point, it is a product, it advances, the step itself).

        All are registers: whether a product is held is decided one cycle ahead, for the step that
        will be there. `wgt` is a row of weights and `lane` the number of a vector in it.
        """
        variant = self._variant
        taken = sequencer.steps.p
        row_bits = scratchpad(variant, Memory.WGT).index_bits
        wgt = taken.index.wgt
        lane_bits = len(wgt) - row_bits
        layout = data.StructLayout(
            {
                "acc": len(taken.index.acc),
                "inp": len(taken.index.inp),
                "wgt": row_bits,
                "lane": lane_bits,
                **dict.fromkeys(("restart", "last", "depthwise", "three"), 1),
                **dict.fromkeys(("illegal", "beyond"), 1),
                **({"from_out": 1} if self._reads_out else {}),
                "retire": retire_layout(),
            }
        )
        depthwise, illegal, beyond, three = Signal(), Signal(), Signal(), Signal()
        if variant.array.depthwise_taps:
            is_mode = [taken.control.mode == mode for mode in GemmMode.of(variant) if mode.taps]
            m.d.comb += depthwise.eq(reduce(or_, is_mode))
        rows = taken.index.inp
        inp_bits = scratchpad(variant, Memory.INP).index_bits
        outside = ~depthwise & wgt[row_bits:].any()
        if variant.array.depthwise_taps > 1:
            m.d.comb += three.eq(taken.control.mode == GemmMode.DEPTHWISE3)
            # Three rows or vectors that start at one of the last two run past the end.
            last_two = wgt[1:lane_bits].all() | rows[1:inp_bits].all()
            outside = outside | (three & last_two)
        unknown = (taken.control.mode != GemmMode.DENSE) & ~depthwise
        from_out = taken.control.mode == GemmMode.DENSE_OUT
        if self._reads_out:
            unknown = unknown & ~from_out
            out_bits = scratchpad(variant, Memory.OUT).index_bits
            outside = outside | Mux(from_out, rows[out_bits:].any(), rows[inp_bits:].any())
        m.d.comb += [
            illegal.eq(unknown & ~taken.skip),
            beyond.eq(taken.out_of_range | (outside & ~taken.skip)),
        ]
        valid, step = Signal(), Signal(layout, reset_less=True)
        product, held, next_product = Signal(), Signal(), Signal()
        next_acc = Mux(held, step.acc, taken.index.acc)
        m.d.comb += next_product.eq(
            Mux(held, product, sequencer.steps.valid & ~(taken.skip | illegal | beyond))
        )
        holds = next_product & self.gemm_hold.bit_select(bank_of(variant, next_acc), 1)
        m.d.sync += [product.eq(next_product), held.eq(holds)]
        advance = ~held
        # High-fanout enables: each comes directly from a register of its own.
        moves = Replicated(m, platform, ~holds, name="moves")
        m.d.comb += sequencer.steps.ready.eq(moves.copy_for("sequencer"))
        with m.If(moves.copy_for("step")):
            m.d.sync += [
                valid.eq(sequencer.steps.valid),
                step.acc.eq(taken.index.acc),
                step.inp.eq(taken.index.inp),
                step.wgt.eq(Mux(depthwise, wgt[lane_bits:], wgt[:row_bits])),
                step.lane.eq(wgt[:lane_bits]),
                step.depthwise.eq(depthwise),
                step.three.eq(three),
                step.illegal.eq(illegal),
                step.beyond.eq(beyond),
                step.restart.eq(taken.restart),
                step.last.eq(taken.last),
                step.retire.eq(taken.retire),
            ]
            if self._reads_out:
                m.d.sync += step.from_out.eq(from_out)
        return valid, product, advance, step

    def _operand(self, m: Module, product: Value, step: Any) -> Value:
        """Read the row that `step` multiplies; return it, `RAM_READ_CYCLES` later."""
        m.d.comb += [self.inp_read.enable.eq(product), self.inp_read.row.eq(step.inp)]
        if not self._reads_out:
            return self.inp_read.data
        m.d.comb += [
            self.inp_read.enable.eq(product & ~step.from_out),
            self.out_read.enable.eq(product & step.from_out),
            self.out_read.row.eq(step.inp),
        ]
        from_out = delay(m, step.from_out, RAM_READ_CYCLES, name="from_out")
        # With three depthwise taps, two more rows of INP follow.
        result, row = self.out_read.data, self.inp_read.data
        return Cat(Mux(from_out, result, row[: len(result)]), row[len(result) :])

    def _multiply(
        self,
        m: Module,
        platform: Platform,
        inp: Value,
        lane: Value,
        depthwise: Value,
        three: Value,
    ) -> tuple[list[Value], int]:
        """Sums of all (batch, block_out) elements, and their latency from the issue in cycles.

        `inp` has the rows to multiply, those of INP as its read port has them.
        """
        array = self._variant.array
        inp_bits = array.block_in * array.input_bits
        wgt_bits = array.block_in * array.weight_bits  # of one vector
        weights = self.wgt_read.data
        num_taps = array.depthwise_taps
        row_words = _words(weights, wgt_bits)
        if num_taps:
            # Output o takes element o of the selected vectors, and all its other weights are 0.
            # Each mode clears the register of the operand that it does not use, and the two are
            # ORed.
            lane = register(m, lane, name="lane")
            clear = Replicated(m, platform, register(m, depthwise, name="depthwise"), name="clear")
            depthwise = delay(m, depthwise, 2, name="depthwise_here")
            vectors = [self._vector(m, platform, weights, lane, depthwise, 0)]
            if num_taps > 1:
                three = delay(m, three, 2, name="three")
                # In a row shifted down by k vectors, lane `lane` is vector lane + k.
                for k in range(1, num_taps):
                    rest = weights[k * wgt_bits :]
                    vectors.append(self._vector(m, platform, rest, lane, three, k))
                three = register(m, three, name="slide")
            row_words = [Mux(clear.copy_for(o), 0, w) for o, w in enumerate(row_words)]
        # The route from block RAM to the multipliers is long: it has a register.
        inp = register(m, inp, name="inp_row")
        weights = Cat(register(m, w, name=f"wgt_row{o}") for o, w in enumerate(row_words))
        if num_taps:
            weights = self._placed(weights, vectors)
        require_at_elaboration(
            GEMM_OPERAND_CYCLES == RAM_READ_CYCLES + 1,
            "a product must take its operands when its rows are there: GEMM_OPERAND_CYCLES must be "
            "RAM_READ_CYCLES and a register",
        )
        latency = GEMM_OPERAND_CYCLES
        totals: list[Value] = []
        for b in range(array.batch):
            dots = DotProducts(array=array)
            m.submodules[f"dots{b}"] = dots
            # A row of INP holds the whole batch.
            m.d.comb += [
                dots.inp.eq(Cat(_words(inp, inp_bits)[b :: array.batch])),
                dots.wgt.eq(weights),
            ]
            if num_taps > 1:
                m.d.comb += dots.slide.eq(three)
            totals += [dots.total[o] for o in range(array.block_out)]
        latency += DotProducts.latency(array)
        # The latency of a small tree is shorter than that of an accumulator read: delay the sums.
        spare = max(0, GEMM_AHEAD_CYCLES + ACC_READ_TO_SUM_CYCLES - latency)
        totals = [delay(m, total, spare, name=f"total{k}") for k, total in enumerate(totals)]
        return totals, latency + spare

    def _vector(
        self, m: Module, platform: Platform, weights: Value, lane: Value, enable: Value, tap: int
    ) -> Value:
        """Weight vector number `lane` of a row, one cycle later; zeros without `enable`.

        `lane` comes one cycle before the row. The mux has two stages: one of every four vectors
        into a register, then one of those.
        """
        bits = self._variant.array.block_in * self._variant.array.weight_bits
        fours = [weights[k : k + 4 * bits] for k in range(0, len(weights), 4 * bits)]
        low = Replicated(m, platform, lane[:2], name=f"lane{tap}")
        high = register(m, lane[2:], name=f"four{tap}")
        result: Value = Const(0, bits)
        for number, four in enumerate(fours):
            vector = Signal(bits, name=f"vector{tap}_{number}")
            place = low.copy_for(number)[: ceil_log2(len(four) // bits)]
            m.d.comb += vector.eq(four.word_select(place, bits))
            chosen = enable & (high == number)
            result = result | register(m, Mux(chosen, vector, 0), name=f"vector{tap}_{number}")
        return result

    def _placed(self, rows: Value, vectors: list[Value]) -> Value:
        """Rows of weights with each output's vector elements ORed in at their taps' positions."""
        array = self._variant.array
        words = _words(rows, array.weight_bits)
        for o in range(array.block_out):
            for tap, vector in enumerate(vectors):
                own = vector.word_select(o, array.weight_bits)
                words[o * array.block_in + tap_element(array, o, tap)] |= own
        return Cat(words)


def _words(value: Value, bits: int) -> list[Value]:
    return [value[k : k + bits] for k in range(0, len(value), bits)]
