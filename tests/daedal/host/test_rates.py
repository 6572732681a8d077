"""Rates of the host: measured once, kept, read from files, and what they decide."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.compiler.targets.crossings import DEFAULT_HOST
from daedal.host import rates as host_rates
from tests.support.command_line import Run, refuses

RATES = {"launch_cycles": 500, "bytes_per_cycle": 8, "macs_per_cycle": 1, "elements_per_cycle": 2.5}


def island() -> bytes:
    """A small convolution after a Softmax, which only a slow host leaves to the accelerator."""
    rng = np.random.default_rng(7)
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 5, 6, 6)), 0.05, 3)
    w = maker.weights(rng.integers(-127, 128, (64, 5, 3, 3)).astype(np.int8), 0.01)
    soft = maker.op("Softmax", maker.requantized(maker.op("Conv", x, w), 0.08, 3), axis=1)
    w = maker.weights(rng.integers(-127, 128, (2, 64, 1, 1)).astype(np.int8), 0.01)
    y = maker.op("Conv", maker.requantized(soft, 0.004, -128), w)
    return maker.model(maker.requantized(y, 0.01, 0)).SerializeToString()


def test_the_default_is_fixed() -> None:
    """Programs and artifacts depend on it."""
    assert daedal.load_host_rates("default") == daedal.HostRates() == DEFAULT_HOST
    assert dataclasses.astuple(DEFAULT_HOST) == (2000, 8, 16, 2)


def test_this_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = daedal.load_host_rates("measured", tmp_path / "rates")
    figures = dataclasses.astuple(rates)
    assert all(math.isfinite(item) and item > 0 for item in figures)
    assert rates.launch_cycles == DEFAULT_HOST.launch_cycles
    monkeypatch.setattr(host_rates, "measure_host_rates", lambda: daedal.HostRates(1, 2, 3, 4))
    assert daedal.load_host_rates("measured", tmp_path / "rates") == rates
    (kept,) = (tmp_path / "rates").iterdir()
    assert daedal.load_host_rates(kept) == rates
    # A damaged file counts as missing.
    kept.write_text("{")
    assert daedal.load_host_rates("measured", tmp_path / "rates") == daedal.HostRates(1, 2, 3, 4)
    assert json.loads(kept.read_text())["macs_per_cycle"] == 3


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(host_rates, "measure_host_rates", lambda: daedal.HostRates(1, 2, 3, 4))
    found = daedal.load_host_rates("measured", tmp_path / "file" / "rates")
    assert found == daedal.HostRates(1, 2, 3, 4)


def test_rates_from_a_file_decide(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.json").write_text(json.dumps(RATES))
    (tmp_path / "model.onnx").write_bytes(island())
    command = ("compile", tmp_path / "model.onnx", "-v", "tiny", "--cpu-level", "x86-64")
    launches = []
    for name in ("default", tmp_path / "slow.json"):
        status, _, err = run(*command, "-o", tmp_path / "x.daedal", "--host-rates", name)
        assert status == 0, err
        launches.append(len(Artifact.load(tmp_path / "x.daedal").launches))
    assert launches == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 5000,
        json.dumps({**RATES, "more": 1}),
        json.dumps({**RATES, "macs_per_cycle": True}),
        json.dumps({**RATES, "macs_per_cycle": math.inf}),
        json.dumps({**RATES, "macs_per_cycle": 10**400}),
        "\x00\xff",
    ],
)
def test_files_that_are_no_rates(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rates.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError) as error:
        daedal.load_host_rates(path)
    assert str(error.value) == (
        "host rates must be a JSON object with numbers for launch_cycles, bytes_per_cycle, "
        f"macs_per_cycle, elements_per_cycle, and {str(path)!r} is none; write one, or use "
        "'default' or 'measured'"
    )


def test_rates_must_be_positive(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text(json.dumps({**RATES, "bytes_per_cycle": 0}))
    with pytest.raises(UserError) as error:
        daedal.load_host_rates(path)
    assert str(error.value) == "host rates must be positive, not 0 (bytes_per_cycle)"


def test_options_that_do_not_go_together(run: Run, tmp_path: Path) -> None:
    command = ("compile", tmp_path / "model.onnx", "-o", tmp_path / "x.daedal")
    result = run(*command, "--all-on-accelerator", "--host-rates", "default")
    refuses(result, "--all-on-accelerator moves no operator to the host, whatever the --host-rates")
    result = run(*command, "--target", "cpu", "--host-rates", "default")
    refuses(result, "--all-on-accelerator and --host-rates need an accelerator")
    result = run(*command, "--host-rates", tmp_path / "missing.json")
    refuses(result, "host rates must be a", "missing.json")
