"""Decides the commands of every slot: opens rows, moves words, refreshes, initializes the chip.

Input: segments, the parts of bursts that lie in one row. Output: the commands of each slot, and the
word that moves in it. The rules are numbered in `controller.py`; comments here refer to them.
"""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.sdram.layouts import command_layout, segment_layout, word_layout
from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.parts.countdown import Countdown
from daedal.isa.sdram_slots import SlotTimes

__all__ = ["SlotEngine"]


class SlotEngine(wiring.Component):
    """One decision in every second cycle, the *decision cycle*, about the slot that follows it.

    Registers change with decisions only (and with `drop`). In the other cycles, the next segment's
    row is compared with the open row of its bank.

    Parameters
    ----------
    times
        Distances between commands; they name the chip.

    Members
    -------
    segment : ``In(stream.Signature(segment_layout(chip)))``
        Accepted in decision cycles only.
    drop : ``In(1)``
        Forget all segments except the host's.
    decides : ``Out(1)``
        This is a decision cycle.
    word : ``Out(word_layout())``
        The word that moves in the slot that is decided. One `beyond` the memory has no command.
    command : ``Out(command_layout(chip))``
        Commands of the current slot, in registers.
    """

    def __init__(self, *, times: SlotTimes) -> None:
        self._times = times
        chip = times.chip
        super().__init__(
            {
                "segment": In(stream.Signature(segment_layout(chip))),
                "drop": In(1),
                "decides": Out(1),
                "word": Out(word_layout()),
                "command": Out(command_layout(chip)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        state = _State(self._times)
        m.d.sync += self.decides.eq(~self.decides)
        self._compare(m, state)
        self._move(m, state)
        with m.If(self.decides):
            m.d.sync += [
                self.command.precharge.eq(0),
                self.command.activate.eq(0),
                self.command.refresh.eq(0),
                self.command.mode.eq(0),
                self.command.every.eq(0),
                self.command.row_bank.eq(state.next.bank),
                self.command.row.eq(state.next.row),
            ]
            for counter in (state.wait, state.held):
                with m.If(counter != 0):
                    m.d.sync += counter.eq(counter - 1)
            self._open(m, state)
            self._refresh(m, state)
        with m.If(self.drop):
            stays = state.has_current & ~state.ends & state.current.host
            accepted = self.segment.valid & self.segment.payload.host
            m.d.sync += [
                state.has_current.eq((state.starts & state.next.host) | stays),
                state.has_next.eq(
                    Mux(self.segment.ready, accepted, state.has_next & state.next.host)
                ),
            ]
        moving = state.has_current & ~state.current.beyond
        contract(
            m,
            platform,
            ~moving | Array(state.is_open)[state.current.bank],
            "the row of a word that moves must be open",
        )
        return m

    def _compare(self, m: Module, state: "_State") -> None:
        """Look at the next segment's row and bank. Valid in decision cycles: nothing changes in
        the cycle before."""
        segment = state.next
        is_open = Array(state.is_open)[segment.bank]
        same = Array(state.rows)[segment.bank] == segment.row
        m.d.sync += [
            state.hits.eq((is_open & same) | segment.beyond),
            state.conflicts.eq(is_open & ~same),
            state.is_closed.eq(~is_open),
            state.is_apart.eq(segment.bank != state.current.bank),
        ]

    def _move(self, m: Module, state: "_State") -> None:
        """Rules 6 and 7: words of the current segment, and the start of the next one."""
        current, following, word = state.current, state.next, self.word
        reading = state.has_current & ~current.write
        m.d.comb += [
            word.valid.eq(self.decides & state.has_current),
            word.write.eq(current.write),
            word.host.eq(current.host),
            word.beyond.eq(current.beyond),
            word.id.eq(current.id),
            word.last.eq(state.left.last & current.last),
            state.ends.eq(word.valid & state.left.last),
            state.starts.eq(
                self.decides
                & state.has_next
                & (~state.has_current | state.left.last)
                & state.hits
                & (state.wait == 0)
                & ~(reading & following.write)
                & ~state.is_due
            ),
            self.segment.ready.eq(self.decides & (~state.has_next | state.starts)),
        ]
        with m.If(self.decides):
            m.d.sync += [
                self.command.read.eq(reading & ~current.beyond),
                self.command.write.eq(state.has_current & current.write & ~current.beyond),
                self.command.data_bank.eq(current.bank),
                self.command.column.eq(current.column),
                current.column.eq(current.column + 1),
            ]
            state.left.step(m)
        with m.If(state.ends):
            m.d.sync += state.has_current.eq(0)
        with m.If(state.starts):
            m.d.sync += [state.has_current.eq(1), current.eq(following)]
            state.left.load(m, following.words)
        with m.If(self.segment.ready):
            m.d.sync += [
                state.has_next.eq(self.segment.valid),
                following.eq(self.segment.payload),
            ]

    def _open(self, m: Module, state: "_State") -> None:
        """Rule 8: PRECHARGE and ACTIVE for the next segment."""
        times, segment = self._times, state.next
        is_free = state.is_apart | ~state.has_current
        may = state.has_next & ~segment.beyond & is_free & (state.wait == 0) & ~state.is_due
        with m.If(may & state.conflicts & (state.held == 0)):
            m.d.sync += [
                self.command.precharge.eq(1),
                Array(state.is_open)[segment.bank].eq(0),
                state.wait.eq(times.precharge_to_row - 1),
            ]
        with m.If(may & state.is_closed):
            m.d.sync += [
                self.command.activate.eq(1),
                Array(state.is_open)[segment.bank].eq(1),
                Array(state.rows)[segment.bank].eq(segment.row),
                state.wait.eq(times.row_to_data - 2),
                state.held.eq(times.row_to_precharge - 1),
            ]

    def _refresh(self, m: Module, state: "_State") -> None:
        """Rules 9 and 10: all rows are closed, then the chip refreshes, or takes its mode."""
        times = self._times
        m.d.sync += state.timer.eq(state.timer - 1)
        quiet = state.is_due & state.is_powered & ~state.has_current & (state.wait == 0)
        with m.If(quiet & ~state.is_shut & (state.held == 0)):
            m.d.sync += [
                self.command.precharge.eq(1),
                self.command.every.eq(1),
                *(bank.eq(0) for bank in state.is_open),
                state.wait.eq(times.precharge_to_row - 1),
                state.is_shut.eq(1),
            ]
        with m.If(quiet & state.is_shut):
            m.d.sync += state.is_shut.eq(0)
            with m.If(state.boot == 1):
                m.d.sync += [
                    self.command.mode.eq(1),
                    self.command.row_bank.eq(0),
                    self.command.row.eq(times.chip.mode),
                    state.wait.eq(times.mode_to_any - 1),
                ]
            with m.Else():
                m.d.sync += [
                    self.command.refresh.eq(1),
                    state.wait.eq(times.refresh_to_any - 1),
                ]
            # While it starts up, the chip gets one command after the other.
            m.d.sync += state.is_due.eq(state.boot > 1)
            with m.If(state.boot != 0):
                m.d.sync += state.boot.eq(state.boot - 1)
        with m.If(state.timer == 0):
            m.d.sync += [
                state.timer.eq(times.refresh_interval - 1),
                state.is_due.eq(1),
                state.is_powered.eq(1),
            ]


class _State:
    """Registers, and the decisions `starts` and `ends`.

    `wait`: slots until the next command to a row, or the next segment. `held`: slots until a row
    may be closed. `boot`: commands until the chip is initialized, MODE included; until then, a
    refresh `is_due`. `is_shut`: all rows were closed for it.
    """

    def __init__(self, times: SlotTimes) -> None:
        chip = times.chip
        banks = range(1 << chip.bank_bits)
        layout = segment_layout(chip)
        self.has_current, self.has_next = Signal(), Signal()
        self.current = Signal(layout, name="current", reset_less=True)
        self.left = Countdown(chip.row_words.bit_length(), name="current")
        self.next = Signal(layout, name="following", reset_less=True)
        self.is_open = [Signal(name=f"is_open{bank}") for bank in banks]
        self.rows = [Signal(chip.row_bits, name=f"row{bank}", reset_less=True) for bank in banks]
        longest = max(
            times.precharge_to_row, times.row_to_data, times.refresh_to_any, times.mode_to_any
        )
        self.wait, self.held = Signal(range(longest)), Signal(range(times.row_to_precharge))
        slots = range(max(times.power_up, times.refresh_interval))
        self.timer = Signal(slots, init=times.power_up - 1)
        self.boot = Signal(range(chip.init_refreshes + 2), init=chip.init_refreshes + 1)
        self.is_powered, self.is_due, self.is_shut = Signal(), Signal(init=1), Signal()
        self.hits, self.conflicts, self.is_closed, self.is_apart = (
            Signal(name=name) for name in ("hits", "conflicts", "is_closed", "is_apart")
        )
        self.starts, self.ends = Signal(), Signal()
