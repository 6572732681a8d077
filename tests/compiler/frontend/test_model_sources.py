"""What is a model: a path, bytes or a ModelProto, for every public function that takes one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import processor_graph
from daedal.checking.layer_check import check_layers
from daedal.common.errors import ModelError
from daedal.isa.variant import load_variant
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")


def network() -> onnx.ModelProto:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 8, 4, 4)), 0.05, 3)
    weights = maker.weights(np.full((8, 8, 3, 3), 3, np.int8), 0.01)
    y = maker.op("Conv", x, weights, pads=[1] * 4)
    return maker.model(maker.requantized(y, 0.1, 0, output="y_q"))


TAKEN: dict[str, Callable[[Any], object]] = {
    "compile": lambda model: daedal.compile(model, TINY, host=None),
    "compile for processors": lambda model: daedal.compile(model, target="cpu", cpu_levels=()),
    "processor_graph": lambda model: processor_graph(model, TINY),
    "quantize": lambda model: daedal.quantize(model, {"x": np.ones((2, 8, 4, 4), np.float32)}),
}


@pytest.mark.parametrize("name", ["compile", "compile for processors"])
def test_all_forms_give_one_artifact(name: str, tmp_path: Path) -> None:
    model, path = network(), tmp_path / "model.onnx"
    onnx.save(model, path)
    forms = (model, model.SerializeToString(), path, str(path), bytearray(path.read_bytes()))
    assert len({TAKEN[name](form).to_bytes() for form in forms}) == 1


def test_a_model_in_memory_is_checked_against() -> None:
    model = network()
    before = model.SerializeToString()
    artifact = daedal.compile(model, TINY, host=None)
    inputs = {"x": np.ones((1, 8, 4, 4), np.float32)}
    device = FunctionalDevice(TINY, kernels=False)
    assert check_layers(artifact, model, inputs, device=device).passed
    assert model.SerializeToString() == before, "the caller's model stays as it is"


@pytest.mark.parametrize("given", [None, 3, ["model.onnx"], onnx.GraphProto()])
@pytest.mark.parametrize("name", TAKEN)
def test_anything_else_is_refused(name: str, given: object) -> None:
    message = "a model must be the path of an ONNX file, its bytes or an onnx.ModelProto, not "
    with pytest.raises(ModelError, match=message + type(given).__name__):
        TAKEN[name](given)
