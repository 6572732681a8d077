"""Run control: start, end, errors, watchdog, deadlock detection and the clearing of the machine.

Input: what every unit reports. Output: the phases of a run, and its error status.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import Activity, error_signature
from daedal.hw.layouts import INDEX_BITS
from daedal.hw.tokens import CLASS_BITS, QUEUED_UNITS
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["BLOCKED_CYCLES", "DRAIN_LIMIT_CYCLES", "QUIET_CYCLES", "Supervisor"]

QUIET_CYCLES = 4
"""Cycles for which nothing may be queued or move before FINISH ends the run: longer than an
instruction needs from one place that is watched to the next."""

BLOCKED_CYCLES = 32
"""Cycles of everything waiting after which a run is called deadlocked."""

DRAIN_LIMIT_CYCLES = 4096
"""Longest wait for open bursts after an error, before the end is reported anyway."""


class Supervisor(wiring.Component):
    """Sequences a run.

    RUN ends by FETCH's `done`, by the first error (of several in one cycle, the lowest unit's), by
    `abort`, by the watchdog or by a deadlock. Then `stop` drains the bus masters, `clear` resets
    every unit for a cycle and `finished` pulses. Where the bus does not drain within
    `DRAIN_LIMIT_CYCLES` (a slave stopped answering), `finished` pulses all the same and draining
    goes on behind it: the next start waits for it, and ends in WATCHDOG if the slave stays silent.

    Members
    -------
    start, abort, watchdog : from the control registers.
    running : from `start` to `finished`. counting : the cycles that the counters count.
    begin : pulse before the first cycle of RUN. stop, flush, clear : see above.
    finished, error_code, error_unit, error_index : the end of the run, and why.
    activity{u}, waiting{u}, vacant{u}, index{u} : of units 0..3; vacant: neither its queue nor its
    gate holds an instruction.
    fetch_class, fetch_index, fetch_work, fetch_finishing, fetch_done : of FETCH.
    all_quiet : to FETCH, nothing is queued or under way.
    error{u}, gate_error{u}, token_error, mark_error (and their `_unit`s) : pulses.
    tokens_left, marks_idle, drained, beat : of tokens, marks and bus masters.
    """

    def __init__(self, *, variant: Variant) -> None:
        members = {
            "start": In(1),
            "abort": In(1),
            "watchdog": In(32),
            "running": Out(1),
            "counting": Out(1),
            "begin": Out(1),
            "stop": Out(1),
            "flush": Out(1),
            "clear": Out(1),
            "finished": Out(1),
            "error_code": Out(8),
            "error_unit": Out(3),
            "error_index": Out(INDEX_BITS),
            "all_quiet": Out(1),
            "fetch_class": In(CLASS_BITS),
            "fetch_index": In(INDEX_BITS),
            "fetch_finishing": In(1),
            "fetch_done": In(1),
            "tokens_left": In(1),
            "token_error": In(error_signature()),
            "token_error_unit": In(3),
            "mark_error": In(error_signature()),
            "mark_error_unit": In(3),
            "marks_idle": In(1),
            "drained": In(1),
            "beat": In(1),
        }
        for unit in Unit:
            members[f"error{unit:d}"] = In(error_signature())
        for unit in QUEUED_UNITS:
            members |= {
                f"gate_error{unit:d}": In(error_signature()),
                f"activity{unit:d}": In(Activity),
                f"waiting{unit:d}": In(1),
                f"vacant{unit:d}": In(1),
                f"index{unit:d}": In(INDEX_BITS),
            }
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        running = Signal()
        failing = self._find_error(m, running)
        patience = Signal(range(DRAIN_LIMIT_CYCLES + 1))
        wanted = Signal()  # a start came while an earlier run's bursts were still draining
        m.d.comb += self.counting.eq(running)
        with m.If(self.start):
            m.d.sync += self.running.eq(1)
        with m.If(self.finished):
            m.d.sync += self.running.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start | wanted):
                    m.d.comb += self.begin.eq(1)
                    m.d.sync += [
                        wanted.eq(0),
                        self.error_code.eq(ErrorCode.NONE),
                        self.error_unit.eq(0),
                        self.error_index.eq(0),
                    ]
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If(failing | self.fetch_done):
                    m.d.sync += patience.eq(0)
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.stop.eq(1)
                m.d.sync += patience.eq(patience + 1)
                # A master takes a cycle to see `stop`, and may accept a last burst in it.
                with m.If(self.drained & (patience > QUIET_CYCLES)):
                    m.d.comb += self.finished.eq(1)
                    m.next = "CLEAR"
                with m.Elif(patience == DRAIN_LIMIT_CYCLES):
                    m.d.comb += self.finished.eq(1)
                    m.next = "LINGER"
            with m.State("LINGER"):
                m.d.comb += self.stop.eq(1)
                with m.If(self.start):
                    m.d.sync += [
                        patience.eq(0),
                        wanted.eq(1),
                        self.error_code.eq(ErrorCode.WATCHDOG),
                        self.error_unit.eq(Unit.FETCH),
                        self.error_index.eq(0),
                    ]
                with m.Elif(wanted):
                    m.d.sync += patience.eq(patience + 1)
                    with m.If(patience == DRAIN_LIMIT_CYCLES):
                        m.d.comb += self.finished.eq(1)
                        m.d.sync += wanted.eq(0)
                with m.If(self.drained):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [self.stop.eq(1), self.clear.eq(1), self.flush.eq(1)]
                with m.If(self.start):
                    m.d.sync += wanted.eq(1)
                m.next = "IDLE"
        return m

    def _find_error(self, m: Module, running: Signal) -> Signal:
        """Latch the first error of a run; returns the signal that there is one in this cycle."""
        waiting = Cat(getattr(self, f"waiting{unit:d}") for unit in QUEUED_UNITS)
        deadlock, timeout = self._watch(m, running, waiting)
        sources = []
        for unit in Unit:
            error = getattr(self, f"error{unit:d}")
            sources.append((error.valid, error.code, unit, error.index))
        for unit in QUEUED_UNITS:
            error = getattr(self, f"gate_error{unit:d}")
            sources.append((error.valid, error.code, unit, error.index))
        for name in ("token", "mark"):
            error, unit = getattr(self, f"{name}_error"), getattr(self, f"{name}_error_unit")
            sources.append((error.valid, error.code, unit, error.index))
        stuck_unit, stuck_index = self._stuck(m, waiting)
        left = self.fetch_done & self.tokens_left
        sources += [
            (left, ErrorCode.TOKENS_LEFT, Unit.FETCH, self.fetch_index),
            (deadlock, ErrorCode.DEADLOCK, stuck_unit, stuck_index),
            (self.abort, ErrorCode.ABORTED, Unit.FETCH, self.fetch_index),
            (timeout, ErrorCode.WATCHDOG, stuck_unit, stuck_index),
        ]
        failing = Signal()
        m.d.comb += failing.eq(Cat(source[0] for source in sources).any())
        with m.If(running):
            # Written from the last to the first, so that the first source wins.
            for valid, code, unit, index in reversed(sources):
                with m.If(valid):
                    m.d.sync += [
                        self.error_code.eq(code),
                        self.error_unit.eq(unit),
                        self.error_index.eq(index),
                    ]
        return failing

    def _watch(self, m: Module, running: Signal, waiting) -> tuple[Signal, Signal]:
        """Quiet, blocked and unproductive cycles; returns deadlock and watchdog."""
        idle = Cat(getattr(self, f"activity{u:d}") == Activity.NONE for u in QUEUED_UNITS).all()
        vacant = Cat(getattr(self, f"vacant{unit:d}") for unit in QUEUED_UNITS)
        busy = Cat(getattr(self, f"activity{u:d}") == Activity.BUSY for u in QUEUED_UNITS).any()
        fetch_moves = self.fetch_class == CycleClass.BUSY
        still = idle & self.drained & self.marks_idle & ~self.beat & ~fetch_moves

        quiet = Signal(range(QUIET_CYCLES + 1))
        m.d.comb += self.all_quiet.eq(quiet == QUIET_CYCLES)
        with m.If(~(still & vacant.all() & running)):
            m.d.sync += quiet.eq(0)
        with m.Elif(~self.all_quiet):
            m.d.sync += quiet.eq(quiet + 1)

        blocked = Signal(range(BLOCKED_CYCLES + 1))
        deadlock = Signal()
        fetch_waits = self.fetch_class != CycleClass.STALL
        stuck = still & waiting.any() & (vacant | waiting).all() & fetch_waits
        m.d.comb += deadlock.eq(blocked == BLOCKED_CYCLES)
        with m.If(~(stuck & running)):
            m.d.sync += blocked.eq(0)
        with m.Elif(~deadlock):
            m.d.sync += blocked.eq(blocked + 1)

        unproductive = Signal(32)
        timeout = Signal()
        m.d.comb += timeout.eq(self.watchdog.any() & (unproductive == self.watchdog))
        with m.If(~running | busy | fetch_moves | self.beat):
            m.d.sync += unproductive.eq(0)
        with m.Elif(~timeout):
            m.d.sync += unproductive.eq(unproductive + 1)
        return deadlock, timeout

    def _stuck(self, m: Module, waiting) -> tuple[Signal, Signal]:
        """Unit and instruction to blame: one that waits for a token, else one that is not empty."""
        unit, index = Signal(3), Signal(INDEX_BITS)
        m.d.comb += [unit.eq(Unit.FETCH), index.eq(self.fetch_index)]
        active = Cat(getattr(self, f"activity{u:d}") != Activity.NONE for u in QUEUED_UNITS)
        chosen = Mux(active.any(), active, waiting)
        for number in reversed(QUEUED_UNITS):
            with m.If(chosen[number]):
                m.d.comb += [unit.eq(number), index.eq(getattr(self, f"index{number:d}"))]
        return unit, index
