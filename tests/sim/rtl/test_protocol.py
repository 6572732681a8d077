"""The same jobs against cocotbext-axi's memory and host: an implementation that is not ours."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.isa.memory_model import memory_model
from daedal.sim.rtl.build import Built
from daedal.sim.rtl.run import run_jobs
from tests.sim.rtl.test_run import FAR, TARGET, copy_job

pytestmark = pytest.mark.rtl


def test_the_same_job_gives_the_same_bytes(
    standin: Built, bare_standin: Built, tmp_path: Path, rng: np.random.Generator
) -> None:
    data = rng.bytes(8 * 32 * 8)
    jobs = [
        replace(copy_job(data), memory=memory_model(name, seed))
        for name, seed in (("ideal", 0), ("jitter", 1), ("jitter", 2), ("ddr", 0))
    ]
    inside = run_jobs(standin, jobs, work_dir=tmp_path)
    outside = run_jobs(bare_standin, jobs, work_dir=tmp_path)
    for ours, theirs in zip(inside, outside, strict=True):
        assert ours.memory == theirs.memory == (data, bytes(16))
        assert ours.registers == theirs.registers
        assert not theirs.timed_out
    calm, first, second, _ = (result.cycles for result in outside)
    assert calm < first != second, "the odds of the memory model pause the channels"


def test_a_job_that_never_ends_times_out(
    bare_standin: Built, tmp_path: Path, rng: np.random.Generator
) -> None:
    data = rng.bytes(8 * 32 * 8)
    stuck, well = run_jobs(
        bare_standin, [replace(copy_job(data), cycle_limit=50), copy_job(data)], work_dir=tmp_path
    )
    assert stuck.timed_out
    assert stuck.cycles == 50
    assert well.memory[0] == data


def test_a_burst_across_4_kib_fails_the_run(bare_standin: Built, tmp_path: Path) -> None:
    job = copy_job(bytes(2048))
    job = replace(job, writes=(*job.writes, (TARGET, FAR + 4096 - 8)))
    with pytest.raises(DeviceError, match="AssertionError"):
        run_jobs(bare_standin, [job], work_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
