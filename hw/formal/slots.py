"""Claims about the SDRAM engine: distances of commands, open rows, the words of segments."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data

from daedal.hw.boards.sdram import engine
from daedal.hw.boards.sdram.layouts import segment_layout
from daedal.hw.formal.claims import Claims
from daedal.isa.sdram_slots import READ_TO_WRITE_SLOTS, SlotTimes

__all__ = ["SlotDistances"]


class SlotDistances(Claims):
    """For any segments, and a machine that is reset at any time, the chip's times are kept.

    A model of the chip counts slots since the last command of each kind; no count is shared with
    the engine. A model of the segments holds those that were accepted, at most two: every word that
    moves must be the next one of the oldest, its command must name the segment's bank and the right
    column, and the row that the chip has open there must be the segment's.

    Parameters
    ----------
    times : the distances; those of a proof are short.
    module : `hw.boards.sdram.engine`; tests pass a broken one.
    """

    def __init__(self, *, times: SlotTimes, module: ModuleType = engine) -> None:
        super().__init__()
        self._times = times
        self._module: Any = module

    def state(self, m: Module) -> None:
        block = self._module.SlotEngine(times=self._times)
        self.place(m, "block", block)
        segment = block.segment.payload
        valid, drop = self.free(1, "give"), self.free(1, "drop")
        m.d.comb += [
            block.segment.valid.eq(valid),
            segment.eq(self.free(len(Value.cast(segment)), "segment")),
            block.drop.eq(drop),
        ]
        fits = (segment.words != 0) & (segment.column + segment.words <= self._times.chip.row_words)
        self.assume(m, "within_a_row", ~valid | fits)
        begins = Signal()
        m.d.sync += begins.eq(block.decides)
        chip = _Chip(self, m, self._times, block.command, begins)
        self._segments(m, block, begins, drop, chip)

    def _segments(self, m: Module, block: Any, begins: Signal, drop: Signal, chip: "_Chip") -> None:
        """What was accepted, oldest first, and how many words of it have moved."""
        layout = segment_layout(self._times.chip)
        first, second = Signal(layout, name="oldest"), Signal(layout, name="younger")
        has_first, has_second = Signal(), Signal()
        moved = Signal(range(self._times.chip.row_words + 1))
        given, word = block.segment.payload, block.word
        accepted = block.segment.valid & block.segment.ready
        is_last = moved + 1 == first.words
        gone = word.valid & is_last
        self.require(m, "moves_what_was_accepted", ~word.valid | has_first)
        for name in ("write", "host", "beyond", "id"):
            self.require(m, f"word_has_its_{name}", ~word.valid | (word[name] == first[name]))
        self.require(m, "last_of_a_burst", ~word.valid | (word.last == (is_last & first.last)))
        self.require(m, "two_at_most", ~accepted | ~has_second | gone)
        after_first = Mux(gone, has_second, has_first)
        m.d.sync += moved.eq(Mux(gone, 0, moved + word.valid))
        with m.If(gone):
            m.d.sync += first.eq(second)
        with m.If(accepted):
            with m.If(after_first):
                m.d.sync += second.eq(given)
            with m.Else():
                m.d.sync += first.eq(given)
        m.d.sync += [
            has_first.eq(after_first | accepted),
            has_second.eq((has_second & ~gone) | (accepted & after_first)),
        ]
        with m.If(drop):
            self._drop(m, gone, accepted, given, (has_first, first), (has_second, second), moved)
        self._commands(m, block, begins, first, moved, chip)
        self.reach(m, "a_read_after_a_write", chip.read_soon)
        self.reach(m, "two_words_of_a_segment", word.valid & (moved == 1))

    def _drop(
        self, m: Module, gone: Value, accepted: Value, given: Any, old: Any, young: Any, moved: Any
    ) -> None:
        """Only segments of the host stay."""
        (has_first, first), (has_second, second) = old, young
        stays = [
            (has_first & ~gone & first.host, first),
            (has_second & second.host, second),
            (accepted & given.host, given),
        ]
        m.d.sync += [
            has_first.eq(stays[0][0] | stays[1][0] | stays[2][0]),
            has_second.eq(
                (stays[0][0] & stays[1][0])
                | (stays[0][0] & stays[2][0])
                | (stays[1][0] & stays[2][0])
            ),
            first.eq(
                Mux(
                    stays[0][0],
                    first.as_value(),
                    Mux(stays[1][0], second.as_value(), given.as_value()),
                )
            ),
            second.eq(
                Mux(stays[0][0] & stays[1][0], second.as_value(), given.as_value()),
            ),
        ]
        with m.If(~stays[0][0]):
            m.d.sync += moved.eq(0)

    def _commands(
        self, m: Module, block: Any, begins: Signal, first: Any, moved: Signal, chip: "_Chip"
    ) -> None:
        """A word that moved has its command in the next cycle, none otherwise."""
        word, command = block.word, block.command
        expected = Signal(data.StructLayout({"row": len(first.row), "bank": len(first.bank)}))
        column = Signal.like(first.column, name="expected_column")
        reads, writes = Signal(), Signal()
        m.d.sync += [
            expected.row.eq(first.row),
            expected.bank.eq(first.bank),
            column.eq(first.column + moved),
            reads.eq(word.valid & ~first.write & ~first.beyond),
            writes.eq(word.valid & first.write & ~first.beyond),
        ]
        right = (command.data_bank == expected.bank) & (command.column == column)
        moves = reads | writes
        self.require(m, "reads_what_moves", ~begins | (command.read == reads))
        self.require(m, "writes_what_moves", ~begins | (command.write == writes))
        self.require(m, "right_place", ~begins | ~moves | right)
        row = Array(chip.rows)[expected.bank]
        self.require(m, "right_row", ~begins | ~moves | (row == expected.row))


class _Chip:
    """Counts slots since commands, per bank, up to the longest distance."""

    def __init__(
        self, claims: SlotDistances, m: Module, times: SlotTimes, command: Any, begins: Signal
    ) -> None:
        banks = range(1 << times.chip.bank_bits)
        self.rows = [Signal(times.chip.row_bits, name=f"chip_row{n}") for n in banks]
        self._claims, self._m, self._begins = claims, m, begins
        cycle = times.row_to_precharge + times.precharge_to_row
        self._most = max(
            cycle, times.row_to_data, times.refresh_to_any, times.mode_to_any, READ_TO_WRITE_SLOTS
        )
        some_row = command.activate | command.precharge | command.refresh | command.mode
        moves = command.read | command.write
        since_refresh = self._since("refresh", command.refresh)
        since_mode = self._since("mode", command.mode)
        any_bank = [self._bank(times, command, bank, cycle) for bank in banks]
        self._require("one_row_command", ~some_row | self._one(command))
        self._require("one_data_command", ~(command.read & command.write))
        self._require(
            "after_refresh", ~(some_row | moves) | (since_refresh >= times.refresh_to_any)
        )
        self._require("after_mode", ~(some_row | moves) | (since_mode >= times.mode_to_any))
        for number, (is_open, since_precharge) in enumerate(any_bank):
            alone = ~is_open & (since_precharge >= times.precharge_to_row)
            self._require(f"refresh_closed{number}", ~(command.refresh | command.mode) | alone)
        since_read = self._since("read", command.read)
        self._require("turn", ~command.write | (since_read >= READ_TO_WRITE_SLOTS))
        since_write = self._since("write", command.write)
        self.read_soon = begins & command.read & (since_write == 1)
        ready = Signal()
        with m.If(begins & command.mode):
            m.d.sync += ready.eq(1)
        self._require("initialized", ~(command.activate | moves) | ready)
        claims.reach(m, "refresh_when_initialized", begins & command.refresh & ready)

    def _one(self, command: Any) -> Value:
        flags = [command.activate, command.precharge, command.refresh, command.mode]
        total: Value = sum(flags[1:], flags[0])
        return total == 1

    def _require(self, name: str, holds: Value) -> None:
        self._claims.require(self._m, f"chip_{name}", ~self._begins | holds)

    def _since(self, name: str, event: Value) -> Signal:
        """Slots since the last `event`; the longest distance if there was none."""
        count = Signal(range(self._most + 1), init=self._most, name=f"since_{name}")
        with self._m.If(self._begins):
            self._m.d.sync += count.eq(
                Mux(event, 1, Mux(count == self._most, self._most, count + 1))
            )
        return count

    def _bank(self, times: SlotTimes, command: Any, bank: int, cycle: int) -> tuple[Signal, Signal]:
        m = self._m
        is_open = Signal(name=f"chip_open{bank}")
        activates = command.activate & (command.row_bank == bank)
        closes = command.precharge & (command.every | (command.row_bank == bank))
        moves = (command.read | command.write) & (command.data_bank == bank)
        since_activate = self._since(f"activate{bank}", activates)
        since_precharge = self._since(f"precharge{bank}", closes)
        with m.If(self._begins & activates):
            m.d.sync += [is_open.eq(1), self.rows[bank].eq(command.row)]
        with m.If(self._begins & closes):
            m.d.sync += is_open.eq(0)
        for name, holds in (
            ("moves_in_an_open_row", ~moves | (is_open & (since_activate >= times.row_to_data))),
            ("opens_what_is_closed", ~activates | ~is_open),
            ("precharge_time", ~activates | (since_precharge >= times.precharge_to_row)),
            ("row_cycle", ~activates | (since_activate >= cycle)),
            ("row_open", ~closes | ~is_open | (since_activate >= times.row_to_precharge)),
            ("not_while_it_moves", ~closes | ~moves),
        ):
            self._require(f"{name}{bank}", holds)
        self._claims.reach(m, f"closes_bank{bank}", self._begins & closes & is_open)
        return is_open, since_precharge
