"""ResNet-20 with the shortcuts of its paper (every other pixel, channels of zeros), whole, as one
program."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.check import integer_graph
from daedal.compiler.graph import run_all
from daedal.isa.artifact import Artifact
from daedal.isa.verifier import verify

VTA = daedal.load_variant("vta")
NUM_IMAGES = 3


@pytest.fixture(scope="session")
def model(shared: Path) -> Path:
    return shared / "models" / "resnet20_cifar10" / "model_qdq.onnx"


@pytest.fixture(scope="session")
def images(model: Path) -> np.ndarray:
    """The first test images as the model takes them, (3, 3, 32, 32) float32."""
    data = np.load(model.with_name("inputs.npz"))
    mean, std = (np.asarray(data[name]).reshape(1, 3, 1, 1) for name in ("mean", "std"))
    return ((data["x_u8"][:NUM_IMAGES] / 255 - mean) / std).astype(np.float32)


@cache
def compiled(model: Path) -> Artifact:
    return daedal.compile(model, VTA)


def test_everything_between_quantize_and_dequantize_is_one_program(model: Path) -> None:
    artifact = compiled(model)
    verify(artifact.program)
    operators = [layer.op for layer in artifact.layers]
    # One shortcut's channels of zeros fill whole blocks, the other's do not.
    assert operators.count("q_slice") == 2 and operators.count("q_pad") == 1
    assert operators.count("q_conv2d") + operators.count("q_conv2d_add") == 19 + 1 + 1
    assert operators.count("q_conv2d_add") == 9 and "q_add" not in operators
    assert {node.op for node in artifact.host_nodes} <= {
        "quantize",
        "permute and pad",
        "permute and crop",
        "reshape",
        "dequantize",
    }


def test_machine_answers_as_the_reference(model: Path, images: np.ndarray) -> None:
    graph = integer_graph(model, VTA)
    (name,), (output,) = graph.inputs, graph.outputs
    found = daedal.simulate(compiled(model), {name: images}).outputs[output]
    expected = np.stack([run_all(graph, {name: image[None]})[output] for image in images])
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
