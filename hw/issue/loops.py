"""The hardware loops of a sequencer: the current instruction, its loop counts and running sums.

Input: instructions that wait, partly decoded (`Sequencer`). Output: for each step, the number of
its micro-op and the row numbers without that micro-op's part.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from daedal.hw.contracts import at_most_one, contract
from daedal.hw.family import Platform
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.table import LOOPS, MICRO_OPS, Unit

__all__ = ["Loops", "index_names", "next_turn"]


def index_names(unit: Unit) -> tuple[str, ...]:
    return tuple(field.name for field in MICRO_OPS[unit] if field.name != "first")


def next_turn(at_last_uop: Value, done: Value) -> tuple[Value, Value]:
    """Return (one-hot, the loop that advances with a step; whether all loops are done)."""
    within = [*(done[level + 1 :].all() for level in range(LOOPS - 1)), Const(1)]
    turn = Cat(at_last_uop & inner & ~bit for inner, bit in zip(within, done, strict=True))
    return turn, at_last_uop & done.all()


class Loops:
    """Walks over an instruction's steps; the logic is added to the sequencer's own module.

    At the last micro-op, the innermost loop that is not in its last iteration advances (its bit of
    `turn` is set), and the loops inside it restart; if all are in their last, the instruction is
    finished. Which loop advances is computed one step ahead.

    Parameters
    ----------
    m : module to add to. platform : of the elaboration. unit : GEMM or ALU.
    waiting : the instruction that is taken next. advance : a step may leave.
    index : driven here: the number of the current step's micro-op.

    Attributes
    ----------
    active : an instruction is being expanded. held : that instruction.
    finish, skip, beyond : of its current step: it is the last; there is nothing to do; the range of
        micro-ops exceeds their memory.
    first : by loop, whether it is in its first iteration.
    sums : base plus loop offsets of every row number, by name.
    """

    def __init__(
        self,
        m: Module,
        platform: Platform,
        *,
        unit: Unit,
        waiting: Any,
        advance: Value,
        index: Value,
    ) -> None:
        self._m, self._platform, self._unit = m, platform, unit
        self._waiting, self._advance, self._index = waiting, advance, index
        self.held = Signal(waiting.issue.shape(), name="held", reset_less=True)
        current = self.held.instruction
        self.active, self.skip, self.beyond = Signal(), Signal(), Signal(name="beyond")
        self._uop = Signal(len(index), name="uop", reset_less=True)
        self._before_last = Signal(len(index), name="before_last", reset_less=True)
        self._left = [Signal(len(current[f"extent{k}"]), name=f"left{k}") for k in range(LOOPS)]
        self.first = [Signal(name=f"first{k}") for k in range(LOOPS)]
        # Flags of the current step, computed one step ahead: loops in their last iteration (`done`)
        # and in the one before it (`almost`).
        self._done, self._almost = Signal(LOOPS), Signal(LOOPS)
        self._once, self._twice, self._single = Signal(LOOPS), Signal(LOOPS), Signal()
        self._turn, self.finish = Signal(LOOPS), Signal()
        self.sums: dict[str, Value] = {}

    def run(self, some: Value, accept: Value) -> None:
        """Walk; `some`: an instruction waits. `accept` is driven here: it is taken. Called once."""
        m, advance = self._m, self._advance
        # An instruction is active and this is not its last step.
        goes_next = Signal()
        going = Replicated(m, self._platform, goes_next, name="goes", reset_less=False)
        goes = going.copy_for("loops")
        restarts = [Const(0), *(self._turn[:level].any() for level in range(1, LOOPS))]
        turn_next, finish_next, done_next = self._next_flags(restarts)
        m.d.comb += [
            self._index.eq(self._uop),
            accept.eq(some & advance & ~goes),
            goes_next.eq(Mux(advance, Mux(goes, ~finish_next, some & ~self._waiting.finish), goes)),
        ]
        # Loading garbage while no instruction waits is harmless, so `advance` is only an enable,
        # never a mux select.
        with m.If(advance & ~goes):
            self._take(some)
        with m.If(advance & ~going.copy_for("counts")):
            self._start()
        with m.Elif(advance):
            m.d.sync += [
                self._uop.eq(Mux(self._turn.any(), self.held.instruction.uop_begin, self._uop + 1)),
                self._turn.eq(turn_next),
                self.finish.eq(finish_next),
                self._done.eq(done_next),
            ]
            self._count(restarts)
        self._add(advance & ~going.copy_for("sums"))
        contract(m, self._platform, at_most_one(self._turn), "one loop must go on at a time")
        taken = "only an instruction that waits must be taken"
        contract(m, self._platform, ~accept | some, taken)

    def _next_flags(self, restarts: list[Value]) -> tuple[Value, Value, Value]:
        """`turn`, `finish` and `done` of the step after the current one."""
        turn, done, almost, once = self._turn, self._done, self._almost, self._once
        done_next = Cat(
            Mux(turn[level], almost[level], Mux(restarts[level], once[level], done[level]))
            for level in range(LOOPS)
        )
        at_last = Mux(turn.any(), self._single, self._uop == self._before_last)
        return *next_turn(at_last, done_next), done_next

    def _take(self, some: Value) -> None:
        """Take the instruction that waits."""
        waiting = self._waiting
        self._m.d.sync += [
            self.active.eq(some),
            self.held.eq(waiting.issue),
            self._before_last.eq(waiting.last_uop - 1),
            self._single.eq(waiting.alone),
            self.beyond.eq(waiting.beyond),
            self.skip.eq(waiting.skip),
            self._once.eq(waiting.once),
            self._twice.eq(waiting.twice),
        ]

    def _start(self) -> None:
        """The first step of the instruction that waits."""
        waiting = self._waiting
        following = waiting.issue.instruction
        self._m.d.sync += [
            self._uop.eq(following.uop_begin),
            self._turn.eq(waiting.turn),
            self.finish.eq(waiting.finish),
            self._done.eq(waiting.once),
            self._almost.eq(waiting.twice),
            *(one.eq(1) for one in self.first),
            *(self._left[k].eq(following[f"extent{k}"] - 1) for k in range(LOOPS)),
        ]

    def _count(self, restarts: list[Value]) -> None:
        """Count the iterations that are left of each loop."""
        m, left = self._m, self._left
        for level in range(LOOPS):
            with m.If(self._turn[level]):
                m.d.sync += [
                    left[level].eq(left[level] - 1),
                    self._almost[level].eq(left[level] == 2),
                    self.first[level].eq(0),
                ]
            with m.Elif(restarts[level]):
                m.d.sync += [
                    left[level].eq(self.held.instruction[f"extent{level}"] - 1),
                    self._almost[level].eq(self._twice[level]),
                    self.first[level].eq(1),
                ]

    def _add(self, load: Value) -> None:
        """Keep the running sums; with `load`, start with those of the instruction that waits."""
        m = self._m
        current, following = self.held.instruction, self._waiting.issue.instruction
        sums = {
            name: [
                Signal(len(current[f"{name}_base"]) + 1, name=f"{name}_sum{k}", reset_less=True)
                for k in range(LOOPS)
            ]
            for name in index_names(self._unit)
        }
        for name, levels in sums.items():
            with m.If(load):
                m.d.sync += [one.eq(following[f"{name}_base"]) for one in levels]
            with m.Elif(self._advance):
                for level in range(LOOPS):
                    with m.If(self._turn[level]):
                        moved = _sticky_sum(levels[level], current[f"{name}_factor{level}"])
                        m.d.sync += [one.eq(moved) for one in levels[level:]]
        self.sums = {name: levels[-1] for name, levels in sums.items()}


def _sticky_sum(running: Value, step: Value) -> Value:
    """`running` + `step`; the top bit is sticky: it is set once a sum has overflowed."""
    total = running + step
    width = len(running) - 1
    return Cat(total[:width], total[width:].any())
