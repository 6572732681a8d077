"""Random networks as they are exported, on every target: what was refused or wrong once."""

import json
from pathlib import Path

import pytest

from bench.correctness import fuzz_models
from bench.correctness.fuzz_split import split_model
from bench.correctness.random_models.graphs import random_transformer

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")


@pytest.mark.heavy(4)
@pytest.mark.parametrize(
    ("networks", "options"),
    [("transformers", []), ("transformers", ["--gpu"]), ("vision", [])],
)
def test_models_that_agree(tmp_path: Path, networks: str, options: list[str]) -> None:
    path = tmp_path / "f.json"
    arguments = ["--networks", networks, "--count", "1", "--seed", "6", "--json", str(path)]
    assert fuzz_models.main([*arguments, *options]) == 0
    assert [result["failure"] for result in json.loads(path.read_text())] == [""]


@pytest.mark.heavy(4)
@pytest.mark.parametrize(
    "seed",
    [
        11,  # the last token of a stream of 16 bits, which the host gives
        23,  # one token, of a sum with what the host computes in several steps
        140,  # rows of caches, of which the reference had another tensor by the same name
        72,  # a mask among the inputs, and keys that fill no block
    ],
)
def test_parts_on_the_accelerator(seed: int) -> None:
    artifact, failure = split_model(random_transformer(seed), "attention")
    assert artifact.launches
    assert failure == ""
