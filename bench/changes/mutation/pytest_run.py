"""One run of pytest in a copy of the repository, watched by `watch.py`.

Input: a tree, test files, ids in order. Output: a `Run`: what failed first, what each test cost.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.changes.mutation.tree import Tree

__all__ = ["Run", "StoppedError", "run_tests", "stop_all"]

WALL_PER_CPU = 8
"""Seconds on a loaded machine for one of CPU, at most; what waits longer hangs."""


_running = set[subprocess.Popen[str]]()
_stopped = threading.Event()


class StoppedError(Exception):
    """The user has stopped the bench: what runs now tells nothing."""


def stop_all() -> None:
    """End the runs of all threads; they and later ones raise StoppedError."""
    _stopped.set()
    for process in tuple(_running):
        _kill(process)


@dataclass
class Run:
    """What a run of tests told.

    Attributes
    ----------
    failed : ids of tests, or of files that cannot be imported, that failed.
    timed_out : whether the process met its limit; `last` began last.
    seconds, reached : of each test that ended: CPU seconds, functions; `reached` of traced runs.
    imported : functions that importing the test files reached; traced runs only.
    broken : pytest itself ended with an error, and this is the end of what it printed.
    """

    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    timed_out: bool = False
    last: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[str, list[str]] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)
    import_seconds: float = 0.0
    broken: str = ""


def run_tests(
    tree: Tree,
    files: Sequence[str],
    *,
    order: Sequence[str] | None = None,
    slow: bool = False,
    trace: bool = False,
    limit_s: float,
    stop_s: float = 1e9,
) -> Run:
    """Run `order` of the tests of `files`, all where it is None, up to the first failure.

    Tests marked slow are run if `slow`, the others if not. A traced run goes on after failures. CPU
    seconds are limited to `limit_s`, whatever the load.
    """
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        out, request = Path(folder) / "out", Path(folder) / "request"
        out.touch()
        request.write_text(
            json.dumps(
                {
                    "out": str(out),
                    "root": str(tree.root),
                    "order": order,
                    "trace": trace,
                    "limit_s": limit_s,
                    "stop_s": stop_s,
                }
            )
        )
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line"]
        command += ["-m", "slow" if slow else "not slow"]
        command += ["-p", "no:cacheprovider", "-p", "mutation_watch"]
        command += [*([] if trace else ["-x"]), f"--basetemp={folder}/tmp", *files]
        environment = {**tree.environment(), "MUTATION_REQUEST": str(request)}
        status, text = _run(command, tree.root, environment, 60 + WALL_PER_CPU * limit_s)
        return _read(out.read_text(encoding="utf-8"), status, text)


def _run(
    command: list[str], folder: Path, environment: dict[str, str], limit_s: float
) -> tuple[int, str]:
    """Exit status and output; -SIGKILL where the process had to be ended, with all its children."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, start_new_session=True, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        errors="replace",
    )  # fmt: skip
    _running.add(process)
    try:
        text, _ = process.communicate(timeout=limit_s)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, ""
    finally:
        # Simulators that a faulty test left behind, too.
        _kill(process)
        process.wait()
        _running.discard(process)
        if _stopped.is_set():
            raise StoppedError


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(lines: str, status: int, text: str) -> Run:
    run = Run()
    for line in lines.splitlines():
        told: dict[str, Any] = json.loads(line)
        if "failed" in told:
            run.failed.append(told["failed"])
        elif "skipped" in told:
            run.skipped.append(told["skipped"])
        elif "begun" in told:
            run.last = told["begun"]
        elif "imported" in told:
            run.imported, run.import_seconds = told["imported"], told["cpu"]
        elif "ended" in told:
            run.seconds[told["ended"]] = told["cpu"]
            run.reached[told["ended"]] = told["reached"]
    killed = {-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU, 128 + signal.SIGKILL}
    run.timed_out = status in killed
    # 0: passed, 1: failed, 2: stopped, 5: nothing to run.
    if not run.timed_out and (status not in (0, 1, 2, 5) or (status == 2 and not run.failed)):
        run.broken = text.strip()[-400:] or f"exit status {status}"
    return run
