"""The sequencer: hardware loops around a range of micro-ops, one set of row numbers per cycle.

Input: GEMM or ALU instructions. Output: a stream of steps; consecutive instructions follow each
other without a bubble. Latency from instruction to first step: five cycles.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import checks_contracts
from daedal.hw.family import Platform
from daedal.hw.interfaces import fill_signature
from daedal.hw.issue.loops import Loops, index_names, next_turn
from daedal.hw.layouts import instruction_struct, issue_layout, retire_layout
from daedal.hw.memory.scratchpad import MicroOpMemory
from daedal.hw.pipeline import register
from daedal.isa.table import (
    INSTRUCTIONS,
    LOOPS,
    Opcode,
    Unit,
    micro_op_layout,
)
from daedal.isa.variant import Variant

__all__ = ["ISSUE_TO_MICRO_OP_CYCLES", "Sequencer", "step_layout"]

ISSUE_TO_MICRO_OP_CYCLES = 2
"""Minimum latency from the issue of an instruction to the read of its first micro-op."""


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
            "index": data.StructLayout({n: widths[n].width for n in index_names(unit)}),
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
        loops = Loops(
            m, platform, unit=self._unit, waiting=waiting, advance=advance, index=micro_ops.index
        )
        loops.run(some, accept)
        active, offsets = loops.active, loops.sums
        tag = self._tag(m, loops)
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
        per loop, its extent is 1, is 2. `turn` and `finish` are those of its first step (`Loops`).
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
        turn, finish = next_turn(alone, once)
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

    def _tag(self, m: Module, loops: Loops) -> Signal:
        """What accompanies the current step's row numbers; `fresh`: every loop allows an overwrite.

        A loop does so in its first iteration, or if it moves the accumulator row.
        """
        steps = self.steps.p.shape()
        names = ("out_of_range", "last", "skip", "control", "retire")
        layout = data.StructLayout({"fresh": 1, **{n: steps[n].shape for n in names}})
        held, current = loops.held, loops.held.instruction
        tag = Signal(layout)
        m.d.comb += [
            tag.last.eq(loops.finish),
            tag.skip.eq(loops.skip),
            tag.out_of_range.eq(loops.beyond),
            *(tag.control[name].eq(current[name]) for name in self._controls),
            tag.retire.push.eq(current.push),
            tag.retire.mark.eq(current.mark),
            tag.retire.tag.eq(current.tag),
            tag.retire.index.eq(held.index),
        ]
        if self._unit is Unit.GEMM:
            stays = [current[f"acc_factor{k}"] != 0 for k in range(LOOPS)]
            allows = Cat(a | b for a, b in zip(stays, loops.first, strict=True))
            m.d.comb += tag.fresh.eq(current.overwrite & allows.all())
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
