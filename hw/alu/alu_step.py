"""Decode a step of the ALU: which rows it reads and writes, its operation, errors.

Input: steps of the sequencer. Output: decoded steps, two cycles later; their rows go to the
interlock one cycle earlier.
"""

from dataclasses import dataclass
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

__all__ = ["DecodedSteps", "decode"]


@dataclass(frozen=True)
class DecodedSteps:
    """What `decode` gives to the issue point.

    Attributes
    ----------
    comes : a step is being decoded.
    some : a decoded step waits before the issue point.
    step : that step, a view of `step_layout`.
    """

    comes: Signal
    some: Signal
    step: Any


@dataclass(frozen=True)
class _Summed:
    """A step with its row numbers, in registers.

    `requantize`, `reads_src`, `reads_dst` and `to_acc` say how its operation uses its rows, if it
    is legal; `flags` are those that only some variants have, by name.
    """

    comes: Signal
    taken: Any
    requantize: Signal
    reads_src: Signal
    reads_dst: Signal
    to_acc: Signal
    flags: dict[str, Signal]


def decode(
    m: Module, variant: Variant, steps: stream.Interface, interlock: Interlock, advance: Value
) -> DecodedSteps:
    """Decode a step while `advance` is set; the logic is added to `m`, the ALU's own module."""
    summed = _sum(m, variant, steps, advance)
    step = Signal(step_layout(variant, steps), name="decoded")
    _classify(m, variant, summed, step)
    _show_rows(m, summed, step, interlock)
    some, before = Signal(), Signal.like(step, name="before", reset_less=True)
    with m.If(advance):
        m.d.sync += [some.eq(summed.comes), before.eq(step)]
    return DecodedSteps(summed.comes, some, before)


def step_layout(variant: Variant, steps: stream.Interface) -> data.StructLayout:
    """A decoded step. It has a flag `lookup` only where the variant has tables."""
    index = steps.p.index
    return data.StructLayout(
        {
            "src": len(index.src),
            "dst": len(index.dst),
            "par": len(index.par),
            **dict.fromkeys(("work", "requantize", "reads_src", "reads_dst"), 1),
            **dict.fromkeys(("illegal", "beyond", "last", "same_bank"), 1),
            **({"lookup": 1} if variant.memory.tables else {}),
            "control": steps.p.control.shape(),
            "retire": retire_layout(),
        }
    )


def _sum(m: Module, variant: Variant, steps: stream.Interface, advance: Value) -> _Summed:
    """Register a step: the path from the sums of row numbers to the interlock is long."""
    comes = Signal()
    taken = Signal(steps.p.shape(), name="summed", reset_less=True)
    coming = steps.p.control
    unary_comes = matches(variant, coming.operation, lambda op: not op.takes_x)
    requantize_comes = matches(variant, coming.operation, lambda op: op.requantizes)
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
    return _Summed(comes, taken, requantize, reads_src, reads_dst, to_acc, flags)


def _classify(m: Module, variant: Variant, summed: _Summed, step: Any) -> None:
    """Drive the decoded step: its rows, and whether it works or is in error."""
    taken, control, dst = summed.taken, summed.taken.control, summed.taken.index.dst
    acc_bits = scratchpad(variant, Memory.ACC).index_bits
    out_bits = scratchpad(variant, Memory.OUT).index_bits
    outside = (
        Mux(summed.to_acc, dst[acc_bits:].any(), dst[out_bits:].any())
        # A register form also reads accumulator row `dst`.
        | (summed.reads_dst & dst[acc_bits:].any())
    )
    m.d.comb += [
        *(step[name].eq(flag) for name, flag in summed.flags.items()),
        step.requantize.eq(summed.requantize),
        step.reads_src.eq(step.work & summed.reads_src),
        step.reads_dst.eq(step.work & summed.reads_dst),
        step.illegal.eq(~taken.skip & ~matches(variant, control.operation, lambda op: True)),
        step.beyond.eq(taken.out_of_range | (~taken.skip & outside)),
        step.same_bank.eq(bank_of(variant, step.src) == bank_of(variant, dst[:acc_bits])),
        step.work.eq(~(taken.skip | step.illegal | step.beyond)),
        step.src.eq(taken.index.src),
        step.dst.eq(dst),
        step.par.eq(taken.index.par),
        step.last.eq(taken.last),
        step.control.eq(control),
        step.retire.eq(taken.retire),
    ]


def _show_rows(m: Module, summed: _Summed, step: Any, interlock: Interlock) -> None:
    """Give the step's rows to the interlock.

    A step in error may also wait for rows: the error is known too late to prevent it.
    """
    works = ~summed.taken.skip
    m.d.comb += [
        interlock.src.eq(step.src),
        interlock.dst.eq(summed.taken.index.dst),
        interlock.reads_src.eq(works & summed.reads_src),
        interlock.reads_dst.eq(works & summed.reads_dst),
        interlock.writes.eq(summed.comes & works & summed.to_acc),
    ]
