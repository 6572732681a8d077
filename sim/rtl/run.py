"""Runs jobs on a built simulator, and returns their results.

Input: `Built` and a list of `Job`. Output: a `RawResult` per job. The native simulator runs in this
process (`native.py`), the others under cocotb in one child process. All files of the child lie in
one scratch folder inside `work_dir`, removed at the end; only waveforms stay.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from daedal.common.errors import DeviceError, ProgramError
from daedal.common.files import make_folder, replace_output
from daedal.sim.rtl.build import Built
from daedal.sim.rtl.contracts import broken_contract
from daedal.sim.rtl.image import swap_words, whole_words, word_range
from daedal.sim.rtl.intervention import OpenBursts
from daedal.sim.rtl.job import AXI_RULES, Job, RawResult, RunProgress
from daedal.sim.rtl.native import run_native
from daedal.sim.rtl.toolchain import find_icarus, simulation_environment

__all__ = ["WAVE_FILE", "run_jobs", "run_module"]

WAVE_FILE = "wave.vcd"

POLL_SECONDS = 0.05
LOG_TAIL_LINES = 30


def run_jobs(
    built: Built,
    jobs: Sequence[Job],
    *,
    work_dir: Path,
    progress: Callable[[RunProgress], None] | None = None,
    pause_cycles: int = 1 << 18,
    limit_seconds: float | None = None,
) -> list[RawResult]:
    """Run `jobs` in order on one simulated machine.

    Parameters
    ----------
    built
        From `build_simulator`.
    work_dir
        Holds the scratch folder during the run. A job's waveform stays as ``wave.vcd``; at most one
        job of a run may request one. An observer's files stay as well.
    progress
        Called after every `pause_cycles` simulated cycles and after every job.
    limit_seconds
        Wall-clock timeout of the run; None: only the jobs' cycle limits apply.

    Raises
    ------
    ProgramError
        A job does not fit the simulated memory, or requests waves from a build without tracing.
    DeviceError
        The simulator died or took longer than `limit_seconds`; the message has the log's end.
    """
    if not jobs:
        return []
    word_bytes = built.data_bits // 8
    waves = [job for job in jobs if job.wave is not None]
    if waves and not built.waves:
        raise ProgramError("a wave window needs a simulator built with waves=True")
    if len(waves) > 1:
        raise ProgramError(f"one job of a run may record waves, not {len(waves)}; run them apart")
    for job in jobs:
        job.check(built.words * word_bytes)
        if job.memory.built_sdram != built.sdram:
            raise ProgramError(
                f"a job's memory must be the kind that the simulator was built with, not "
                f"{job.memory.name!r}"
            )
        if (job.interventions or not job.reset_memory) and built.top != "harness":
            raise ProgramError("interventions need the simulator of `build_simulator`")
    if built.simulator == "native":
        return run_native(
            built, jobs, progress=progress, pause_cycles=pause_cycles, limit_seconds=limit_seconds
        )

    work_dir = work_dir.resolve()
    make_folder(work_dir)
    scratch = Path(tempfile.mkdtemp(prefix="rtl-", dir=work_dir))
    try:
        with (scratch / "image.bin").open("wb") as image:
            described = [_describe(job, built, image, pause_cycles) for job in jobs]
        (scratch / "jobs.json").write_text(json.dumps(described))
        reporter = _Reporter(scratch / "results.jsonl", len(jobs), progress)
        arguments = ["+image=image.bin", "+dump=dump.bin", f"+wave={WAVE_FILE}"]
        run_module(
            built,
            built.bench,
            scratch,
            arguments=arguments,
            poll=reporter.poll,
            limit_seconds=limit_seconds,
        )
        reporter.poll()
        if (scratch / WAVE_FILE).exists():
            replace_output(scratch / WAVE_FILE, work_dir / WAVE_FILE)
        for path in scratch.glob("observe_*.bin"):
            replace_output(path, work_dir / path.name)
        return _collect(jobs, reporter.results, scratch / "dump.bin", word_bytes)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_module(
    built: Built,
    module: str,
    folder: Path,
    *,
    arguments: Sequence[str] = (),
    poll: Callable[[], None] | None = None,
    limit_seconds: float | None = None,
    variables: dict[str, str] | None = None,
) -> None:
    """Run the cocotb tests of `module` on a simulator, with `folder` as the working folder.

    The child is ended when this call is interrupted. `variables` join the child's environment.

    Raises
    ------
    DeviceError
        A test failed, or the simulator died or took too long; the message has the log's end.
    """
    environment = simulation_environment() | {
        "COCOTB_TOPLEVEL": built.top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": str(folder / "cocotb.xml"),
        "COCOTB_RANDOM_SEED": "1",
        "COCOTB_LOG_LEVEL": "WARNING",  # otherwise cocotbext-axi logs every burst
        **(variables or {}),
    }
    if built.simulator == "verilator":
        # Verilator itself applies Python's writes after the clock edge. Icarus would apply them
        # before it, so there cocotb must delay them, which is its default.
        environment["COCOTB_TRUST_INERTIAL_WRITES"] = "1"
    command = [*_command(built), *arguments]
    log = folder / "log"
    ended_early = False
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        began = time.monotonic()
        try:
            while process.poll() is None:
                if limit_seconds is not None and time.monotonic() - began > limit_seconds:
                    ended_early = True
                    break
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    if poll is not None:
                        poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if ended_early:
        raise DeviceError(
            f"the simulation took longer than {limit_seconds:g} seconds and was ended; "
            f"its log ends:\n{_tail(log)}"
        )
    passed = (folder / "cocotb.xml").exists() and _passed(folder / "cocotb.xml")
    if process.returncode != 0 or not passed:
        broken = broken_contract(log.read_text(errors="replace"))
        if broken is not None:
            raise DeviceError(broken)
        raise DeviceError(
            f"the simulation failed (exit status {process.returncode}); its log ends:\n{_tail(log)}"
        )


def _command(built: Built) -> list[str]:
    if built.simulator == "verilator":
        return [str(built.program)]
    import cocotb_tools.config

    library = cocotb_tools.config.lib_entry("vpi", "icarus")
    return [str(find_icarus().vvp), "-m", str(library), str(built.program)]


def _passed(results: Path) -> bool:
    text = results.read_text(errors="replace")
    return "<testcase" in text and "<failure" not in text and "<error" not in text


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])


def _describe(job: Job, built: Built, image: Any, pause_cycles: int) -> dict[str, Any]:
    """Return the job as `bench.py` reads it, and append its memory to the image file."""
    word_bytes = built.data_bits // 8
    loads = []
    for address, data in whole_words(job.image, word_bytes):
        loads.append([address // word_bytes, len(data) // word_bytes])
        image.write(swap_words(data, word_bytes))
    return {
        "settings": job.settings(),
        "reset": job.reset_before,
        "reset_memory": job.reset_memory,
        "fills": [[0, built.words]] if job.clear_memory else [],
        "loads": loads,
        "writes": job.writes,
        "start": job.start,
        "limit": job.cycle_limit,
        "pause_cycles": pause_cycles,
        "interventions": [asdict(item) for item in job.interventions],
        "reads": job.reads,
        "dumps": [word_range(address, size, word_bytes) for address, size in job.dumps],
    }


class _Reporter:
    """Reads the child's event lines as they come."""

    def __init__(
        self, path: Path, num_jobs: int, progress: Callable[[RunProgress], None] | None
    ) -> None:
        self.path = path
        self.num_jobs = num_jobs
        self.progress = progress
        self.offset = 0
        self.results: list[dict[str, Any]] = []

    def poll(self) -> None:
        """Process the lines that are complete."""
        if not self.path.exists():
            return
        with self.path.open("rb") as source:
            source.seek(self.offset)
            new = source.read()
        complete = new[: new.rfind(b"\n") + 1]
        self.offset += len(complete)
        for line in complete.splitlines():
            event = json.loads(line)
            if event["kind"] == "result":
                self.results.append(event)
            if self.progress is not None:
                cycles = event["cycles"]
                self.progress(RunProgress(len(self.results), self.num_jobs, cycles))


def _collect(
    jobs: Sequence[Job], events: list[dict[str, Any]], dump: Path, word_bytes: int
) -> list[RawResult]:
    assert [event["job"] for event in events] == list(range(len(jobs)))
    results = []
    with dump.open("rb") as source:
        for job, event in zip(jobs, events, strict=True):
            memory = []
            for address, size in job.dumps:
                first, count = word_range(address, size, word_bytes)
                words = source.read(count * word_bytes)
                assert len(words) == count * word_bytes
                skip = address - first * word_bytes
                memory.append(words[skip : skip + size])
            code = event["violation"]
            results.append(
                RawResult(
                    cycles=event["cycles"],
                    timed_out=event["timed_out"],
                    registers=tuple(event["registers"]),
                    memory=tuple(memory),
                    axi_violation=AXI_RULES[code] if code else None,
                    seconds=event["seconds"],
                    open_bursts=tuple(OpenBursts(*seen) for seen in event["open_bursts"]),
                    was_reset=event["was_reset"],
                )
            )
    return results
