"""Tools in processes of their own: what they say, how they fail, and that none stays behind."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.hw.synth.tools import Tool, run_tool, run_tools

STAND_IN = """
import os, pathlib, sys, time

def run(arguments):
    name, *words = arguments
    if name == "wait":
        pathlib.Path("started-" + words[0]).write_text(str(os.getpid()))
        time.sleep(float(words[1]))
        pathlib.Path("ended-" + words[0]).touch()
        return 0
    for word in words:
        print(word, flush=True)
    return int(name)
"""

TOOL = Tool("the stand-in", "stand-in-tool", "run")


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose tool says its arguments and ends with the first, or waits."""
    (tmp_path / "stand_in_tool.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stand_in_tool", raising=False)


def test_lines_come_in_order(tmp_path: Path) -> None:
    lines: list[str] = []
    run_tool(TOOL, ["0", "one", "two"], tmp_path, line=lines.append)
    assert lines == ["one\n", "two\n"]


def test_the_first_run_on_a_machine_says_what_takes_long() -> None:
    said = "Preparing to run stand-in. This might take a while...\n"
    assert TOOL.first_run(said) == (
        "translating the stand-in for this computer, once: about a minute"
    )
    assert TOOL.first_run("daedal step: begin (1 of 8)") is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([], "no message"),
        (["first", "", "last"], "last"),
        (["first", "Info: and so on", "Warning: oh"], "first"),
        (["ERROR: this", "ERROR: that", "2 errors"], "ERROR: this"),
        (["before", "ERROR: this", "after"], "ERROR: this"),
    ],
)
def test_a_failure_says_why(tmp_path: Path, said: list[str], reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        run_tool(TOOL, ["3", *said], tmp_path)
    assert str(caught.value) == (
        f"the stand-in must accept the design, but it stopped with exit status 3: {reason}"
    )


def test_calls_are_reported_as_they_end(tmp_path: Path) -> None:
    """The second ends first: it waits for what the third does not start before."""
    calls = [["wait", "a", "1.5"], ["wait", "b", "0"], ["0", "said"]]
    lines: list[tuple[int, str]] = []
    ended = list(
        run_tools(TOOL, calls, tmp_path, num_processes=2, line=lambda *told: lines.append(told))
    )
    assert ended == [1, 2, 0]
    assert lines == [(2, "said\n")]


def test_no_more_at_a_time_than_told(tmp_path: Path) -> None:
    calls = [["wait", name, "0.2"] for name in "abc"]
    for done, number in enumerate(run_tools(TOOL, calls, tmp_path), 1):
        assert number == done - 1
        assert len(list(tmp_path.glob("ended-*"))) == done
        assert len(list(tmp_path.glob("started-*"))) == done


def test_a_call_that_takes_much_longer_than_another_is_given_up(tmp_path: Path) -> None:
    calls = [["wait", "long", "60"], ["wait", "a", "0.3"], ["wait", "b", "0.6"]]
    begin = time.monotonic()
    assert list(run_tools(TOOL, calls, tmp_path, num_processes=3, patience=4)) == [1, 2]
    assert time.monotonic() - begin < 30
    assert not alive(int((tmp_path / "started-long").read_text()))


@pytest.mark.parametrize("how", ["closed", "failed"])
def test_whoever_stops_early_ends_the_processes(tmp_path: Path, how: str) -> None:
    calls = [["wait", "long", "60"], ["0" if how == "closed" else "1"]]
    begin = time.monotonic()
    with contextlib.suppress(ToolError):
        with contextlib.closing(run_tools(TOOL, calls, tmp_path, num_processes=2)) as done:
            assert next(done) == 1
    assert time.monotonic() - begin < 30
    assert not (tmp_path / "ended-long").exists()


def test_an_interrupt_in_a_callback_ends_the_process(tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tool(TOOL, ["0", "said"], tmp_path, line=interrupt)


STARTER = """
import sys
from pathlib import Path
from daedal.hw.synth.tools import Tool, run_tool

run_tool(Tool("it", "stand-in-tool", "run"), ["wait", "long", "60"], Path(sys.argv[1]))
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found in /proc")
def test_a_tool_does_not_outlive_who_waits_for_it(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)])
    started = tmp_path / "started-long"
    try:
        assert eventually(lambda: started.is_file() and started.read_text() != "")
        tool = int(started.read_text())
        assert alive(tool)
    finally:
        starter.kill()
        starter.wait()
    assert eventually(lambda: not alive(tool))


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked about does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Tool("it", "no-such-package", "run")
    assert missing.version == ""
    with pytest.raises(ToolError, match="a test needs it as the Python package no-such-package, "):
        missing.require("a test")
    TOOL.require("a test")
