"""Run control: start, end, errors, watchdog, deadlock detection and the clearing of the machine.

Input: the units' status. Output: the phases of a run, and its error status.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.interfaces import Activity, error_signature
from daedal.hw.issue.tokens import CLASS_BITS, QUEUED_UNITS
from daedal.hw.layouts import INDEX_BITS
from daedal.hw.pipeline import delay, register
from daedal.isa.latencies import QUIET_CYCLES
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["BLOCKED_CYCLES", "Supervisor"]

BLOCKED_CYCLES = 32
"""Cycles in which everything waits before a run is declared deadlocked."""

_UNITS_SEEN_CYCLES = 2
"""Delay of the status of units and gates before the supervisor evaluates it."""
_FETCH_SEEN_CYCLES = 1
"""The same delay for FETCH."""
_UNSEEN_CYCLES = 1 + _UNITS_SEEN_CYCLES - (_FETCH_SEEN_CYCLES + 1)
"""Cycles in which an instruction is visible nowhere: FETCH has dispatched it, and the status of the
gate, which holds it in the next cycle, is delayed longer."""


class Supervisor(wiring.Component):
    """Sequences a run.

    RUN ends by FETCH's `done`, by the first error (of several in one cycle, the lowest unit's), by
    `abort`, by the watchdog or by a deadlock; errors take effect one or two cycles after they are
    raised. Then `stop` drains the bus masters, `finished` pulses, and `clear` resets every unit in
    the next cycle, the last one of `stop`. Where the bus does not drain within `drain_limit` cycles
    (a slave stopped answering), `finished` pulses anyway and draining continues: the next start
    waits for it, and ends in WATCHDOG if the slave stays silent. Draining takes at least
    `QUIET_CYCLES`, whatever the limit, so that the masters see `stop`.

    An abort is accepted from the cycle of `start` on. If the run has not begun yet, it ends in its
    first cycle; if it waits for the bus to drain, it never begins and ends when the bus has
    drained. A run that is already draining keeps its error code. Without a run an abort does
    nothing.

    Members
    -------
    start, abort, watchdog, drain_limit : from the control registers.
    running : from `start` to `finished`. counting : the cycles that the counters count.
    begin : pulse before the first cycle of RUN. stop, clear : see above.
    finished, error_code, error_unit, error_index : the end of the run, and why.
    activity[u], waiting[u], vacant[u], index[u] : of units 0..3; vacant: neither its queue nor its
    gate holds an instruction.
    fetch_class, fetch_index, fetch_done : of FETCH.
    all_quiet : to FETCH, nothing is queued or in flight.
    error[u], gate_error[u], token_error, mark_error (and their `_unit`s) : pulses.
    tokens_left, marks_idle, drained, beat : of tokens, marks and bus masters.
    """

    def __init__(self, *, variant: Variant) -> None:
        units = len(QUEUED_UNITS)
        members = {
            "start": In(1),
            "abort": In(1),
            "watchdog": In(32),
            "drain_limit": In(32),
            "running": Out(1),
            "counting": Out(1),
            "begin": Out(1),
            "stop": Out(1),
            "clear": Out(1),
            "finished": Out(1),
            "error_code": Out(8),
            "error_unit": Out(3),
            "error_index": Out(INDEX_BITS),
            "all_quiet": Out(1),
            "activity": In(Activity).array(units),
            "waiting": In(1).array(units),
            "vacant": In(1).array(units),
            "index": In(INDEX_BITS).array(units),
            "fetch_class": In(CLASS_BITS),
            "fetch_index": In(INDEX_BITS),
            "fetch_done": In(1),
            "error": In(error_signature()).array(len(Unit)),
            "gate_error": In(error_signature()).array(units),
            "tokens_left": In(1),
            "token_error": In(error_signature()),
            "token_error_unit": In(3),
            "mark_error": In(error_signature()),
            "mark_error_unit": In(3),
            "marks_idle": In(1),
            "drained": In(1),
            "beat": In(1),
        }
        super().__init__(members)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        for name, cycles in (("QUIET_CYCLES", QUIET_CYCLES), ("BLOCKED_CYCLES", BLOCKED_CYCLES)):
            require_at_elaboration(
                cycles > _UNSEEN_CYCLES,
                "an instruction between FETCH and its gate must not look like none: "
                f"{name} must be more than _UNSEEN_CYCLES",
            )
        running = Signal()
        aborted, aborting = Signal(), Signal()
        m.d.comb += aborting.eq(self.abort | aborted)
        with m.If(self.abort & (self.start | self.running)):
            m.d.sync += aborted.eq(1)
        with m.If(self.finished):
            m.d.sync += aborted.eq(0)
        failing = self._find_error(m, running, aborting)
        m.d.comb += self.counting.eq(running)
        with m.If(self.start):
            m.d.sync += self.running.eq(1)
        with m.If(self.finished):
            m.d.sync += self.running.eq(0)
        self._sequence(m, running, failing, aborted, aborting)
        contract(m, platform, ~self.finished | self.running, "only a run must end")
        return m

    def _sequence(
        self, m: Module, running: Signal, failing: Signal, aborted: Signal, aborting: Signal
    ) -> None:
        """The FSM of the phases; high-fanout outputs are registers of their own, not decoded."""
        patience, exhausted = Signal(32), Signal()
        be_patient = [patience.eq(self.drain_limit), exhausted.eq(0)]
        # Set in the last cycle of the limit: `exhausted` rises in the next.
        lose_patience = [
            patience.eq(patience - 1),
            exhausted.eq(exhausted | ~patience[1:].any()),
        ]
        drained_for = Signal(QUIET_CYCLES + 1)  # thermometer code of the cycles spent in DRAIN
        settled = drained_for[-1]
        wanted = Signal()  # a start came while an earlier run's bursts were still draining
        m.d.sync += [self.begin.eq(0), self.clear.eq(0)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += self.stop.eq(0)
                with m.If(self.start | wanted):
                    m.d.sync += [wanted.eq(0), self.begin.eq(1)]
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += running.eq(1)
                self._explain(m, ErrorCode.NONE)
                m.next = "RUN"
            with m.State("RUN"):
                with m.If(failing | self.fetch_done):
                    m.d.sync += [*be_patient, drained_for.eq(0), running.eq(0), self.stop.eq(1)]
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += [*lose_patience, drained_for.eq(Cat(1, drained_for))]
                # A master takes two cycles to see `stop`, and may accept a last burst in them.
                with m.If(self.drained & settled):
                    m.d.comb += self.finished.eq(1)
                    m.d.sync += self.clear.eq(1)
                    m.next = "CLEAR"
                with m.Elif(exhausted & settled):
                    m.d.comb += self.finished.eq(1)
                    m.next = "LINGER"
            with m.State("LINGER"):
                with m.If(self.start):
                    m.d.sync += [*be_patient, wanted.eq(1)]
                    self._explain(m, ErrorCode.WATCHDOG, Unit.FETCH)
                with m.Elif(wanted):
                    m.d.sync += lose_patience
                    with m.If(exhausted | (aborted & self.drained)):
                        m.d.comb += self.finished.eq(1)
                        m.d.sync += wanted.eq(0)
                with m.If(aborting & (self.start | wanted)):
                    self._explain(m, ErrorCode.ABORTED, Unit.FETCH)
                with m.If(self.drained):
                    m.d.sync += self.clear.eq(1)
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                with m.If(self.start):
                    m.d.sync += wanted.eq(1)
                m.next = "IDLE"

    def _explain(self, m: Module, code: object, unit: object = 0, index: object = 0) -> None:
        m.d.sync += [
            self.error_code.eq(code),
            self.error_unit.eq(unit),
            self.error_index.eq(index),
        ]

    def _find_error(self, m: Module, running: Signal, aborting: Signal) -> Signal:
        """Latch the first error of a run; return the signal that one is present in this cycle.

        Errors are selected in two registered stages, first within each kind of report, then among
        the kinds: one stage would be too long a path. The supervisor's own errors are one kind.
        """
        kinds = (
            [(self.error[unit], unit) for unit in Unit],
            [(self.gate_error[unit], unit) for unit in QUEUED_UNITS],
            [
                (self.token_error, self.token_error_unit),
                (self.mark_error, self.mark_error_unit),
            ],
        )
        reports = [
            [(error.valid, error.code, unit, error.index) for error, unit in kind] for kind in kinds
        ]
        # The units' status has long paths: it is evaluated two cycles later, after registers.
        waiting, vacant = (
            delay(m, Cat(flags), _UNITS_SEEN_CYCLES, name=name)
            for name, flags in (("waiting", self.waiting), ("vacant", self.vacant))
        )
        activities = [
            register(m, activity, name=f"seen_activity{unit:d}")
            for unit, activity in enumerate(self.activity)
        ]
        does_something = Cat(activity != Activity.NONE for activity in activities)
        active = register(m, does_something, name="active")
        deadlock, timeout = self._watch(m, running, activities, waiting, vacant)
        stuck_unit, stuck_index = self._stuck(m, waiting, active)
        reports.append(
            [
                (
                    self.fetch_done & self.tokens_left,
                    ErrorCode.TOKENS_LEFT,
                    Unit.FETCH,
                    self.fetch_index,
                ),
                (deadlock, ErrorCode.DEADLOCK, stuck_unit, stuck_index),
                (aborting, ErrorCode.ABORTED, Unit.FETCH, self.fetch_index),
                (timeout, ErrorCode.WATCHDOG, stuck_unit, stuck_index),
            ]
        )
        found = [self._choose(m, number, kind, running) for number, kind in enumerate(reports)]
        failing, blamed = Signal(), Signal()
        m.d.comb += failing.eq(Cat(valid for valid, *_ in found).any())
        m.d.sync += blamed.eq(~self.begin & (blamed | failing))
        with m.If(~blamed):
            # Written from the last to the first, so that the first source wins.
            for valid, *reason in reversed(found):
                with m.If(valid):
                    self._explain(m, *reason)
        return failing

    def _choose(
        self, m: Module, number: int, reports: list[tuple[Any, Any, Any, Any]], running: Signal
    ) -> tuple[Signal, Signal, Signal, Signal]:
        """The first report of a kind in this cycle, registered."""
        valid = Signal(name=f"found{number}")
        code, unit, index = (
            Signal(width, name=f"found_{name}{number}", reset_less=True)
            for name, width in (("code", 8), ("unit", 3), ("index", INDEX_BITS))
        )
        m.d.sync += valid.eq(Cat(reported for reported, *_ in reports).any() & running)
        *others, (_, what, who, where) = reports
        m.d.sync += [code.eq(what), unit.eq(who), index.eq(where)]
        for reported, what, who, where in reversed(others):
            with m.If(reported):
                m.d.sync += [code.eq(what), unit.eq(who), index.eq(where)]
        return valid, code, unit, index

    def _watch(
        self,
        m: Module,
        running: Signal,
        activities: list[Signal],
        waiting: ValueLike,
        vacant: ValueLike,
    ) -> tuple[Signal, Signal]:
        """Count quiet, blocked and unproductive cycles; return deadlock and watchdog.

        The units' status is evaluated two cycles late (`activities` are already one cycle old),
        that of FETCH one cycle late. So a dispatch by FETCH is seen before the unit reports the
        instruction.
        """
        idle = Cat(activity == Activity.NONE for activity in activities).all()
        busy = Cat(activity == Activity.BUSY for activity in activities).any()
        units_still, units_moved = Signal(), Signal()
        drained, marks_idle, beat = (
            register(m, getattr(self, name), name=f"seen_{name}")
            for name in ("drained", "marks_idle", "beat")
        )
        fetch_class = register(m, self.fetch_class, name="seen_fetch_class")  # _FETCH_SEEN_CYCLES
        ran = delay(m, running, _UNITS_SEEN_CYCLES, name="ran", reset_less=False)
        m.d.sync += [
            units_still.eq(idle & drained & marks_idle & ~beat),
            units_moved.eq(busy | beat),
        ]
        fetch_moves = fetch_class == CycleClass.BUSY
        still = units_still & ~fetch_moves

        # `enough`: this cycle, if quiet, is the last of those required.
        quiet_before = Signal(range(QUIET_CYCLES))
        quiet = still & vacant.all() & ran
        enough = quiet_before == QUIET_CYCLES - 1
        m.d.comb += self.all_quiet.eq(quiet & enough)
        with m.If(~quiet):
            m.d.sync += quiet_before.eq(0)
        with m.Elif(~enough):
            m.d.sync += quiet_before.eq(quiet_before + 1)

        blocked = Signal(range(BLOCKED_CYCLES))
        deadlock = Signal()
        stuck = still & waiting.any() & (vacant | waiting).all() & ran
        stuck &= fetch_class != CycleClass.STALL
        m.d.sync += deadlock.eq(stuck & (blocked == BLOCKED_CYCLES - 1))
        with m.If(~stuck):
            m.d.sync += blocked.eq(0)
        with m.Elif(blocked != BLOCKED_CYCLES - 1):
            m.d.sync += blocked.eq(blocked + 1)
        return deadlock, self._watchdog(m, units_moved | fetch_moves | ~ran)

    def _watchdog(self, m: Module, moved: Value) -> Signal:
        """Count cycles without progress; return whether the limit is reached."""
        # The limit is reduced by two: the comparison is registered and runs one cycle early.
        enabled, allowed, at_once = Signal(), Signal(32), Signal()
        unproductive, timeout = Signal(32), Signal()
        m.d.sync += [
            enabled.eq(self.watchdog.any()),
            allowed.eq(self.watchdog - 2),
            at_once.eq(self.watchdog == 1),
        ]
        near = Signal()
        m.d.sync += near.eq(Mux(moved, at_once, unproductive == allowed))
        m.d.comb += timeout.eq(~moved & enabled & near)
        with m.If(moved):
            m.d.sync += unproductive.eq(0)
        with m.Else():
            m.d.sync += unproductive.eq(unproductive + 1)
        return timeout

    def _stuck(self, m: Module, waiting: Value, active: Value) -> tuple[Signal, Signal]:
        """Unit and instruction to blame: a unit with work inside, else one waiting for a token."""
        unit, index = Signal(3), Signal(INDEX_BITS)
        m.d.sync += [unit.eq(Unit.FETCH), index.eq(self.fetch_index)]
        chosen = Mux(active.any(), active, waiting)
        for number in reversed(QUEUED_UNITS):
            with m.If(chosen[number]):
                m.d.sync += [unit.eq(number), index.eq(self.index[number])]
        return unit, index
