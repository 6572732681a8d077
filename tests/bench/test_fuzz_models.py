"""The bench of random models: what it says of models that pass, differ, crash or hang."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import fuzz_models
from bench.fuzz_models import How, differences, main, run
from tests.support.random_graphs import random_graph

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")

DIES = """#!/bin/sh
# --child --seed S --count N
echo "{\\"started\\": $4}"
kill -9 $$
"""
HANGS = """#!/bin/sh
echo "{\\"started\\": $4}"
exec sleep 60
"""


def test_models_that_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "2", "--json", str(tmp_path / "f.json")]) == 0
    results = json.loads((tmp_path / "f.json").read_text())
    assert [(result["seed"], result["failure"]) for result in results] == [(0, ""), (1, "")]
    assert "2 models, 2 without an interpreted node" in capsys.readouterr().out


@pytest.mark.parametrize("script", [DIES, HANGS], ids=["dies", "hangs"])
def test_a_process_that_ends_is_known_by_its_seed(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(fuzz_models, "HANG_S", 0.3)
    results = list(run(7, 2, How()))
    assert [result["seed"] for result in results] == [7, 8]
    assert all(result["failure"] == "the process ended with -9" for result in results)


def test_differences() -> None:
    """A value off by more than the tolerance, a unit where none is allowed, and a wrong type."""
    graph = random_graph(0)
    values = {
        "f": np.array([1.0, -4.0], np.float32),
        "q": np.array([3, 200], np.uint8),
        "free": np.array([3, 200], np.uint8),
        "b": np.array([True, False]),
    }
    graph = dataclasses.replace(graph, values=values, units=frozenset({"free"}))
    near = {"f": values["f"] * np.float32(1 + 9e-5), "free": values["free"] + np.uint8(1)}
    assert differences(graph, values | near) == []
    far = {
        "f": values["f"] + np.float32(5e-4),
        "q": values["q"] - np.uint8(1),
        "free": values["free"] - np.uint8(2),
        "b": ~values["b"],
    }
    assert [sentence.split()[0] for sentence in differences(graph, far)] == list(far)
    assert differences(graph, {"f": values["f"] * np.float32(np.nan)})
    assert differences(graph, {"f": values["f"].astype(np.float64)})
    assert differences(graph, {"b": values["b"][:1]})


def test_mistakes_on_the_command_line() -> None:
    for arguments in (["--count", "0"], ["--seed", "-1"], ["--level", "z80"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
