"""`daedal tune` and `daedal compile --records`: reports, the same bytes, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.graph.qdq_models import QdqModel
from tests.support.command_line import Run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 10, 10)), 0.05, 0)
    values = rng.integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
    y = net.op("Conv", x, net.weights(values, 0.01), pads=[1] * 4)
    path = tmp_path / "model.onnx"
    path.write_bytes(net.model(net.requantized(y, 0.05, 0)).SerializeToString())
    return path


def test_compile_takes_the_recorded_schedules(run: Run, model: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    records = model.with_name("records.db")
    status, out, err = run("tune", model, "-v", "tiny", "-r", records, "--trials", 10, "--json")
    assert status == 0, err
    report = json.loads(out)
    (layer,) = report["layers"]
    assert layer["trials"] <= 10 and layer["tuned_cycles"] <= layer["default_cycles"]
    target = model.with_name("tuned.daedal")
    status, _, err = run("compile", model, "-v", "tiny", "--records", records, "-o", target)
    assert status == 0 and target.is_file(), err
    status, out, _ = run("tune", model, "-v", "tiny", "-r", records, "--trials", 1)
    assert status == 0 and "`daedal compile --records" in " ".join(out.split())


def test_bad_input_ends_in_one_sentence(run: Run, model: Path) -> None:
    records = model.with_name("records.db")
    for arguments, message in (
        (("--trials", 0), "trials must be at least 1, not 0"),
        (("--seconds", 0), "seconds must be more than 0, not 0"),
    ):
        status, _, err = run("tune", model, "-v", "tiny", "-r", records, *arguments)
        assert status == 2 and err.count("error:") == 1 and message in " ".join(err.split())
    records.write_text("no database")
    status, _, err = run("tune", model, "-v", "tiny", "-r", records)
    assert status == 2 and err.count("error:") == 1
    assert records.read_text() == "no database"
    target = model.with_name("tuned.daedal")
    missing = model.with_name("missing.db")
    status, _, err = run("compile", model, "-v", "tiny", "--records", missing, "-o", target)
    assert status == 2 and "must be a database that `daedal tune` made" in " ".join(err.split())
    assert not target.exists() and not missing.exists()
