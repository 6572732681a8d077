"""Decode a step of the ALU: which rows it reads and writes, its operation, errors.

Input: steps of the sequencer. Output: decoded steps, two cycles later; their rows go to the
interlock one cycle earlier.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream

from daedal.hw.alu.hardware_lane import matches
from daedal.hw.alu.interlock import Interlock
from daedal.hw.layouts import retire_layout
from daedal.hw.memory.accumulators import bank_of
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, OutMemory
from daedal.isa.variant import Variant

__all__ = ["decode"]


def decode(
    m: Module, variant: Variant, steps: stream.Interface, interlock: Interlock, advance: Value
) -> tuple[Signal, Signal, Any]:
    """Decode a step while `advance` is set.

    Return (a step is being decoded, one waits before the issue point, that step). A step has a flag
    `lookup` only where the variant has tables.
    """
    # The path from the sums of row numbers to the interlock needs a register.
    comes = Signal()
    taken = Signal(steps.p.shape(), name="summed", reset_less=True)
    coming = steps.p.control
    unary_comes = matches(variant, coming.operation, lambda op: not op.takes_x)
    requantize_comes = matches(variant, coming.operation, lambda op: op.requantizes)
    # How the operation uses its rows, if it is legal.
    requantize, reads_src, reads_dst, to_acc = (
        Signal(name=name, reset_less=True)
        for name in ("requantize", "form_reads_src", "form_reads_dst", "to_acc")
    )
    lookup = Signal(reset_less=True)
    flags = {"lookup": lookup} if variant.memory.tables else {}
    with m.If(advance):
        m.d.sync += [
            *(flag.eq(coming.operation == AluOp[name.upper()]) for name, flag in flags.items()),
            comes.eq(steps.valid),
            taken.eq(steps.p),
            requantize.eq(requantize_comes),
            reads_src.eq(~(unary_comes & coming.use_immediate & ~requantize_comes)),
            reads_dst.eq(~(unary_comes | coming.use_immediate)),
            to_acc.eq(coming.destination == OutMemory.ACC),
        ]
    control, dst = taken.control, taken.index.dst
    acc_bits = scratchpad(variant, Memory.ACC).index_bits
    out_bits = scratchpad(variant, Memory.OUT).index_bits
    step = Signal(
        data.StructLayout(
            {
                "src": len(taken.index.src),
                "dst": len(dst),
                "par": len(taken.index.par),
                **dict.fromkeys(("work", "requantize", "reads_src", "reads_dst"), 1),
                **dict.fromkeys(("illegal", "beyond", "last", "same_bank"), 1),
                **dict.fromkeys(flags, 1),
                "control": control.shape(),
                "retire": retire_layout(),
            }
        ),
        name="decoded",
    )
    m.d.comb += [
        *(step[name].eq(flag) for name, flag in flags.items()),
        step.requantize.eq(requantize),
        step.reads_src.eq(step.work & reads_src),
        step.reads_dst.eq(step.work & reads_dst),
        step.illegal.eq(~taken.skip & ~matches(variant, control.operation, lambda op: True)),
        step.beyond.eq(
            taken.out_of_range
            | (
                ~taken.skip
                & (
                    Mux(to_acc, dst[acc_bits:].any(), dst[out_bits:].any())
                    # A register form also reads accumulator row `dst`.
                    | (reads_dst & dst[acc_bits:].any())
                )
            )
        ),
        step.same_bank.eq(bank_of(variant, step.src) == bank_of(variant, dst[:acc_bits])),
        step.work.eq(~(taken.skip | step.illegal | step.beyond)),
        step.src.eq(taken.index.src),
        step.dst.eq(dst),
        step.par.eq(taken.index.par),
        step.last.eq(taken.last),
        step.control.eq(control),
        step.retire.eq(taken.retire),
        interlock.src.eq(step.src),
        interlock.dst.eq(dst),
        # A step in error may also wait for rows: the error is known too late to prevent it.
        interlock.reads_src.eq(~taken.skip & reads_src),
        interlock.reads_dst.eq(~taken.skip & reads_dst),
        interlock.writes.eq(comes & ~taken.skip & to_acc),
    ]
    some, before = Signal(), Signal.like(step, name="before", reset_less=True)
    with m.If(advance):
        m.d.sync += [some.eq(comes), before.eq(step)]
    return comes, some, before
