"""Tools in processes of their own: what they say, how they fail, and that none stays behind."""

import contextlib
import sys
import time
from pathlib import Path

import pytest

from daedal.hw.synth.tools import Tool, run_tool, run_tools
from daedal.isa.errors import ToolError

STAND_IN = """
import pathlib, sys, time

def run(arguments):
    name, *words = arguments
    if name == "wait":
        pathlib.Path("started-" + words[0]).touch()
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


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Tool("it", "no-such-package", "run")
    assert missing.version == ""
    with pytest.raises(ToolError, match="a test needs it as the Python package no-such-package, "):
        missing.require("a test")
    TOOL.require("a test")
