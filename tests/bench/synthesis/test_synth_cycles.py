"""The bench's cycles of a network: counted once, and refused in words."""

import json
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.codesign.area_alternatives import SOURCES
from bench.kept import ROOT
from bench.synthesis.synth_cycles import COMPILED_BY, COUNTED_BY, cycles_of
from daedal.isa.variant import load_variant
from examples.digits.data import demo_images

MODEL = (ROOT / "examples" / "digits" / "digits_qdq.onnx").read_bytes()


def feeds() -> dict[str, np.ndarray]:
    return {"input": demo_images(1)[0]}


def test_cycles_and_what_they_are_of(tmp_path: Path) -> None:
    """All layers, and what comes before the first mark and after the last."""
    tiny = load_variant("tiny")
    found = cycles_of(MODEL, feeds(), tiny, tmp_path)
    artifact = daedal.compile(MODEL, tiny)
    result = daedal.simulate(artifact, feeds(), device="timing")
    assert 0 <= found["cycles"] - sum(layer.cycles for layer in result.layers[0]) < 100
    assert found["launches"] == 1 and found["instructions"] == len(artifact.program.instructions)


def test_the_second_answer_is_the_first(tmp_path: Path) -> None:
    tiny, begun = load_variant("tiny"), list[int]()
    cycles_of(MODEL, feeds(), tiny, tmp_path, lambda: begun.append(1))
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({"cycles": 1}))
    assert cycles_of(MODEL, feeds(), tiny, tmp_path, lambda: begun.append(2)) == {"cycles": 1}
    assert begun == [1]
    other = tiny.replace(None, multiplier_style="packed")
    assert cycles_of(MODEL, feeds(), other, tmp_path)["cycles"] > 1


@pytest.mark.parametrize("name", ["int4", "int16"])
def test_what_refuses_the_network_is_kept(name: str, tmp_path: Path) -> None:
    found = cycles_of(MODEL, feeds(), load_variant(name), tmp_path)
    assert set(found) == {"refused"}
    assert found["refused"].startswith("a variant that a network is compiled for must have")


def test_an_answer_depends_on_sources_that_are_there() -> None:
    for source in (*COMPILED_BY, *COUNTED_BY, *SOURCES):
        path = ROOT / source
        assert path.is_file() or list(path.glob("*.py")), source
