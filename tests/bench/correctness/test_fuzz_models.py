"""The bench of random models: what it says of models that pass or differ."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from bench.correctness.fuzz_models import differences, main
from bench.correctness.random_models.graphs import random_graph

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")


@pytest.mark.heavy(8)
@pytest.mark.parametrize("options", [[], ["--gpu"]])
def test_models_that_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["--count", "2", "--json", str(tmp_path / "f.json"), *options]) == 0
    results = json.loads((tmp_path / "f.json").read_text())
    assert [(result["seed"], result["failure"]) for result in results] == [(0, ""), (1, "")]
    assert "2 models, 2 without an interpreted node" in capsys.readouterr().out


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
    for arguments in (["--count", "0"], ["--seed", "-1"], ["--level", "z80"], ["--gpu", "--split"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
