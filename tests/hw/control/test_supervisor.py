"""Run control: which ends a run may have, what each reports, and that draining is bounded."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from amaranth.sim import Simulator

from daedal.hw.control.supervisor import BLOCKED_CYCLES, Supervisor
from daedal.hw.interfaces import Activity
from daedal.isa.latencies import QUIET_CYCLES
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


LIMIT = 16
"""Cycles of the drain limit."""


def run(drive) -> None:
    dut = Supervisor(variant=TINY)

    async def testbench(ctx) -> None:
        for vacant in dut.vacant:
            ctx.set(vacant, 1)
        ctx.set(dut.drained, 1)
        ctx.set(dut.marks_idle, 1)
        ctx.set(dut.drain_limit, LIMIT)
        await drive(ctx, dut)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


async def start(ctx, dut) -> None:
    """Start; returns in the cycle before the first of RUN."""
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)


async def start_and_run(ctx, dut) -> None:
    await start(ctx, dut)
    await ctx.tick()


async def end(ctx, dut, limit: int = 100) -> tuple[int, int, int]:
    """Wait for the end of the run; returns code, unit and index."""
    for _ in range(limit):
        if ctx.get(dut.finished):
            result = tuple(ctx.get(getattr(dut, f"error_{n}")) for n in ("code", "unit", "index"))
            await ctx.tick()
            return result
        await ctx.tick()
    raise AssertionError(f"the run must end within {limit} cycles")


def test_a_run_begins_once_and_ends_clean() -> None:
    async def drive(ctx, dut) -> None:
        for _ in range(2):
            assert ctx.get(dut.running) == 0
            await start(ctx, dut)
            assert (ctx.get(dut.begin), ctx.get(dut.running), ctx.get(dut.counting)) == (1, 1, 0)
            await ctx.tick()
            assert (ctx.get(dut.begin), ctx.get(dut.running), ctx.get(dut.counting)) == (0, 1, 1)
            await ctx.tick().repeat(10)
            ctx.set(dut.fetch_done, 1)
            await ctx.tick()
            ctx.set(dut.fetch_done, 0)
            assert (ctx.get(dut.counting), ctx.get(dut.stop)) == (0, 1)
            assert await end(ctx, dut) == (0, 0, 0)
            # The units are reset in the cycle after `clear`, while the masters still stand.
            for expected in ((1, 1), (0, 1), (0, 0)):
                assert (ctx.get(dut.clear), ctx.get(dut.stop)) == expected
                await ctx.tick()

    run(drive)


def test_the_first_error_wins_and_the_next_run_is_clean() -> None:
    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        for unit, code in ((3, ErrorCode.WRITE_SLVERR), (1, ErrorCode.ROW_RANGE)):
            error = dut.error[unit]
            ctx.set(error.valid, 1)
            ctx.set(error.code, code)
            ctx.set(error.index, 40 + unit)
        await ctx.tick()
        ctx.set(dut.error[1].valid, 0)
        ctx.set(dut.error[3].valid, 0)
        ctx.set(dut.error[0].valid, 1)  # too late
        ctx.set(dut.error[0].code, ErrorCode.READ_DECERR)
        assert await end(ctx, dut) == (ErrorCode.ROW_RANGE, Unit.GEMM, 41)
        ctx.set(dut.error[0].valid, 0)
        await ctx.tick()
        await start_and_run(ctx, dut)
        ctx.set(dut.fetch_done, 1)
        await ctx.tick()
        ctx.set(dut.fetch_done, 0)
        assert await end(ctx, dut) == (0, 0, 0)

    run(drive)


@pytest.mark.parametrize(
    ("source", "code", "unit"),
    [
        ("gate_error", ErrorCode.ILLEGAL_INSTRUCTION, Unit.ALU),
        ("error", ErrorCode.NO_FINISH, Unit.FETCH),
        ("token_error", ErrorCode.TOKEN_OVERFLOW, Unit.STORE),
        ("mark_error", ErrorCode.WRITE_DECERR, Unit.GEMM),
    ],
)
def test_every_source_is_heard(source: str, code: ErrorCode, unit: Unit) -> None:
    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        error = getattr(dut, source)
        if source in ("token_error", "mark_error"):
            ctx.set(getattr(dut, f"{source}_unit"), unit)
        else:
            error = error[unit]
        ctx.set(error.valid, 1)
        ctx.set(error.code, code)
        ctx.set(error.index, 5)
        await ctx.tick()
        ctx.set(error.valid, 0)
        assert await end(ctx, dut) == (code, unit, 5)

    run(drive)


def test_abort_and_tokens_left() -> None:
    async def drive(ctx, dut) -> None:
        ctx.set(dut.fetch_index, 8)
        await start_and_run(ctx, dut)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        assert await end(ctx, dut) == (ErrorCode.ABORTED, Unit.FETCH, 8)
        await ctx.tick()
        await start_and_run(ctx, dut)
        ctx.set(dut.tokens_left, 1)
        ctx.set(dut.fetch_done, 1)
        await ctx.tick()
        ctx.set(dut.fetch_done, 0)
        assert await end(ctx, dut) == (ErrorCode.TOKENS_LEFT, Unit.FETCH, 8)

    run(drive)


def test_a_deadlock_names_a_waiting_unit() -> None:
    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        ctx.set(dut.fetch_class, CycleClass.WAIT_ALU)
        for unit, index in ((2, 30), (3, 31)):
            ctx.set(dut.vacant[unit], 0)
            ctx.set(dut.waiting[unit], 1)
            ctx.set(dut.index[unit], index)
        assert await end(ctx, dut, BLOCKED_CYCLES + 20) == (ErrorCode.DEADLOCK, Unit.ALU, 30)

    run(drive)


@pytest.mark.parametrize(
    "alive",
    [
        lambda dut: (dut.activity[Unit.GEMM], Activity.DRAIN),
        lambda dut: (dut.activity[Unit.LOAD], Activity.STALL),
        lambda dut: (dut.drained, 0),
        lambda dut: (dut.marks_idle, 0),
        lambda dut: (dut.fetch_class, CycleClass.STALL),
        lambda dut: (dut.fetch_class, CycleClass.BUSY),
        lambda dut: (dut.vacant[Unit.GEMM], 0),
    ],
    ids=["draining", "stalled", "burst-open", "marks", "fetch-stalled", "fetch-busy", "not-vacant"],
)
def test_no_deadlock_is_seen_while_something_can_still_move(alive: Callable[[Any], Any]) -> None:
    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        ctx.set(dut.vacant[2], 0)
        ctx.set(dut.waiting[2], 1)
        ctx.set(*alive(dut))
        await ctx.tick().repeat(3 * BLOCKED_CYCLES)
        assert ctx.get(dut.counting) == 1

    run(drive)


def test_the_watchdog_counts_cycles_without_progress() -> None:
    async def drive(ctx, dut) -> None:
        ctx.set(dut.watchdog, 50)
        ctx.set(dut.activity[3], Activity.STALL)
        ctx.set(dut.index[3], 12)
        ctx.set(dut.drained, 0)
        await start_and_run(ctx, dut)
        for _ in range(5):
            await ctx.tick().repeat(40)
            ctx.set(dut.beat, 1)
            await ctx.tick()
            ctx.set(dut.beat, 0)
            assert ctx.get(dut.counting) == 1
        await ctx.tick().repeat(53)
        assert ctx.get(dut.counting) == 0
        ctx.set(dut.drained, 1)
        assert await end(ctx, dut) == (ErrorCode.WATCHDOG, Unit.STORE, 12)

    run(drive)


def test_quiet_means_quiet_for_some_cycles(quiet_cycles: int = QUIET_CYCLES) -> None:
    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        ctx.set(dut.activity[0], Activity.BUSY)
        await ctx.tick().repeat(10)
        assert ctx.get(dut.all_quiet) == 0
        ctx.set(dut.activity[0], Activity.NONE)
        for _ in range(quiet_cycles + 1):
            assert ctx.get(dut.all_quiet) == 0
            await ctx.tick()
        assert ctx.get(dut.all_quiet) == 1
        # FETCH hands out an instruction, and says in the next cycle that the program is over.
        ctx.set(dut.fetch_class, CycleClass.BUSY)
        await ctx.tick()
        ctx.set(dut.fetch_class, CycleClass.IDLE)
        ctx.set(dut.vacant[3], 0)
        for _ in range(2 * quiet_cycles):
            assert ctx.get(dut.all_quiet) == 0
            await ctx.tick()

    run(drive)


def test_a_drained_bus_is_believed_after_some_cycles() -> None:
    """The masters see `stop` late, so `drained` counts from a fixed cycle on, and then at once."""

    async def drive(ctx, dut) -> None:
        await start_and_run(ctx, dut)
        ctx.set(dut.fetch_done, 1)
        await ctx.tick()
        ctx.set(dut.fetch_done, 0)
        for _ in range(QUIET_CYCLES + 1):
            assert (ctx.get(dut.stop), ctx.get(dut.finished)) == (1, 0)
            await ctx.tick()
        assert ctx.get(dut.finished) == 1

    run(drive)


def test_a_silent_bus_bounds_the_end_and_the_next_start() -> None:
    async def drive(ctx, dut) -> None:
        ctx.set(dut.drained, 0)
        await start_and_run(ctx, dut)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        assert (await end(ctx, dut))[0] == ErrorCode.ABORTED
        assert (ctx.get(dut.running), ctx.get(dut.stop), ctx.get(dut.clear)) == (0, 1, 0)
        await start_and_run(ctx, dut)
        assert ctx.get(dut.counting) == 0
        assert await end(ctx, dut) == (ErrorCode.WATCHDOG, Unit.FETCH, 0)
        # The slave wakes up: the bus drains, and the machine works again.
        await start_and_run(ctx, dut)
        await ctx.tick().repeat(5)
        ctx.set(dut.drained, 1)
        await ctx.tick().repeat(4)
        assert (ctx.get(dut.counting), ctx.get(dut.error_code)) == (1, 0)
        ctx.set(dut.fetch_done, 1)
        await ctx.tick()
        ctx.set(dut.fetch_done, 0)
        assert await end(ctx, dut) == (0, 0, 0)

    run(drive)


LENGTH = 64
"""Cycles of a trial."""


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6, 40])
def test_the_drain_limit_is_kept_to_the_cycle(limit: int) -> None:
    """At least the masters get the cycles that they need to stop; a waiting start needs none."""

    async def cycles_to_the_end(ctx, dut) -> int:
        for cycle in range(100):
            if ctx.get(dut.finished):
                await ctx.tick()
                return cycle
            await ctx.tick()
        raise AssertionError("the run must end")

    async def drive(ctx, dut) -> None:
        ctx.set(dut.drain_limit, limit)
        ctx.set(dut.drained, 0)
        await start_and_run(ctx, dut)
        ctx.set(dut.fetch_done, 1)
        await ctx.tick()
        ctx.set(dut.fetch_done, 0)
        assert await cycles_to_the_end(ctx, dut) == max(limit, QUIET_CYCLES + 1)
        assert ctx.get(dut.clear) == 0
        await start(ctx, dut)
        assert await cycles_to_the_end(ctx, dut) == max(limit, 1)
        assert ctx.get(dut.error_code) == ErrorCode.WATCHDOG

    run(drive)


class Trial(NamedTuple):
    """What was seen in a trial: flags cycle by cycle, and the ends in order."""

    running: list[int]
    counting: list[int]
    ends: list[int]
    codes: list[int]


async def play(ctx, dut, starts: tuple[int, ...], silent: range, abort: int | None) -> Trial:
    """Start in the cycles `starts`; a run is over in its sixth cycle, the bus hangs in `silent`."""
    trial, age = Trial([], [], [], []), 0
    for cycle in range(LENGTH):
        ctx.set(dut.start, cycle in starts)
        ctx.set(dut.abort, cycle == abort)
        ctx.set(dut.drained, cycle not in silent)
        counting, finished = ctx.get(dut.counting), ctx.get(dut.finished)
        age = age + 1 if counting else 0
        ctx.set(dut.fetch_done, age == 6)
        trial.running.append(ctx.get(dut.running))
        trial.counting.append(counting)
        await ctx.tick()
        if finished:
            trial.ends.append(cycle)
            trial.codes.append(ctx.get(dut.error_code))
    assert not ctx.get(dut.running), "every run of a trial must end in it"
    return trial


def aborted(quiet: Trial, starts: tuple[int, ...], abort: int) -> list[int]:
    """Codes of the ends: those without an abort, and ABORTED for the run that is not over yet."""
    codes = list(quiet.codes)
    for number, (begin, end) in enumerate(zip(starts, quiet.ends, strict=True)):
        draining = any(quiet.counting[begin:abort]) and not quiet.counting[abort]
        if begin <= abort <= end and not draining:
            codes[number] = ErrorCode.ABORTED
    return codes


def test_an_abort_is_heard_in_every_cycle_of_a_run() -> None:
    """And in no other: one before a start or behind an end changes nothing.

    The second start comes while the first run is cleared away, or later.
    """
    seen = set()

    async def drive(ctx, dut) -> None:
        for gap in (1, 2, 3, 6):
            first = (await play(ctx, dut, (2,), range(0), None)).ends[0]
            starts = (2, first + gap)
            quiet = await play(ctx, dut, starts, range(0), None)
            assert quiet.codes == [ErrorCode.NONE] * 2
            for abort in range(LENGTH):
                trial = await play(ctx, dut, starts, range(0), abort)
                assert trial.codes == aborted(quiet, starts, abort), (gap, abort)
                assert all(a <= b for a, b in zip(trial.ends, quiet.ends, strict=True))
                seen.add(tuple(trial.codes))

    run(drive)
    assert len(seen) == 3, "trials with none, the first and the second run aborted"


@pytest.mark.parametrize("wait", [1, 4])
def test_an_abort_is_heard_while_a_start_waits_for_the_bus(wait: int) -> None:
    """Whenever the bus of the run before drains, and if it never does."""

    async def drive(ctx, dut) -> None:
        first = (await play(ctx, dut, (2,), range(5, LENGTH - 4), None)).ends[0]
        starts = (2, first + wait)
        for late in (-1, 0, 1, 2, LIMIT, LIMIT + 1, 26):
            silent = range(5, starts[1] + late)
            quiet = await play(ctx, dut, starts, silent, None)
            for abort in range(starts[1] - 2, starts[1] + LIMIT + 6):
                trial = await play(ctx, dut, starts, silent, abort)
                assert trial.codes == aborted(quiet, starts, abort), (late, abort)
                assert trial.ends[1] <= quiet.ends[1], (late, abort)
                # Either the bus is drained at the interrupt, or the limit is over.
                assert trial.ends[1] not in silent or trial.ends == quiet.ends, (late, abort)

    run(drive)
