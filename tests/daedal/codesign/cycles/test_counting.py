"""Workers that count: what the search is told where one of them is killed."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from daedal.codesign.cycles import counting
from daedal.common.errors import ToolError
from daedal.isa.variant import load_variant

DIGITS = Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx"
SCRIPT = f"""
from pathlib import Path
from daedal.codesign.cycles.counting import Network, counters
from daedal.isa.variant import load_variant

print("the script runs")
networks = {{"digits": Network(Path({str(DIGITS)!r}).read_bytes())}}
with counters(networks, "ddr", 1) as count:
    ((number, counts),) = count([load_variant("tiny")])
print(number, counts.cycles["digits"] > 1000)
"""

TERMINAL = {signal.SIGINT, signal.SIGHUP}


def of_the_terminal() -> set[signal.Signals]:
    """Its signals that processes started now never get."""
    return TERMINAL & signal.pthread_sigmask(signal.SIG_BLOCK, ())


class KilledPool:
    """A pool whose workers were killed."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        pass

    def shutdown(self, **_named: Any) -> None:
        pass

    def submit(self, _call: Callable[..., Any], *_given: Any) -> "Future[Any]":
        assert os.environ["PYTHONSAFEPATH"] == "1", "a worker imports nothing from this folder"
        assert of_the_terminal() == TERMINAL, "a worker never gets these"
        task: Future[Any] = Future()
        task.set_exception(BrokenProcessPool("killed"))
        return task


def test_a_killed_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "ProcessPoolExecutor", KilledPool)
    with counting.counters({}, "ddr", 1) as counter:
        with pytest.raises(ToolError, match=r"was killed.*fewer --workers; the same command"):
            list(counter([load_variant("tiny")]))


def test_processes_that_do_not_start_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(KilledPool, "submit", fail)
    monkeypatch.setattr(counting, "ProcessPoolExecutor", KilledPool)
    with counting.counters({}, "ddr", 1) as counter:
        with pytest.raises(ToolError, match=r"must start, .*: Too many open files; take fewer"):
            list(counter([load_variant("tiny")]))


class Worker:
    """One that is at work."""

    def __init__(self) -> None:
        self.ended = False

    def terminate(self) -> None:
        self.ended = True


@pytest.mark.parametrize("interrupted", [False, True])
def test_workers_end_at_once_where_the_search_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    other, ours = Worker(), Worker()
    children = [other]
    monkeypatch.setattr(counting, "ProcessPoolExecutor", KilledPool)
    monkeypatch.setattr(counting, "active_children", lambda: list(children))
    try:
        with counting.counters({}, "ddr", 1):
            children.append(ours)
            if interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert (ours.ended, other.ended) == (interrupted, False)


ORPHAN = """
import os, time
from daedal.codesign.cycles import counting
counting._begin({}, "ddr", os.getppid() + 1)
time.sleep(600)
"""


def test_a_worker_whose_parent_is_gone_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], check=False, timeout=300)
    assert done.returncode == 3


@pytest.mark.heavy(20)
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the script runs\n0 True\n"
