"""`daedal tune` and `daedal compile --records`: reports, the same bytes, bad input."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.compiler.tune.database import Database
from daedal.reports.tuning import tuning_json
from tests.support.command_line import Run, refuses

MAIN = """
import signal
from daedal.cli import main

# Tests may run in the background of a script, where it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


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
    name = layer["layer"]
    answer = run("tune", model, "-v", "tiny", "-r", records, "--explain", name)
    refuses(answer, "at least 16 measured schedules", f"has {layer['trials']} of layer {name!r}")
    target = model.with_name("tuned.daedal")
    status, _, err = run("compile", model, "-v", "tiny", "--records", records, "-o", target)
    assert status == 0 and target.is_file(), err
    page = model.with_name("page.html")
    arguments = ("tune", model, "-v", "tiny", "-r", records, "--trials", 1)
    refuses(run(*arguments, "--html", records), "outputs must be different files")
    refuses(run(*arguments, "--html", page / "none"), str(page / "none"))
    status, out, err = run(*arguments, "--html", page)
    assert "Tuning of model" in page.read_text("utf-8") and "wrote" in err
    assert status == 0 and "`daedal compile --records" in " ".join(out.split())
    assert "total:" in out and "counted as a whole" in " ".join(out.split())
    options = ("--memory", "slow", "--records", records, "-o", target)
    before = target.read_bytes()
    answer = run("compile", model, "-v", "tiny", *options)
    refuses(answer, "with memory slow;", "with memory ddr only; give --memory ddr, or")
    options = ("--records", records, "-o", target)
    answer = run("compile", model, "-v", "vta", *options)
    refuses(answer, "here vta (", "has records of ", " only; choose the variant that was tuned, or")
    assert target.read_bytes() == before
    status, _, err = run("tune", model, "-v", "vta", "-r", records, "--trials", 1)
    assert status == 0, err
    assert run("compile", model, "-v", "vta", *options)[0] == 0, "a database has many variants"
    assert target.read_bytes() != before


@pytest.mark.heavy(10)
def test_the_functions_are_the_commands(run: Run, model: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    here, there = model.with_name("here.db"), model.with_name("there.db")
    said: list[str] = []
    found = daedal.tune(model, here, "tiny", trials=3, report=said.append)
    assert found.trials == 3 and found.machine == "variant" and not found.other_machines
    assert said[0] == "compiling"
    assert repr(found).endswith("cycles, 3 trials>") and len(repr(found)) < 100
    options = ("--trials", 3, "--json", "-r", there)
    status, out, err = run("tune", model, "-v", "tiny", *options)
    assert status == 0, err
    assert json.loads(out) == json.loads(json.dumps({**tuning_json(found), "explanations": []}))
    assert daedal.tune(str(model), here, target="tiny", trials=1).trials == 1, "it continues"
    target = model.with_name("tuned.daedal")
    assert run("compile", model, "-v", "tiny", "--records", here, "-o", target)[0] == 0
    tuned = daedal.compile(model.read_bytes(), "tiny", records=here)
    assert tuned.launches[0].program == Artifact.load(target).launches[0].program
    with pytest.raises(UserError, match="from records or from configs; give one of both"):
        daedal.compile(model, "tiny", records=here, configs={})
    with pytest.raises(UserError, match="must be a variant, cpu or gpu, not 'gpu:sm_90'"):
        daedal.tune(model, here, target="gpu:sm_90")


@pytest.mark.parametrize("workers", [0, 1])
def test_control_c_keeps_what_was_measured_and_the_same_command_continues(
    run: Run, model: Path, workers: int
) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    records = model.with_name("records.db")
    arguments = ["tune", model, "-v", "tiny", "-r", records]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments), "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal interrupts all processes of the session
    )
    try:
        deadline = time.monotonic() + 300
        while _count(records) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "the same command continues" in " ".join(out.split())
    kept = _count(records)
    assert kept >= 3
    status, out, err = run(*arguments, "--trials", 1, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["trials"] == 1 and not report["interrupted"]
    assert sum(len(layer["history"]) for layer in report["layers"]) == kept + 1


def test_a_pool_finds_what_this_process_does(run: Run, model: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    arguments = ("tune", str(model), "-v", "tiny", "--trials", "10", "--json", "-r")
    status, here, err = run(*arguments, model.with_name("here.db"))
    assert status == 0, err
    options = ("--workers", "2", "--timeout", "300")
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments, str(model.with_name("there.db")), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "distributed" not in done.stderr, "Dask's log is not shown"
    assert json.loads(done.stdout)["layers"] == json.loads(here)["layers"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--timeout", 5), "tls and timeout are for pools"),
        (("--workers", 1, "--pool", "127.0.0.1:9"), "either joined or started"),
        (("--workers", 1, "--timeout", 0), "must be more than 0 s, not 0"),
        (("--pool", "192.0.2.1:80"), "a pool beyond this machine must have certificates"),
        (("--pool", "127.0.0.1:9", "--tls", "nowhere"), "must have ca.pem, cert.pem, key.pem"),
        (("--workers", 1, "--tls", "nowhere"), "certificates belong to a pool to join"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(
    run: Run, model: Path, options: tuple[object, ...], words: str
) -> None:
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    records = model.with_name("records.db")
    refuses(run("tune", model, "-v", "tiny", "-r", records, *options), words)
    assert not records.exists(), "nothing is half-written"


def test_bad_input_ends_in_one_sentence(run: Run, model: Path) -> None:
    records = model.with_name("records.db")
    for arguments, message in (
        (("--trials", 0), "trials must be at least 1, not 0"),
        (("--trials", -1), "trials must be at least 1, not -1"),
        (("--seconds", 0), "seconds must be more than 0, not 0"),
        (("--seconds", -2), "seconds must be more than 0, not -2"),
        (("--trials", 1, "--explain", "nowhere"), "'nowhere'"),
    ):
        status, _, err = run("tune", model, "-v", "tiny", "-r", records, *arguments)
        assert status == 2 and err.count("error:") == 1 and message in " ".join(err.split())
        assert not records.exists()
    records.write_text("no database")
    status, _, err = run("tune", model, "-v", "tiny", "-r", records)
    assert status == 2 and err.count("error:") == 1
    assert records.read_text() == "no database"
    target = model.with_name("tuned.daedal")
    older = model.with_name("older.db")
    Database(older, kit="0.0.1+other").close()
    answer = run("compile", "-o", target, "--records", older, model, "-v", "tiny")
    refuses(answer, "a tuning database must be of Daedal", "is of '0.0.1+other'")
    assert run("tune", "--trials", 1, "-r", older, model, "-v", "tiny")[0] == 0
    assert run("compile", "-o", target, "--records", older, model, "-v", "tiny")[0] == 0
    target.unlink()
    status, _, err = run("tune", "--seed", -1, "-r", older, model, "-v", "tiny")
    assert status == 2 and "--seed" in err and "Traceback" not in err
    missing = model.with_name("missing.db")
    status, _, err = run("compile", model, "-v", "tiny", "--records", missing, "-o", target)
    assert status == 2 and "must be a database that `daedal tune` made" in " ".join(err.split())
    assert not target.exists() and not missing.exists()


def _count(records: Path) -> int:
    """Records of layers in a database, which may not have tables yet."""
    if not records.is_file():
        return 0
    with closing(sqlite3.connect(records)) as connection:
        try:
            statement = "SELECT count(*) FROM records WHERE target = 'accelerator'"
            found: int = connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError:
            return 0
    return found
