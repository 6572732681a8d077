"""``daedal doctor``: every tool, and what a missing one costs."""

import json
from pathlib import Path

import pytest

from daedal.native.cache import ObjectCache
from tests.support.command_line import Run


def test_doctor_names_every_tool_and_its_cost(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0 and "verilator" in out and "C++ compiler" in out
    records = json.loads(run("doctor", "--json")[1])["tools"]
    assert {"name", "version", "needed_for", "how_to_get"} == set(records[0])


def test_doctor_without_tools(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _ = run("doctor", "--json")
    missing = {item["name"] for item in json.loads(out)["tools"] if item["version"] is None}
    assert status == 0 and {"make", "icarus"} <= missing
    assert "missing" in run("doctor")[1]


def test_doctor_shows_what_the_caches_hold(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ObjectCache().get("a", lambda: bytes(3 << 20))
    (tmp_path / "daedal" / "rtl").mkdir(mode=0o777)
    (tmp_path / "daedal" / "rtl").chmod(0o777)
    out = run("doctor")[1]
    assert "3.0 MiB" in out and "others may write to it" in " ".join(out.split())
    caches = {item["name"]: item for item in json.loads(run("doctor", "--json")[1])["caches"]}
    assert (caches["native"]["entries"], caches["native"]["problem"]) == (1, None)
    assert caches["native"]["bytes"] == (3 << 20) + 32 < caches["native"]["limit_bytes"]
    assert caches["native"]["folder"] == str(tmp_path / "daedal" / "native")
    assert "is not used, as others may write to it (mode 777)" in caches["rtl"]["problem"]
