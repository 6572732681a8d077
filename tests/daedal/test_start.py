"""The program's start: a first one, whose modules Python compiles, says so."""

import importlib.util
import sys
from pathlib import Path

import pytest

from daedal import cli, start


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of compiled modules, in a process that has not loaded the command line."""
    monkeypatch.setattr(cli, "main", lambda: None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", _fresh_spec)
    return tmp_path


def _fresh_spec(name: str) -> object:
    """The module's specification as a new process finds it."""
    known = importlib.util.spec_from_file_location(name, cli.__file__)
    assert known is not None
    return known


def test_the_first_start_says_why_it_takes_long(
    started: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start.main()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "note: first start: Python compiles its modules, which takes seconds\n"


def test_later_starts_say_nothing(started: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = Path(importlib.util.cache_from_source(cli.__file__))
    assert compiled.is_relative_to(started)
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    start.main()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("reason", ["nothing is kept", "a shell completes a word"])
def test_what_it_would_say_each_time_or_into_a_prompt_is_not_said(
    started: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reason: str,
) -> None:
    if reason == "nothing is kept":
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    else:
        monkeypatch.setenv("_DAEDAL_COMPLETE", "complete_bash")
    start.main()
    assert capsys.readouterr().err == ""
