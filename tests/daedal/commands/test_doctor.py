"""``daedal doctor``: every tool, and what a missing one costs."""

import json
from pathlib import Path

import pytest

from daedal.commands import doctor
from daedal.native.cache import ObjectCache
from daedal.runtime.devices.cuda.driver import open_driver
from daedal.runtime.devices.cuda.names import gpu_report
from tests.support.command_line import Run
from tests.support.fake_cuda import FakeCuda


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


def test_doctor_names_the_extra_that_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets are no markup."""
    monkeypatch.setattr(doctor, "ptxas_version", lambda: None)
    assert "'daedal[gpu]'" in run("doctor")[1]


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


def test_doctor_says_what_code_for_the_processor_uses(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "levels_to_run", lambda: ("x86-64-v4-amx", "x86-64"))
    for problem, text in ((None, "AMX is used"), ("AMX is not used: a trial", "a trial")):
        monkeypatch.setattr(doctor, "tile_problem", lambda problem=problem: problem)
        out = " ".join(run("doctor")[1].split())
        assert "x86-64-v4-amx, x86-64" in out and text in out
        found = json.loads(run("doctor", "--json")[1])["processor"]
        assert found["levels"] == ["x86-64-v4-amx", "x86-64"]
        assert found["tile_registers"] == {"used": problem is None, "problem": problem}


def test_doctor_lists_gpus(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeCuda(num_devices=2, memory_bytes=80 << 30)
    monkeypatch.setattr(doctor, "gpu_report", lambda: gpu_report(library.driver))
    out = " ".join(run("doctor")[1].split())
    assert all(part in out for part in ("Fake 0", "Fake 1", "sm_90a", "80 GiB", "CUDA 13.0"))
    found = json.loads(run("doctor", "--json")[1])["gpus"]
    assert found["cuda"] == "13.0" and found["problem"] is None
    assert found["found"][1] == {
        "name": "Fake 1",
        "architecture": "sm_90a",
        "multiprocessors": 132,
        "memory_bytes": 80 << 30,
    }


def test_doctor_without_a_gpu(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "gpu_report", lambda: gpu_report(lambda: open_driver(["no.so"])))
    out = " ".join(run("doctor")[1].split())
    assert "no GPU: GPUs need the CUDA driver (libcuda), which is missing; install" in out
    found = json.loads(run("doctor", "--json")[1])["gpus"]
    assert (found["cuda"], found["found"]) == (None, [])
    assert found["how_to_get"].startswith("install NVIDIA's driver")
