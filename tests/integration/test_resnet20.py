"""ResNet-20 with the shortcuts of its paper (every other pixel, channels of zeros), whole, as one
program."""

from functools import cache
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.isa.verifier import verify

VTA = daedal.load_variant("vta")


@pytest.fixture(scope="session")
def model(shared: Path) -> Path:
    return shared / "models" / "resnet20_cifar10" / "model_qdq.onnx"


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
