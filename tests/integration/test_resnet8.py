"""MLPerf Tiny's image classifier (ResNet-8, int8): its layers, and its RTL bytes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import integer_layers, processor_graph
from daedal.isa.verifier import verify
from daedal.sim.rtl.device import RtlDevice

VTA = daedal.load_variant("vta")
NUM_LAYERS = 14


@pytest.fixture(scope="session")
def folder(shared: Path) -> Path:
    return shared / "models" / "mlperf_tiny_resnet8"


@pytest.fixture(scope="session")
def images(folder: Path) -> np.ndarray:
    """The first 100 test images as the model takes them, (100, 3, 32, 32) float32."""
    data = np.load(folder / "inputs.npz")
    centred = data["x_q"][:100].astype(np.int32) - data["zero_point"]
    return (centred * data["scale"]).astype(np.float32)


@cache
def compiled(folder: Path, keep_layers: bool) -> Artifact:
    """The network, or a program of it in which every layer is an output."""
    path = folder / "model_qdq.onnx"
    layers = [target for _, _, target in integer_layers(processor_graph(path, VTA))]
    return daedal.compile(path, VTA, to_tensors=layers if keep_layers else ())


def test_program_keeps_the_rules(folder: Path) -> None:
    artifact = compiled(folder, False)
    verify(artifact.program)
    # Each of the three additions runs in the convolution before it.
    assert len(artifact.layers) == NUM_LAYERS - 3
    assert {node.op for node in artifact.host_nodes} >= {"quantize", "dequantize", "softmax"}


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.xdist_group("vta-rtl")
@pytest.mark.parametrize("keep_layers", [False, True])
def test_rtl_equals_functional(
    folder: Path, images: np.ndarray, vta_rtl: RtlDevice, keep_layers: bool
) -> None:
    """4 images through the network as it is; every layer of one of them."""
    count = 1 if keep_layers else 4
    artifact = compiled(folder, keep_layers)
    found = daedal.simulate(artifact, {"input": images[:count]}, device=vta_rtl)
    expected = daedal.simulate(artifact, {"input": images[:count]})
    for name, array in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], array, err_msg=name)
    for profile in found.profiles:
        print(f"{profile.cycles} cycles, {profile.cycles / profile.wall_seconds:.0f} per second")
