"""Whole programs through the harness: `build_simulator`, `run_jobs`, on every simulator."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daedal.common.errors import DeviceError, ProgramError
from daedal.isa.memory_model import PRESETS, MemoryModel, memory_model
from daedal.sim.rtl.build import Built, build_simulator
from daedal.sim.rtl.intervention import Intervention
from daedal.sim.rtl.job import Faults, Job, RunProgress
from daedal.sim.rtl.run import run_jobs
from tests.sim.rtl.conftest import WORDS, available

pytestmark = pytest.mark.rtl

ERROR, CLEAR, SOURCE, TARGET, BURSTS, BEATS, BREAK = 4, 8, 12, 16, 20, 24, 36
FAR = 1 << 18


def copy_job(data: bytes, *, bursts: int = 8, beats: int = 32, breakage: int = 0) -> Job:
    """Copy `bursts * beats` words from byte 0 to byte `FAR`; ends with guard bytes behind it."""
    size = bursts * beats * 8
    writes = ((SOURCE, 0), (TARGET, FAR), (BURSTS, bursts), (BEATS, beats), (BREAK, breakage))
    return Job(
        start=(0, 1),
        image=((0, data),),
        writes=writes,
        reads=(ERROR, SOURCE),
        dumps=((FAR, size), (FAR + size, 16)),
        cycle_limit=20_000,
    )


@pytest.fixture
def data(rng: np.random.Generator) -> bytes:
    return rng.bytes(8 * 32 * 8)


def test_copies_under_every_preset(standin: Built, tmp_path: Path, data: bytes) -> None:
    jobs = [
        replace(copy_job(data), memory=memory_model(name, seed))
        for name, seed in (("ideal", 0), ("ddr", 0), ("jitter", 1), ("jitter", 2), ("jitter", 1))
    ]
    results = run_jobs(standin, jobs, work_dir=tmp_path)
    for result in results:
        assert not result.timed_out
        assert result.memory == (data, bytes(16))
        assert result.registers == (0, 0)
        assert result.axi_violation is None
        assert result.seconds > 0
    ideal, ddr, first, second, again = (result.cycles for result in results)
    assert ideal < min(ddr, first, second)
    assert first == again != second
    assert list(tmp_path.iterdir()) == [], "the run leaves nothing behind"


def test_cycles_are_the_same_on_every_simulator_and_pinned(
    standin: Built, tmp_path: Path, data: bytes
) -> None:
    """Exact cycles: a change here is a change of the memory model or of the count's definition."""
    names = [name for name, model in PRESETS.items() if model.sdram is None]
    jobs = [replace(copy_job(data), memory=memory_model(name, 7)) for name in names]
    cycles = [result.cycles for result in run_jobs(standin, jobs, work_dir=tmp_path)]
    pinned = {"ideal": 262, "ddr": 611, "slow": 1218, "jitter": 622}
    assert dict(zip(names, cycles, strict=True)) == pinned


def test_an_sdram_needs_a_simulator_that_was_built_with_it(
    standin: Built, tmp_path: Path, data: bytes
) -> None:
    job = replace(copy_job(data), memory=memory_model("ulx3s"))
    with pytest.raises(ProgramError, match="must be the kind that the simulator was built with"):
        run_jobs(standin, [job], work_dir=tmp_path)
    faulty = replace(job, faults=Faults(read_response="SLVERR"))
    with pytest.raises(ProgramError, match="faults need another memory than an SDRAM, 'ulx3s'"):
        run_jobs(standin, [faulty], work_dir=tmp_path)


def test_image_pieces_merge_and_dumps_may_start_anywhere(standin: Built, tmp_path: Path) -> None:
    pieces = ((3, b"abc"), (5, b"X"), (30, b"tail"), (8 * WORDS - 3, b"end"))
    job = Job(
        start=(0, 1),
        image=pieces,
        writes=((BURSTS, 0), (BEATS, 1)),
        dumps=((0, 11), (2, 5), (31, 2), (8 * WORDS - 4, 4), (7, 0)),
        cycle_limit=100,
    )
    (result,) = run_jobs(standin, [job], work_dir=tmp_path)
    assert result.memory == (b"\0\0\0abX\0\0\0\0\0", b"\0abX\0", b"ai", b"\0end", b"")


def test_a_wide_bus(
    simulator: str, standin_verilog: str, cache_dir: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    built = build_simulator(
        standin_verilog.replace("DATA_BITS = 64", "DATA_BITS = 512"),
        data_bits=512,
        addr_bits=32,
        words=1 << 13,
        cache_dir=cache_dir,
        simulator=simulator,
    )
    data = rng.bytes(8 * 32 * 64)
    job = replace(copy_job(data), dumps=((FAR, len(data)), (FAR + 100, 77)))
    (result,) = run_jobs(built, [job], work_dir=tmp_path)
    assert result.memory == (data, data[100:177])
    assert result.axi_violation is None


def test_an_undefined_register_is_named_on_icarus(
    icarus: str, standin_verilog: str, cache_dir: Path, tmp_path: Path
) -> None:
    built = build_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=cache_dir,
        simulator=icarus,
    )
    job = Job(start=(0, 1), writes=((BURSTS, 0), (BEATS, 1)), reads=(SOURCE,))
    with pytest.raises(DeviceError, match="register 0xc holds undefined bits: XXXX"):
        run_jobs(built, [job], work_dir=tmp_path)


def test_memory_stays_between_jobs_when_asked(standin: Built, tmp_path: Path, data: bytes) -> None:
    first = copy_job(data)
    kept = replace(first, image=(), clear_memory=False, reset_before=False)
    # Without a reset the interrupt is still high: the job clears it, as a driver does.
    kept = replace(kept, writes=((CLEAR, 1), *first.writes))
    cleared = replace(first, image=())
    results = run_jobs(standin, [first, kept, cleared], work_dir=tmp_path)
    assert results[1].memory[0] == data
    assert results[2].memory[0] == bytes(len(data))


@pytest.mark.parametrize("response", ["SLVERR", "DECERR"])
def test_injected_errors_reach_the_machine(
    standin: Built, tmp_path: Path, data: bytes, response: str
) -> None:
    size = len(data)
    here = {"first_byte": 64, "last_byte": 71}
    there = {"first_byte": FAR + 64, "last_byte": FAR + 71}
    jobs = [
        replace(copy_job(data), faults=Faults(read_response=response, **here)),
        replace(copy_job(data), faults=Faults(write_response=response, **there)),
        replace(copy_job(data), faults=Faults(read_response=response, **there)),
        replace(copy_job(data), faults=Faults(write_response=response, **here)),
    ]
    results = run_jobs(standin, jobs, work_dir=tmp_path)
    assert [result.registers[0] for result in results] == [1, 1, 0, 0]
    lost = bytearray(data)
    lost[64:72] = bytes(8)
    assert results[1].memory[0] == bytes(lost), "a failed write changes nothing"
    assert len(results[2].memory[0]) == size


def test_an_address_outside_memory_answers_decerr(
    standin: Built, tmp_path: Path, data: bytes
) -> None:
    job = replace(copy_job(data), dumps=())
    job = replace(job, writes=(*job.writes, (TARGET, 8 * WORDS)))
    (result,) = run_jobs(standin, [job], work_dir=tmp_path)
    assert result.registers[0] == 1


@pytest.mark.parametrize(
    ("channel", "after"), [("ar", 0), ("r", 40), ("aw", 0), ("w", 40), ("b", 300)]
)
def test_a_silent_channel_ends_in_a_timeout_and_the_next_job_is_well(
    standin: Built, tmp_path: Path, data: bytes, channel: str, after: int
) -> None:
    faults = Faults(stop_channels=(channel,), stop_after_beats=after)
    silent = replace(copy_job(data), faults=faults, cycle_limit=999)
    stuck, well = run_jobs(standin, [silent, copy_job(data)], work_dir=tmp_path)
    assert stuck.timed_out
    assert stuck.cycles == 999
    assert not well.timed_out
    assert well.memory[0] == data


@pytest.mark.parametrize(
    ("breakage", "rule"),
    [(1, "a read burst is longer than 32 beats"), (2, "WLAST is not on the burst's last beat")],
)
def test_a_broken_axi_rule_is_named(
    standin: Built, tmp_path: Path, data: bytes, breakage: int, rule: str
) -> None:
    job = replace(copy_job(data, breakage=breakage), cycle_limit=500)
    bad, good = run_jobs(standin, [job, copy_job(data)], work_dir=tmp_path)
    assert bad.axi_violation == rule
    assert good.axi_violation is None


def test_a_burst_across_4_kib_is_named(standin: Built, tmp_path: Path, data: bytes) -> None:
    job = copy_job(data)
    job = replace(job, writes=(*job.writes, (SOURCE, 4096 - 8)))
    (result,) = run_jobs(standin, [job], work_dir=tmp_path)
    assert result.axi_violation == "a read burst crosses 4 KiB"


def test_progress_comes_while_a_job_runs(standin: Built, tmp_path: Path, data: bytes) -> None:
    seen: list[RunProgress] = []
    slow = MemoryModel("slow", 2000, 2000, 1, 1, shared_bus=True)
    job = replace(copy_job(data), memory=slow, cycle_limit=100_000)
    with_pauses = run_jobs(
        standin, [job, job], work_dir=tmp_path, progress=seen.append, pause_cycles=1000
    )
    without = run_jobs(standin, [job], work_dir=tmp_path)
    assert with_pauses[0].cycles == with_pauses[1].cycles == without[0].cycles
    assert seen[-1] == RunProgress(2, 2, without[0].cycles)
    assert sum(event.num_done == 0 for event in seen) >= 10
    assert [event.num_done for event in seen] == sorted(event.num_done for event in seen)


def test_a_refused_control_write_says_which(standin: Built, tmp_path: Path) -> None:
    job = Job(start=(0, 1), writes=((0x80, 1),))
    with pytest.raises(DeviceError, match="write of register 0x80: the control bus answered with"):
        run_jobs(standin, [job], work_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_beyond_its_time_is_ended(standin: Built, tmp_path: Path, data: bytes) -> None:
    forever = replace(
        copy_job(data), faults=Faults(stop_channels=("r",)), cycle_limit=1_000_000_000_000
    )
    began = time.monotonic()
    with pytest.raises(DeviceError, match="longer than 2 seconds and was ended"):
        run_jobs(standin, [forever], work_dir=tmp_path, limit_seconds=2)
    assert time.monotonic() - began < 10
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_no_child_and_no_files(
    standin: Built, tmp_path: Path, data: bytes
) -> None:
    forever = replace(
        copy_job(data), faults=Faults(stop_channels=("r",)), cycle_limit=1_000_000_000_000
    )

    def interrupt(_progress: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(standin, [forever], work_dir=tmp_path, progress=interrupt, pause_cycles=1000)
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_reset_at_the_cycle_asked_for(standin: Built, tmp_path: Path, data: bytes) -> None:
    for memory in (True, False):
        cut = Intervention(at_cycle=100, reset_cycles=3, reset_memory=memory)
        jobs = [
            replace(copy_job(data), interventions=(cut,)),
            # Afterwards the memory may still have bursts open: only a reset of it helps.
            replace(copy_job(data), reset_before=not memory),
        ]
        broken, well = run_jobs(standin, jobs, work_dir=tmp_path, pause_cycles=70)
        assert (broken.was_reset, broken.timed_out) == (True, False)
        assert broken.cycles == 101
        (seen,) = broken.open_bursts
        assert seen.total > 0
        assert (well.was_reset, well.memory[0]) == (False, data)


def test_a_register_is_written_while_a_job_runs(
    standin: Built, tmp_path: Path, data: bytes
) -> None:
    late = Intervention(at_cycle=50, write=(SOURCE, 0x40))
    too_late = Intervention(at_cycle=19_000, write=(SOURCE, 0x80))
    plain, changed = run_jobs(
        standin,
        [copy_job(data), replace(copy_job(data), interventions=(late, too_late))],
        work_dir=tmp_path,
    )
    assert (plain.registers, changed.registers) == ((0, 0), (0, 0x40))
    assert (len(plain.open_bursts), len(changed.open_bursts)) == (1, 2)
    assert plain.open_bursts[0].total == 0


def test_interventions_that_cannot_be_are_refused(
    standin: Built, bare_standin: Built, tmp_path: Path
) -> None:
    def refused(built: Built, message: str, *items: Intervention) -> None:
        with pytest.raises(ProgramError, match=message):
            run_jobs(built, [Job(start=(0, 1), interventions=items)], work_dir=tmp_path)

    early, late = Intervention(5), Intervention(9, write=(0, 1))
    refused(bare_standin, "interventions need the simulator of `build_simulator`", early)
    with pytest.raises(ProgramError, match="interventions need the simulator"):
        run_jobs(bare_standin, [Job(start=(0, 1), reset_memory=False)], work_dir=tmp_path)
    refused(standin, r"in the order of their cycles, not \[9, 5\]", late, early)
    refused(standin, "a reset ends the run: it must be the last intervention", early, late)
    with pytest.raises(ProgramError, match="comes in cycle 1 or later, not 0"):
        Intervention(0)
    with pytest.raises(ProgramError, match="reset_cycles must be 1 to 65535, not 0"):
        Intervention(1, reset_cycles=0)


def test_jobs_that_cannot_be_are_refused(standin: Built, tmp_path: Path) -> None:
    size = 8 * WORDS
    with pytest.raises(ProgramError, match=f"memory has {size} bytes, but the image at 0x7fffe"):
        run_jobs(standin, [Job(start=(0, 1), image=((size - 2, b"abc"),))], work_dir=tmp_path)
    with pytest.raises(ProgramError, match=f"memory has {size} bytes, but the dump at 0x80000"):
        run_jobs(standin, [Job(start=(0, 1), dumps=((size, 1),))], work_dir=tmp_path)
    with pytest.raises(ProgramError, match="wave window needs a simulator built with waves=True"):
        run_jobs(standin, [Job(start=(0, 1), wave=(0, 5))], work_dir=tmp_path)
    with pytest.raises(ProgramError, match="must be None, 'SLVERR' or 'DECERR', not 'OKAY'"):
        Faults(read_response="OKAY")
    with pytest.raises(ProgramError, match="stop_channels must be among"):
        Faults(stop_channels=("x",))
    assert run_jobs(standin, [], work_dir=tmp_path) == []


@pytest.mark.parametrize("name", ["icarus", pytest.param("verilator", marks=pytest.mark.slow)])
def test_waves_hold_exactly_the_window(
    name: str, standin_verilog: str, cache_dir: Path, tmp_path: Path, data: bytes
) -> None:
    built = build_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=cache_dir,
        simulator=available(name),
        waves=True,
    )
    jobs = [copy_job(data), replace(copy_job(data), wave=(20, 50)), copy_job(data)]
    results = run_jobs(built, jobs, work_dir=tmp_path)
    assert len({result.cycles for result in results}) == 1
    (wave,) = tmp_path.iterdir()
    assert wave.name == "wave.vcd"
    text = wave.read_text()
    assert "m_axi_gmem_araddr" in text
    times = [int(line[1:]) for line in text.splitlines() if line.startswith("#")]
    assert times[-1] - times[0] in (30 * 10_000 - 5_000, 30 * 10_000)  # ps; the clock's halves

    late = replace(copy_job(data), wave=(20, 1_000_000))
    run_jobs(built, [late], work_dir=tmp_path)
    longer = [line for line in wave.read_text().splitlines() if line.startswith("#")]
    assert len(longer) > len(times), "a window beyond the end records up to the end"
    with pytest.raises(ProgramError, match="one job of a run may record waves, not 2"):
        run_jobs(built, [late, late], work_dir=tmp_path)


def test_the_memory_is_loaded_fast(
    simulator: str, standin_verilog: str, cache_dir: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Eight MiB in and out: well under a second, but for Icarus."""
    megabytes = 8
    built = build_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=1 << 20,
        cache_dir=cache_dir,
        simulator=simulator,
    )
    data = rng.bytes(megabytes << 20)
    job = Job(
        start=(0, 1),
        image=((0, data),),
        writes=((BURSTS, 0), (BEATS, 1)),
        dumps=((0, len(data)),),
        clear_memory=False,
    )
    (result,) = run_jobs(built, [job], work_dir=tmp_path)
    assert result.memory[0] == data
