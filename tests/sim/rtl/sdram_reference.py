"""The rules of `hw/boards/sdram/controller.py` in Python, decision by decision.

Input: the cycles in which bursts begin to wait. Output: the decision cycle of every word.
"""

from dataclasses import dataclass, field

from daedal.isa.sdram_memory import TURN_BURSTS
from daedal.isa.sdram_slots import SlotTimes

__all__ = ["Burst", "SdramReference"]


@dataclass
class Burst:
    """A burst of the machine: where it begins (in words), and from which cycle on it waits."""

    write: bool
    word: int
    words: int
    waits_from: int
    decisions: list[int] = field(default_factory=list)


@dataclass
class _Segment:
    burst: Burst
    bank: int
    row: int
    words: int


class SdramReference:
    """From the end of the reset on; `run` goes on where it ended."""

    def __init__(self, times: SlotTimes) -> None:
        self._times = times
        self._row_words = times.chip.row_words
        self._banks = 1 << times.chip.bank_bits
        self._beyond = times.chip.size_bytes // (times.chip.data_bits // 2)
        self.cycle = 0
        self._open: dict[int, int] = {}
        self._current: _Segment | None = None
        self._next: _Segment | None = None
        self._split: tuple[Burst, int, int, int] | None = None  # burst, word, words left, offered
        self._wait = self._held = 0
        self._timer = times.power_up - 1
        self._boot = times.chip.init_refreshes + 1
        self._due, self._powered, self._shut = True, False, False
        self._turn, self._in_a_row = False, 0

    def run(self, bursts: list[Burst]) -> None:
        """Serve bursts, each direction in the order of the list."""
        queues = [[b for b in bursts if b.write == write] for write in (False, True)]
        while any(queues) or self._split or self._current or self._next:
            self._one_cycle(queues)
            self.cycle += 1

    def advance(self, cycle: int) -> None:
        """Nothing waits until `cycle`."""
        while self.cycle < cycle:
            self._one_cycle([[], []])
            self.cycle += 1

    def _one_cycle(self, queues: list[list[Burst]]) -> None:
        was_empty = self._split is None
        if self.cycle % 2:
            self._decide()
        if was_empty or self._split is None:
            self._take(queues)

    def _take(self, queues: list[list[Burst]]) -> None:
        """Rule 3: the burst that goes next."""
        waiting = [bool(queue) and queue[0].waits_from <= self.cycle for queue in queues]
        if not any(waiting):
            return
        prefers = self._turn != (self._in_a_row == TURN_BURSTS)
        write = waiting[1] and (prefers or not waiting[0])
        self._in_a_row = min(self._in_a_row + 1, TURN_BURSTS) if write == self._turn else 1
        self._turn = write
        burst = queues[write].pop(0)
        self._split = (burst, burst.word, burst.words, self.cycle + 2)

    def _decide(self) -> None:
        """Rules 4 to 10, all of the state before the decision."""
        current, following = self._current, self._next
        wait, held, due = self._wait, self._held, self._due
        reading = current is not None and not current.burst.write
        self._wait, self._held = max(wait - 1, 0), max(held - 1, 0)
        if current is not None:
            current.burst.decisions.append(self.cycle)
            current.words -= 1
            if not current.words:
                self._current = None
        if following is not None and not due and not wait:
            self._prepare(current, following, held, reading)
        if self._next is None:
            self._next = self._segment()
        if due and self._powered and current is None and not wait:
            self._refresh(held)
        if self._timer == 0:
            self._timer, self._due, self._powered = self._times.refresh_interval, True, True
        self._timer -= 1

    def _prepare(
        self, current: _Segment | None, following: _Segment, held: int, reading: bool
    ) -> None:
        beyond = following.burst.word >= self._beyond
        row = self._open.get(following.bank)
        if beyond or row == following.row:
            if self._current is None and not (reading and following.burst.write):
                self._current, self._next = following, None
        elif current is None or current.bank != following.bank:
            if row is None:
                self._open[following.bank] = following.row
                self._wait = self._times.row_to_data - 2
                self._held = self._times.row_to_precharge - 1
            elif not held:
                del self._open[following.bank]
                self._wait = self._times.precharge_to_row - 1

    def _segment(self) -> _Segment | None:
        if self._split is None or self._split[3] > self.cycle:
            return None
        burst, word, left, _ = self._split
        words = min(left, self._row_words - word % self._row_words)
        again = (burst, word + words, left - words, self.cycle + 2)
        self._split = again if left > words else None
        place = word // self._row_words
        return _Segment(burst, place % self._banks, place // self._banks, words)

    def _refresh(self, held: int) -> None:
        if not self._shut:
            if not held:
                self._open, self._shut = {}, True
                self._wait = self._times.precharge_to_row - 1
            return
        self._shut, self._due = False, self._boot > 1
        is_mode = self._boot == 1
        times = self._times
        self._wait = (times.mode_to_any if is_mode else times.refresh_to_any) - 1
        self._boot = max(self._boot - 1, 0)
