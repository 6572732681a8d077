"""The sequencer: hardware loops around a range of micro-ops, one set of row numbers per cycle.

Input: GEMM or ALU instructions. Output: a stream of steps; consecutive instructions follow each
other without a bubble. Latency from instruction to first step: five cycles.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import at_most_one, checks_contracts, contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import fill_signature
from daedal.hw.layouts import instruction_struct, issue_layout, retire_layout
from daedal.hw.memory.scratchpad import MicroOpMemory
from daedal.hw.pipeline import register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.table import (
    INSTRUCTIONS,
    LOOPS,
    MICRO_OPS,
    Opcode,
    Unit,
    micro_op_layout,
)
from daedal.isa.variant import Variant

__all__ = ["ISSUE_TO_MICRO_OP_CYCLES", "Sequencer", "step_layout"]

ISSUE_TO_MICRO_OP_CYCLES = 2
"""Minimum latency from the issue of an instruction to the read of its first micro-op."""


def _index_names(unit: Unit) -> tuple[str, ...]:
    return tuple(field.name for field in MICRO_OPS[unit] if field.name != "first")


def step_layout(variant: Variant, opcode: Opcode, controls: tuple[str, ...]) -> data.StructLayout:
    """One step: a product of GEMM, a vector of the ALU.

    `index` holds the row numbers by micro-op field; `out_of_range`: one of them overflows its
    field, or the range of micro-ops exceeds their memory. `restart`: the product overwrites the
    accumulators (GEMM). `last` marks the last step of its instruction, `skip` a step that only
    retires an instruction with nothing to do. `control` carries the instruction's fields named in
    `controls`.
    """
    unit = INSTRUCTIONS[opcode].unit
    fields = instruction_struct(variant, opcode)
    widths = micro_op_layout(variant, unit)
    return data.StructLayout(
        {
            "index": data.StructLayout({n: widths[n].width for n in _index_names(unit)}),
            "out_of_range": 1,
            "restart": 1,
            "last": 1,
            "skip": 1,
            "control": data.StructLayout({name: fields[name].shape for name in controls}),
            "retire": retire_layout(),
        }
    )


class Sequencer(wiring.Component):
    """Expand instructions into steps: for i0, for i1, for i2, for uop in [uop_begin, uop_end).

    index = base + i0 * factor0 + i1 * factor1 + i2 * factor2 + micro-op field. The loop sums are
    kept as running sums, with one extra sticky bit for overflow. Pipeline: two waiting
    instructions; loop state and micro-op address; RAM; RAM output register; sum. All stages but the
    first advance together while `steps.ready`, whether they hold a step or not, and otherwise
    stall: the flag arrives late and enables hundreds of registers, so it is the only condition.
    `issue.ready` depends on registers alone. Which loop advances with a step is a register too,
    computed one step ahead.

    Parameters
    ----------
    variant : the machine.
    opcode : GEMM or ALU.
    controls : fields of the instruction that accompany each step.

    Members
    -------
    issue : instructions. fill : micro-ops from LOAD. steps : stream of `step_layout`.
    idle : no instruction and no step is inside.
    """

    def __init__(self, *, variant: Variant, opcode: Opcode, controls: tuple[str, ...]) -> None:
        if opcode not in (Opcode.GEMM, Opcode.ALU):
            raise ValueError(f"a sequencer's opcode must be GEMM or ALU, not {opcode.name}")
        self._variant = variant
        self._controls = controls
        self._unit = INSTRUCTIONS[opcode].unit
        super().__init__(
            {
                "issue": In(stream.Signature(issue_layout(variant, opcode))),
                "fill": In(fill_signature(variant)),
                "steps": Out(stream.Signature(step_layout(variant, opcode, controls))),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.micro_ops = micro_ops = MicroOpMemory(variant=self._variant, unit=self._unit)
        advance = self.steps.ready
        m.d.comb += [
            micro_ops.fill.p.eq(self.fill.p),
            micro_ops.fill.valid.eq(self.fill.valid),
            self.fill.ready.eq(1),
            micro_ops.advance.eq(advance),
        ]
        some, waiting, accept = self._wait(m, len(micro_ops.index))
        active, tag, offsets = self._loops(m, platform, some, waiting, accept, micro_ops.index)
        if checks_contracts(platform):
            m.d.comb += micro_ops.needed.eq(active & ~(tag.skip | tag.out_of_range))
        valids = [active]
        with m.If(advance):
            for stage in ("address", "read"):
                valids.append(register(m, valids[-1], name=f"{stage}_valid", reset_less=False))
                tag = register(m, tag, name=f"{stage}_tag")
                offsets = {
                    name: register(m, value, name=f"{stage}_{name}")
                    for name, value in offsets.items()
                }
        with m.If(advance):
            m.d.sync += self.steps.valid.eq(valids[-1])
            self._sum(m, tag, offsets, micro_ops.data)
        m.d.comb += self.idle.eq(~(some | Cat(valids).any() | self.steps.valid))
        return m

    def _wait(self, m: Module, uop_bits: int) -> tuple[Signal, Any, Signal]:
        """Return (an instruction waits, that instruction partly decoded, the loops take it).

        `last_uop` is the last micro-op's number. `alone`: there is only one micro-op. `skip`: there
        is nothing to do. `beyond`: the range exceeds the micro-op memory. `once`, `twice`: one bit
        per loop, its extent is 1, is 2. `turn` and `finish` are those of its first step (`_loops`).
        """
        layout = data.StructLayout(
            {
                "issue": self.issue.p.shape(),
                "last_uop": uop_bits,
                **dict.fromkeys(("alone", "skip", "beyond", "finish"), 1),
                **dict.fromkeys(("once", "twice", "turn"), LOOPS),
            }
        )
        # Two registers used alternately, so that `ready` comes from registers and no instruction is
        # copied between them.
        places = [Signal(layout, name=f"waiting{k}", reset_less=True) for k in range(2)]
        full = Signal(2)
        into, out, accept = Signal(), Signal(), Signal()
        m.d.comb += self.issue.ready.eq(~full.all())
        with m.If(self.issue.valid & self.issue.ready):
            m.d.sync += into.eq(~into)
        with m.If(accept):
            m.d.sync += out.eq(~out)
        given = self.issue.p.instruction
        extents = [given[f"extent{k}"] for k in range(LOOPS)]
        skip = (given.uop_begin >= given.uop_end) | Cat(extent == 0 for extent in extents).any()
        once = Cat(extent == 1 for extent in extents)
        alone = Signal()
        m.d.comb += alone.eq(given.uop_begin == (given.uop_end - 1)[:uop_bits])
        turn, finish = _next_turn(alone, once)
        for number, place in enumerate(places):
            with m.If((into == number) & ~full[number]):
                m.d.sync += [
                    full[number].eq(self.issue.valid),
                    place.issue.eq(self.issue.p),
                    place.last_uop.eq(given.uop_end - 1),
                    place.beyond.eq(given.uop_end > (1 << uop_bits)),
                    place.skip.eq(skip),
                    place.alone.eq(alone),
                    place.once.eq(once),
                    place.twice.eq(Cat(extent == 2 for extent in extents)),
                    place.turn.eq(turn),
                    place.finish.eq(skip | finish),
                ]
            with m.If(accept & (out == number)):
                m.d.sync += full[number].eq(0)
        some, waiting = Signal(), Signal(layout)
        m.d.comb += [some.eq(full.bit_select(out, 1)), waiting.eq(Mux(out, *reversed(places)))]
        return some, waiting, accept

    def _tag_layout(self) -> data.StructLayout:
        """What accompanies the row numbers; `fresh`: every loop allows an overwrite now."""
        steps = self.steps.p.shape()
        names = ("out_of_range", "last", "skip", "control", "retire")
        return data.StructLayout({"fresh": 1, **{n: steps[n].shape for n in names}})

    def _loops(
        self,
        m: Module,
        platform: Platform,
        some: Signal,
        waiting: Any,
        accept: Signal,
        index: Value,
    ) -> tuple[Value, Value, dict[str, Value]]:
        """The loops; return (an instruction is active, tag of its current step, running sums).

        At the last micro-op, the innermost loop that is not in its last iteration advances (its bit
        of `turn` is set), and the loops inside it restart; if all are in their last, the
        instruction is finished.
        """
        held = Signal(self.issue.p.shape(), reset_less=True)
        current, following = held.instruction, waiting.issue.instruction
        active, skip, beyond = Signal(), Signal(), Signal()
        uop = Signal(len(index), reset_less=True)
        before_last = Signal(len(index), reset_less=True)
        left = [Signal(len(current[f"extent{k}"]), name=f"left{k}") for k in range(LOOPS)]
        first = [Signal(name=f"first{k}") for k in range(LOOPS)]

        # Flags of the current step, computed one step ahead: loops in their last iteration (`done`)
        # and in the one before it (`almost`).
        done, almost = Signal(LOOPS), Signal(LOOPS)
        once, twice, single = Signal(LOOPS), Signal(LOOPS), Signal()
        turn, finish, advance = Signal(LOOPS), Signal(), self.steps.ready
        starts_over = [Const(0), *(turn[:level].any() for level in range(1, LOOPS))]
        done_next = Cat(
            Mux(turn[level], almost[level], Mux(starts_over[level], once[level], done[level]))
            for level in range(LOOPS)
        )
        turn_next, finish_next = _next_turn(Mux(turn.any(), single, uop == before_last), done_next)
        # An instruction is active and this is not its last step.
        goes_next = Signal()
        going = Replicated(m, platform, goes_next, name="goes", reset_less=False)
        goes = going.copy_for("loops")
        m.d.comb += [
            index.eq(uop),
            accept.eq(some & advance & ~goes),
            goes_next.eq(Mux(advance, Mux(goes, ~finish_next, some & ~waiting.finish), goes)),
        ]
        # Loading garbage while no instruction waits is harmless, so `advance` is only an enable,
        # never a mux select.
        with m.If(advance & ~goes):
            m.d.sync += [
                active.eq(some),
                held.eq(waiting.issue),
                before_last.eq(waiting.last_uop - 1),
                single.eq(waiting.alone),
                beyond.eq(waiting.beyond),
                skip.eq(waiting.skip),
                once.eq(waiting.once),
                twice.eq(waiting.twice),
            ]
        with m.If(advance & ~going.copy_for("counts")):
            m.d.sync += [
                uop.eq(following.uop_begin),
                turn.eq(waiting.turn),
                finish.eq(waiting.finish),
                done.eq(waiting.once),
                almost.eq(waiting.twice),
                *(one.eq(1) for one in first),
                *(left[k].eq(following[f"extent{k}"] - 1) for k in range(LOOPS)),
            ]
        with m.Elif(advance):
            m.d.sync += [
                uop.eq(Mux(turn.any(), current.uop_begin, uop + 1)),
                turn.eq(turn_next),
                finish.eq(finish_next),
                done.eq(done_next),
            ]
            for level in range(LOOPS):
                with m.If(turn[level]):
                    m.d.sync += [
                        left[level].eq(left[level] - 1),
                        almost[level].eq(left[level] == 2),
                        first[level].eq(0),
                    ]
                with m.Elif(starts_over[level]):
                    m.d.sync += [
                        left[level].eq(current[f"extent{level}"] - 1),
                        almost[level].eq(twice[level]),
                        first[level].eq(1),
                    ]
        load = advance & ~going.copy_for("sums")
        sums = self._running_sums(m, load, advance, turn, current, following)
        tag = self._tag(m, held, finish, skip, beyond, first)
        contract(m, platform, at_most_one(turn), "one loop must go on at a time")
        contract(m, platform, ~accept | some, "only an instruction that waits must be taken")
        return active, tag, sums

    def _running_sums(
        self, m: Module, load: Value, advance: Value, turn: Signal, current: Any, following: Any
    ) -> dict[str, Value]:
        """Base plus loop offsets of every row number, for the instruction in `current`."""
        sums = {
            name: [
                Signal(len(current[f"{name}_base"]) + 1, name=f"{name}_sum{k}", reset_less=True)
                for k in range(LOOPS)
            ]
            for name in _index_names(self._unit)
        }
        for name, levels in sums.items():
            with m.If(load):
                m.d.sync += [one.eq(following[f"{name}_base"]) for one in levels]
            with m.Elif(advance):
                for level in range(LOOPS):
                    with m.If(turn[level]):
                        moved = _sticky_sum(levels[level], current[f"{name}_factor{level}"])
                        m.d.sync += [one.eq(moved) for one in levels[level:]]
        return {name: levels[-1] for name, levels in sums.items()}

    def _tag(
        self,
        m: Module,
        held: Any,
        finish: Value,
        skip: Value,
        beyond: Value,
        first: list[Signal],
    ) -> Signal:
        """What accompanies the current step's row numbers; `first`: in its first turn, by loop."""
        current = held.instruction
        tag = Signal(self._tag_layout())
        m.d.comb += [
            tag.last.eq(finish),
            tag.skip.eq(skip),
            tag.out_of_range.eq(beyond),
            *(tag.control[name].eq(current[name]) for name in self._controls),
            tag.retire.push.eq(current.push),
            tag.retire.mark.eq(current.mark),
            tag.retire.tag.eq(current.tag),
            tag.retire.index.eq(held.index),
        ]
        if self._unit is Unit.GEMM:
            stays = [current[f"acc_factor{k}"] != 0 for k in range(LOOPS)]
            m.d.comb += tag.fresh.eq(
                current.overwrite & Cat(a | b for a, b in zip(stays, first, strict=True)).all()
            )
        return tag

    def _sum(self, m: Module, tag: Value, offsets: dict[str, Value], micro_op: Value) -> None:
        """Last stage: row numbers, range check and overwrite decision, registered."""
        step = self.steps.p
        beyond = []
        for name, offset in offsets.items():
            total = offset + micro_op[name]
            width = len(step.index[name])
            m.d.sync += step.index[name].eq(total[:width])
            beyond.append(total[width:].any())
        m.d.sync += [
            step.out_of_range.eq((tag.out_of_range | Cat(beyond).any()) & ~tag.skip),
            step.last.eq(tag.last),
            step.skip.eq(tag.skip),
            step.control.eq(tag.control),
            step.retire.eq(tag.retire),
        ]
        if self._unit is Unit.GEMM:
            m.d.sync += step.restart.eq(tag.fresh & micro_op.first)


def _next_turn(at_last_uop: Value, done: Value) -> tuple[Value, Value]:
    """Return (one-hot, the loop that advances with a step; whether all loops are done)."""
    within = [*(done[level + 1 :].all() for level in range(LOOPS - 1)), Const(1)]
    turn = Cat(at_last_uop & inner & ~bit for inner, bit in zip(within, done, strict=True))
    return turn, at_last_uop & done.all()


def _sticky_sum(running: Value, step: Value) -> Value:
    """`running` + `step`; the top bit is sticky: it is set once a sum has overflowed."""
    total = running + step
    width = len(running) - 1
    return Cat(total[:width], total[width:].any())
