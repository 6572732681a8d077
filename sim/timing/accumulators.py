"""One cycle of accumulator arbitration: ALU, STORE and LOAD compete for banks GEMM leaves free."""

from daedal.isa.latencies import ACC_READ_TO_WRITE_CYCLES, PATIENCE_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64
from daedal.sim.timing.alu import (
    READS_SOURCE,
    READS_TARGET,
    alu_waits,
    enter_alu,
    fire_alu,
    leave_alu,
)
from daedal.sim.timing.filler import bank_of, fill_cycle
from daedal.sim.timing.gates import retire
from daedal.sim.timing.gemm import gemm_bank
from daedal.sim.timing.state import (
    LOAD,
    NEVER,
    RING,
    TODO_LOADS,
    TODO_STORES,
    Bus,
    Core,
    Front,
    Mover,
    Plan,
)
from daedal.sim.timing.store import read_row

__all__ = ["accumulate", "accumulators_next"]

_SOURCE, _TARGET, _STORE, _WRITE, _FILL = 0, 1, 2, 3, 4


@kernel
def accumulators_next(c: Core) -> i64:
    """Next cycle in which a bank is requested or withheld, or an ALU group starts."""
    return min(c.alu_try, c.write_try, c.store_try, c.fill_try, c.hold_due)


@kernel
def _urgent(c: Core, port: i64, t: i64) -> bool:
    return c.lost[port] == t - 1 and c.urgent[port] > 0


@kernel
def _lose(c: Core, port: i64, bank: i64, t: i64) -> None:
    """A request is refused in cycle t; after PATIENCE_CYCLES in a row, GEMM must leave the bank."""
    age, urgent = 0, 0
    if c.lost[port] == t - 1:
        age, urgent = c.age[port], c.urgent[port]
    if age == PATIENCE_CYCLES - 1:
        urgent = 1
        at = t + 2
        if c.hold_at[at & 1] != at:
            c.hold[at & 1] = 0
            c.hold_at[at & 1] = at
        c.hold[at & 1] |= 1 << bank
        c.hold_due = min(c.hold_due, at)
    c.age[port] = (age + 1) % PATIENCE_CYCLES
    c.urgent[port] = urgent
    c.lost[port] = t


@kernel
def _unread(p: Plan, c: Core, reads: i64, done: i64, rows: Array[i32]) -> i64:
    """Bank of a row that the step at the ALU's issue point has yet to read, or -1."""
    i = c.alu_index[c.alu_out & (RING - 1)]
    if p.steps[i] == 0 or c.alu_group > 0 or done > 0 or p.form[i] & reads == 0:
        return -1
    return bank_of(p, rows[p.step_at[i] + c.alu_step])


@kernel
def _source(p: Plan, c: Core) -> i64:
    return _unread(p, c, READS_SOURCE, c.alu_source, p.sources)


@kernel
def _target(p: Plan, c: Core) -> i64:
    return _unread(p, c, READS_TARGET, c.alu_target, p.targets)


@kernel
def _banks(source: i64, target: i64) -> i64:
    """Mask of the banks that are not -1."""
    asks = 0
    if source >= 0:
        asks |= 1 << source
    if target >= 0:
        asks |= 1 << target
    return asks


@kernel
def _alu_reads(p: Plan, f: Front, c: Core, t: i64, taken: i64, store_first: bool) -> i64:
    """The ALU's part of a cycle; returns the mask of banks it requests for reading."""
    if not c.alu_entered:
        enter_alu(p, c)
    source, target = _source(p, c), _target(p, c)
    asks = _banks(source, target)
    if alu_waits(p, c, t):
        again = c.left_at[0] >= t - 2 or c.left_at[1] >= t - 2
        c.alu_blocked = i64(not again)
        c.alu_try = t + 1 if again else NEVER
        return asks
    if c.alu_group > 0:
        fire_alu(p, f, c, t)
        return 0
    missing = False
    if source >= 0:
        if source == taken or store_first:
            _lose(c, _SOURCE, source, t)
            missing = True
        else:
            c.alu_source = 1
    if target >= 0 and target == source:
        missing = True  # a bank reads one row per cycle
    elif target >= 0:
        if target == taken or store_first:
            _lose(c, _TARGET, target, t)
            missing = True
        else:
            c.alu_target = 1
    if missing:
        c.alu_try = t + 1
    else:
        fire_alu(p, f, c, t)
    return asks


@kernel
def _fill(p: Plan, f: Front, b: Bus, c: Core, t: i64, granted: bool) -> None:
    """A cycle of LOAD's filler while a word of it is at the accumulators, or heads there."""
    c.now = t + 1
    f.todo |= TODO_LOADS
    free = c.fill_bank < 0 or granted
    may_end = c.ending == 0
    if free:
        c.fill_bank = -1
        if c.ending:
            c.ending = 0
            retire(p, f, c.ending_index, t + 1, f.busy[LOAD], f.work[LOAD])
    if c.spare:
        if free:
            c.spare = 0
            c.fill_bank = c.spare_bank
            c.ending = c.spare_ends
        return
    if c.on == 0 or t < c.begin:
        return
    over = fill_cycle(p, f, b, c, t, may_end)
    if over:
        c.ending_index = c.index
    if free:
        c.fill_bank = c.moved_bank
        c.ending = i64(over)
    elif over or c.moved > 0:
        c.spare = 1
        c.spare_bank = c.moved_bank
        c.spare_ends = i64(over)


@kernel
def accumulate(p: Plan, f: Front, b: Bus, m: Mover, c: Core, t: i64) -> None:
    """Cycle t. GEMM reads and writes at fixed latencies after issue, with the highest priority."""
    read = gemm_bank(p, c, t - p.gemm_lead)
    wrote = gemm_bank(p, c, t - p.gemm_lead - ACC_READ_TO_WRITE_CYCLES)
    store = bank_of(p, m.read_row) if c.store_try <= t else -1
    store_first = store >= 0 and _urgent(c, _STORE, t)
    writes = c.write_try <= t
    place = c.write_out & (RING - 1)
    asks = 0
    if c.alu_try <= t:
        asks = _alu_reads(p, f, c, t, read, store_first)
    elif c.alu_entered:
        asks = _banks(_source(p, c), _target(p, c))
    if store >= 0:
        if store == read or (asks >> store & 1 > 0 and not store_first):
            _lose(c, _STORE, store, t)
            m.read_from = t + 1
            c.store_try = t + 1
        else:
            read_row(p, m, t)
            c.store_try = NEVER
            f.todo |= TODO_STORES
    fills = c.fill_try <= t
    fill = c.fill_bank if fills else -1
    write = -1
    if writes and c.write_kind[place] & 1 > 0:
        write = bank_of(p, c.write_row[place])
    fill_first = fill >= 0 and _urgent(c, _FILL, t)
    waits = write >= 0 and (write == wrote or (fill_first and fill == write))
    filled = fill >= 0 and fill != wrote and (waits or fill != write)
    if fill >= 0 and not filled:
        _lose(c, _FILL, fill, t)
    if writes:
        if waits:
            _lose(c, _WRITE, write, t)
            c.write_try = t + 1
        else:
            leave_alu(p, f, c, t)
    if fills:
        _fill(p, f, b, c, t, filled)
