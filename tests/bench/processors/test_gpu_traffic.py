"""`bench/processors/gpu_traffic.py` on a model of two kernels."""

import json
from pathlib import Path

import pytest

from bench.processors import gpu_traffic
from tests.bench.processors.test_gpu_compile import two_kernels


def test_a_network_is_counted_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sum of 32 elements, which is one request, and a transposed matrix, whose elements each
    thread reads eight apart; the results, too."""
    path = tmp_path / "rows.json"
    monkeypatch.setattr(gpu_traffic, "MODELS", {"two": two_kernels, "none": _missing})
    assert gpu_traffic.main(["two", "none", "--kernels", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())
    assert row["launches"] == 2 and row["tensor_bytes"] == 3 * 32 * 4 + 4
    moved = next(item for item in row["kernels"] if item["requests"] == 2)
    assert (moved["sectors"], moved["asked_bytes"], moved["ways"]) == (8, 256, 1)
    said = capsys.readouterr().out
    assert "none is left out: away.onnx is missing" in said and "KernelRow" in said


def _missing() -> None:
    raise FileNotFoundError(2, "no such file", "away.onnx")


def test_unknown_networks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu_traffic.main(["lenet"])
    assert ended.value.code == 2
    assert "networks must be some of resnet50" in capsys.readouterr().err
