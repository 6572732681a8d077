"""``daedal doctor``: every tool, and what a missing one costs."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run


def test_doctor_names_every_tool_and_its_cost(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0 and "verilator" in out and "C++ compiler" in out
    records = json.loads(run("doctor", "--json")[1])
    assert {"name", "version", "needed_for", "how_to_get"} == set(records[0])


def test_doctor_without_tools(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _ = run("doctor", "--json")
    missing = {item["name"] for item in json.loads(out) if item["version"] is None}
    assert status == 0 and {"make", "icarus"} <= missing
    assert "missing" in run("doctor")[1]
