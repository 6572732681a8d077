"""The memory behind the bus: which beat moves in which cycle.

Rules 1 to 5 and 8 of `isa.memory_model`. An SDRAM takes a W in every cycle; the rest is in
`sdram.py`.
"""

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.reads import deliver, end_read
from daedal.sim.timing.state import NEVER, RING, SHARED, TODO_STORES, Bus, Front, Mover, Plan
from daedal.sim.timing.writes import end_write

__all__ = ["bus_cycle", "bus_time"]


@kernel
def _write_time(b: Bus) -> i64:
    """When the word at W has an accepted burst to belong to."""
    if b.word_held == 0 or b.writes_moved == b.writes_asked:
        return NEVER
    return max(b.word_from, b.write_open[b.writes_moved & (RING - 1)] + 1)


@kernel
def _read_time(b: Bus) -> i64:
    """When the oldest read burst is due."""
    if b.reads_ended == b.reads_asked:
        return NEVER
    return b.read_due[b.reads_ended & (RING - 1)]


@kernel
def bus_time(p: Plan, b: Bus) -> i64:
    """Next cycle in which a beat moves that is not scheduled yet."""
    writes = _write_time(b)
    if p.sharing != SHARED:
        return max(writes, b.write_free)
    return max(min(writes, _read_time(b)), b.write_free)


@kernel
def _read(p: Plan, f: Front, b: Bus, t: i64) -> None:
    """One beat of R, or the rest of the burst if no write burst is under way."""
    place = b.reads_ended & (RING - 1)
    size = b.read_beats[place] - b.read_beat
    if b.write_beat > 0:
        size = 1
    deliver(f, b, b.read_reader[place], size, t)
    b.read_beat += size
    last = t + (size - 1) * p.beat
    b.write_free = last + p.beat
    if b.read_beat == b.read_beats[place]:
        b.write_turn = 1
        end_read(p, f, b, last)


@kernel
def _write(p: Plan, f: Front, b: Bus, m: Mover, t: i64) -> None:
    """A beat of W."""
    b.word_held -= 1
    if b.word_held > 0:
        b.word_from = max(b.spare_from, t + 1)
        b.word_room = max(b.word_room, t + 1)
    b.write_beat += 1
    b.beats_written += 1
    b.write_free = t + p.write_beat
    f.todo |= TODO_STORES
    if b.write_beat == b.write_beats[b.writes_moved & (RING - 1)]:
        b.write_turn = 0
        end_write(p, f, b, m, t)


@kernel
def bus_cycle(p: Plan, f: Front, b: Bus, m: Mover, t: i64) -> None:
    """Move the beat that `bus_time` predicted for cycle t."""
    writes = _write_time(b) <= t
    if p.sharing != SHARED:
        _write(p, f, b, m, t)
        return
    reads = _read_time(b) <= t
    write_first = b.write_turn != 0
    if (b.read_beat > 0) != (b.write_beat > 0):
        write_first = b.write_beat > 0
    if writes and (write_first or not reads):
        _write(p, f, b, m, t)
    else:
        _read(p, f, b, t)
