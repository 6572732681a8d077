"""The event loop: jumps to the next event; within a cycle, evaluates producers before consumers."""

from daedal.isa.latencies import QUIET_CYCLES, QUIET_SEEN_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.accumulators import accumulate, accumulators_next
from daedal.sim.timing.alu import accept_alu, alu_ready_time
from daedal.sim.timing.bus import bus_cycle, bus_time
from daedal.sim.timing.fetch import run_fetch
from daedal.sim.timing.filler import filler_busy, run_filler
from daedal.sim.timing.fronts import accept_move, run_front, run_requests
from daedal.sim.timing.gates import SNAPS, record, take, waiting
from daedal.sim.timing.gemm import (
    accept_gemm,
    gemm_bank,
    gemm_issues,
    gemm_ready_time,
    hold_gemm,
    leave_gemm,
)
from daedal.sim.timing.reads import grant_read, grant_read_time
from daedal.sim.timing.sdram import sdram_cycle, sdram_time
from daedal.sim.timing.sdram_state import Sdram
from daedal.sim.timing.state import (
    ALU,
    GEMM,
    LOAD,
    NEVER,
    RING,
    STORE,
    TODO_FETCH,
    TODO_LOADS,
    TODO_MARKS,
    TODO_STORES,
    Bus,
    Core,
    Front,
    Mover,
    Plan,
)
from daedal.sim.timing.store import cut_after, read_rows, retire_stores
from daedal.sim.timing.writes import (
    choose_mark,
    choose_mark_time,
    grant_write,
    grant_write_time,
    move_words,
    run_marks,
)

__all__ = ["run", "run_sdram"]


@kernel
def _settle_loads(p: Plan, f: Front, b: Bus, m: Mover, c: Core) -> None:
    """Advance LOAD's front and filler until neither can make progress."""
    while True:
        jobs = m.job_out[0]
        run_front(p, f, b, m, 0)
        run_filler(p, f, b, m, c)
        if m.job_out[0] == jobs:
            return


@kernel
def _settle_stores(p: Plan, f: Front, b: Bus, m: Mover, c: Core) -> None:
    """Advance STORE's front, reader and acknowledgements, and move words towards W."""
    while True:
        before = m.job_out[1] + m.slot_out
        run_front(p, f, b, m, 1)
        read_rows(p, m, c)
        while move_words(p, f, b, m):
            read_rows(p, m, c)
        retire_stores(p, f, m)
        if m.job_out[1] + m.slot_out == before:
            return


@kernel
def _settle(p: Plan, f: Front, b: Bus, m: Mover, c: Core) -> None:
    """Advance everything that follows from what is known and needs no arbitration."""
    while f.todo:
        todo = f.todo
        f.todo = 0
        if todo & TODO_FETCH:
            run_requests(p, b)
            run_fetch(p, f, b)
        if todo & TODO_LOADS:
            _settle_loads(p, f, b, m, c)
        if todo & TODO_MARKS:
            run_marks(p, f, b, m)
        if todo & TODO_STORES:
            _settle_stores(p, f, b, m, c)


@kernel
def _record_time(f: Front) -> i64:
    """Cycle in which the next mark record is taken: the one before its instruction retires."""
    first = NEVER
    for u in range(4):
        if f.snap_out[u] < f.snap_in[u]:
            first = min(first, f.snap_time[SNAPS * u + (f.snap_out[u] & (SNAPS - 1))] - 1)
    return first


@kernel
def _take_records(p: Plan, f: Front, m: Mover, c: Core, t: i64) -> None:
    """Record the counters of units whose marked instructions retire in cycle t + 1 or earlier.

    Units that the model has already advanced past the record have later counts subtracted.
    """
    for u in range(4):
        while f.snap_out[u] < f.snap_in[u]:
            place = SNAPS * u + (f.snap_out[u] & (SNAPS - 1))
            if f.snap_time[place] - 1 > t:
                break
            upto = f.snap_time[place] - 2
            busy, work = f.snap_busy[place], f.snap_work[place]
            if u == GEMM:
                busy = gemm_issues(p, c, upto)
                work = busy
            elif u == ALU:
                busy = f.busy[ALU] - max(0, c.alu_busy - max(c.alu_begin - 1, upto))
                work = f.work[ALU] - i64(c.alu_vector > upto)
            elif u == STORE:
                busy = f.busy[STORE] - cut_after(m, upto)
                work = busy
            record(p, f, u, busy, work)


@kernel
def _pass_time(f: Front, c: Core, u: i64) -> i64:
    """First cycle in which the gate of u passes its next instruction; NEVER if not known yet."""
    at = f.gate[u]
    if at == NEVER:
        return NEVER
    if GEMM <= u <= ALU:
        return max(at, c.room_at[u]) if c.waits_in[u] - c.waits_out[u] < 2 else NEVER
    return max(at, f.ready[u])


@kernel
def _wait(c: Core, u: i64, i: i64, t: i64) -> None:
    """GEMM or the ALU accepts instruction i in cycle t; it queues for the hardware loops."""
    place = 2 * u + (c.waits_in[u] & 1)
    c.wait_index[place] = i
    c.wait_at[place] = t
    c.waits_in[u] += 1


@kernel
def _start_time(c: Core, u: i64) -> i64:
    """First cycle in which the loops of u accept the oldest queued instruction, if known."""
    if c.waits_in[u] == c.waits_out[u]:
        return NEVER
    at = c.wait_at[2 * u + (c.waits_out[u] & 1)] + 1
    return gemm_ready_time(c, at) if u == GEMM else alu_ready_time(c, at)


@kernel
def _start(p: Plan, c: Core, u: i64, t: i64) -> None:
    """The loops of u accept the oldest queued instruction."""
    i = c.wait_index[2 * u + (c.waits_out[u] & 1)]
    if c.waits_in[u] - c.waits_out[u] == 2:
        c.room_at[u] = t + 1
    c.waits_out[u] += 1
    if u == GEMM:
        accept_gemm(p, c, i, t)
    else:
        accept_alu(p, c, i, t)


@kernel
def _pass(p: Plan, f: Front, m: Mover, c: Core, t: i64) -> bool:
    """Pass instructions through the gates and into the loops; returns whether any passed."""
    some = False
    for u in range(4):
        if _pass_time(f, c, u) <= t:
            some = True
            if u == LOAD:
                accept_move(p, m, f, 0, take(p, f, u, t, i64(filler_busy(c, t))), t)
            elif u == STORE:
                accept_move(p, m, f, 1, take(p, f, u, t, cut_after(m, t - 1) - cut_after(m, t)), t)
            elif u == GEMM:
                _wait(c, u, take(p, f, u, t, i64(gemm_bank(p, c, t) >= 0)), t)
            else:
                _wait(c, u, take(p, f, u, t, i64(c.alu_begin <= t and t <= c.alu_busy)), t)
        if GEMM <= u <= ALU and _start_time(c, u) <= t:
            some = True
            _start(p, c, u, t)
    return some


@kernel
def _leave_time(c: Core) -> i64:
    if c.leaves_out == c.leaves_in:
        return NEVER
    return c.leave_at[c.leaves_out & (RING - 1)]


@kernel
def _others_next(p: Plan, f: Front, b: Bus, m: Mover, c: Core) -> i64:
    """The next cycle with an event other than accumulator arbitration."""
    at = min(bus_time(p, b), grant_read_time(p, b), grant_write_time(p, b))
    at = min(at, _leave_time(c), _record_time(f), choose_mark_time(p, f, m))
    for u in range(4):
        at = min(at, _pass_time(f, c, u))
    at = min(at, _start_time(c, GEMM), _start_time(c, ALU))
    return at


@kernel
def _follow(p: Plan, f: Front, b: Bus, m: Mover, c: Core, t: i64) -> None:
    """Propagate the outcome of the accumulators' cycle t, up to the gates."""
    _take_records(p, f, m, c, t)
    _settle(p, f, b, m, c)
    f.changed = 0
    if _pass(p, f, m, c, t):
        _settle(p, f, b, m, c)


@kernel
def _only_accumulators(
    p: Plan, f: Front, b: Bus, m: Mover, c: Core, others: i64, limit: i64
) -> None:
    """Run accumulator cycles up to the next other event (`others`); most ALU cycles run here."""
    while True:
        t = accumulators_next(c)
        if t >= others or t > limit:
            return
        f.ticks += 1
        if c.hold_due == t:
            hold_gemm(p, c, t)
        accumulate(p, f, b, m, c, t)
        ready = _start_time(c, ALU)
        if f.todo > 0 or f.changed > 0 or c.stalled == t or ready <= t:
            _follow(p, f, b, m, c, t)
            return
        if ready < others and ready <= accumulators_next(c):
            return


@kernel
def _cycle(p: Plan, f: Front, b: Bus, m: Mover, c: Core, t: i64) -> None:
    """Evaluate cycle t in dependency order: producers before consumers."""
    f.ticks += 1
    _take_records(p, f, m, c, t)
    if c.hold_due == t:
        hold_gemm(p, c, t)
    while _leave_time(c) <= t:
        leave_gemm(p, f, c, t)
    if bus_time(p, b) <= t:
        bus_cycle(p, f, b, m, t)
    if grant_read_time(p, b) <= t:
        grant_read(p, f, b, t)
    if grant_write_time(p, b) <= t:
        grant_write(p, f, b, t)
    _settle(p, f, b, m, c)
    if accumulators_next(c) <= t:
        accumulate(p, f, b, m, c, t)
    if choose_mark_time(p, f, m) <= t:
        choose_mark(f, m, t)
    _follow(p, f, b, m, c, t)


@kernel
def _end(p: Plan, f: Front, c: Core) -> i64:
    """The cycles of a run in which no event is left; -1 if an instruction waits for ever."""
    if f.finish >= NEVER:
        return -1
    for u in range(4):
        if f.retired[u] < p.order_at[u + 1] - p.order_at[u]:
            return -1
    f.busy[GEMM] = c.issues
    f.work[GEMM] = c.issues
    end = max(f.still + QUIET_SEEN_CYCLES + QUIET_CYCLES, f.finish, f.fetch_last + 1)
    for u in range(4):
        waiting(p, f, u, end, f.idle, f.waits)
    return end


@kernel
def run(p: Plan, f: Front, b: Bus, m: Mover, c: Core, limit: i64) -> i64:
    """Run until no event is left, or until cycle `limit`.

    Returns the cycles of the run, -1 if an instruction waits for ever, or -2 at the limit.
    """
    f.todo = TODO_FETCH
    _settle(p, f, b, m, c)
    t = 0
    while True:
        others = _others_next(p, f, b, m, c)
        if accumulators_next(c) < min(others, limit):
            _only_accumulators(p, f, b, m, c, others, limit)
            continue
        t_next = min(others, accumulators_next(c))
        if t_next >= NEVER:
            break
        assert t_next > t, "the next event must lie ahead"
        t = t_next
        if t > limit:
            return -2
        _cycle(p, f, b, m, c, t)
    return _end(p, f, c)


@kernel
def run_sdram(p: Plan, f: Front, b: Bus, m: Mover, c: Core, s: Sdram, limit: i64) -> i64:
    """`run` with an SDRAM. A kernel of its own: the other memories would lose a sixth in speed."""
    f.todo = TODO_FETCH
    _settle(p, f, b, m, c)
    t = 0
    while True:
        others = min(_others_next(p, f, b, m, c), sdram_time(b, s))
        if accumulators_next(c) < min(others, limit):
            _only_accumulators(p, f, b, m, c, others, limit)
            continue
        t_next = min(others, accumulators_next(c))
        if t_next >= NEVER:
            break
        assert t_next > t, "the next event must lie ahead"
        t = t_next
        if t > limit:
            return -2
        if sdram_time(b, s) <= t:
            sdram_cycle(p, f, b, m, s, t)
        _cycle(p, f, b, m, c, t)
    return _end(p, f, c)
