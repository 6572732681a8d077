"""Networks over an accelerator, the processor and an emulated GPU, split by cost."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.compiler.targets.crossings import HostRates
from daedal.reports.artifact import summary_lines
from daedal.sim.gpu.emulator import EmulatedGpu

SHAPE = (1, 8, 16, 16)
CHANNELS = 64


def weights(maker: QdqModel, *shape: int) -> str:
    values = np.random.default_rng(len(maker.nodes)).normal(size=shape) * 0.1
    return maker.constant(values.astype(np.float32))


def begin(maker: QdqModel) -> str:
    """A convolution for the accelerator."""
    x = maker.requantized(maker.input("x", SHAPE), 0.0625, -3)
    values = np.random.default_rng(0).integers(-3, 4, (8, 8, 3, 3)).astype(np.int8)
    return maker.requantized(maker.op("Conv", x, maker.weights(values, 0.05), pads=[1] * 4), 0.1, 0)


def floats(maker: QdqModel, x: str) -> str:
    """Two convolutions of floats, for a GPU."""
    wide = maker.op("Conv", x, weights(maker, CHANNELS, 8, 3, 3), pads=[1] * 4)
    narrow = weights(maker, 8, CHANNELS, 3, 3)
    return maker.op("Conv", maker.op("Relu", wide), narrow, pads=[1] * 4)


def end(maker: QdqModel, x: str) -> onnx.ModelProto:
    pooled = maker.op("Flatten", maker.op("GlobalAveragePool", x))
    return maker.model(maker.op("Softmax", pooled, output="y"))


def large() -> onnx.ModelProto:
    """Much work for the GPU after the accelerator's."""
    maker = QdqModel()
    return end(maker, floats(maker, begin(maker)))


def small() -> onnx.ModelProto:
    """Nothing that is worth a transfer."""
    maker = QdqModel()
    return end(maker, begin(maker))


def between() -> onnx.ModelProto:
    """A node that only the processor runs, between convolutions for the GPU, and the accelerator
    after them; the node gives 1 for 1 and 0 for 0."""
    maker = QdqModel(opset=15)
    first = floats(maker, begin(maker))
    signs = maker.op("Sign", maker.op("Relu", first))
    masked = maker.op("Mul", first, maker.op("Bernoulli", signs))
    values = np.random.default_rng(1).integers(-3, 4, (16, 8, 3, 3)).astype(np.int8)
    x = maker.requantized(floats(maker, masked), 0.5, 0)
    y = maker.op("Conv", x, maker.weights(values, 0.05), pads=[1] * 4)
    return end(maker, maker.requantized(y, 0.25, 0))


def kinds(artifact: Artifact) -> list[str]:
    """Of parts that compute something."""
    found = []
    for part in artifact.parts:
        if isinstance(part, Launch):
            found.append("accelerator")
        elif isinstance(part, HostPart) and part.model:
            found.append("processor" if part.gpu is None else "gpu")
    return found


def compared(network: onnx.ModelProto, target: str) -> Artifact:
    """The artifact, whose results are those of the accelerator and the processor alone, with the
    GPU and without it."""
    artifact = Artifact.from_bytes(daedal.compile(network, target=target).to_bytes())
    x = {"x": np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)}
    (wanted,) = daedal.simulate(daedal.compile(network, "tiny"), x).outputs.values()
    for gpu in (EmulatedGpu(races=True, seed=0), None):
        found = daedal.simulate(artifact, x, gpu=gpu).outputs["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return artifact


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a GPU."""
    monkeypatch.setattr("daedal.api.find_gpu", lambda: None)


@pytest.mark.heavy(5)
def test_a_network_over_three_targets() -> None:
    """The processor quantizes the small input, the GPU has the convolutions of floats."""
    artifact = compared(large(), "tiny+gpu")
    assert kinds(artifact) == ["processor", "accelerator", "gpu"]
    wheres = [item.where for item in artifact.placements if item.op == "Conv"]
    assert wheres == ["accelerator", "gpu", "gpu"]
    (first,) = (item for item in artifact.placements if item.part == 0)
    assert (first.op, first.where) == ("QuantizeLinear", "host")
    assert first.why.startswith("host and accelerator meet here; the GPU would take 25.9 micro")
    lines = summary_lines(artifact)
    assert lines[0].startswith("5.9 % of ")
    assert any(line.startswith("on the GPU: ") and "Conv" in line for line in lines)


def test_what_is_not_worth_a_transfer_stays() -> None:
    artifact = compared(small(), "tiny+gpu")
    assert kinds(artifact) == ["processor", "accelerator", "processor"]
    assert not artifact.has_gpu_code
    whys = {item.op: item.why for item in artifact.placements}
    assert "the GPU would take" in whys["Softmax"]


@pytest.mark.heavy(5)
def test_a_node_that_a_gpu_has_no_kernel_for() -> None:
    artifact = compared(between(), "tiny+gpu:sm_90,emulated")
    expected = ["processor", "accelerator", "gpu", "processor", "gpu", "accelerator", "processor"]
    assert kinds(artifact) == expected
    (node,) = (item for item in artifact.placements if item.op == "Bernoulli")
    assert node.where == "host"
    assert node.why.endswith("; Bernoulli has no code, and is interpreted")


def test_rates_of_the_processor_decide() -> None:
    """A fast one keeps what is worth a transfer otherwise."""
    fast = HostRates(macs_per_cycle=1e6, elements_per_cycle=1e6)
    artifact = daedal.compile(large(), target="tiny+gpu", host=fast)
    assert not artifact.has_gpu_code and kinds(artifact)[0] == "processor"


@pytest.mark.heavy(5)
def test_for_the_emulator_alone_everything_is_the_gpus() -> None:
    artifact = compared(small(), "tiny+gpu:emulated")
    assert kinds(artifact) == ["gpu", "accelerator", "gpu"]
    assert {item.where for item in artifact.placements} <= {"gpu", "accelerator", "folded"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "by_cost", "in_all"),
    [("mlperf_tiny_vww_mobilenetv1", 1, 2), ("resnet20_cifar10", 0, 2), ("vit_mnist", 20, 22)],
)
@pytest.mark.parametrize("is_by_cost", [True, False])
def test_shared_networks(
    shared: Path, name: str, by_cost: int, in_all: int, is_by_cost: bool
) -> None:
    """The results of the accelerator and the processor alone. By cost, a GPU gets the image of
    MobileNet and what is between launches of the vision transformer; not small images and ends."""
    path = shared / "models" / name / "model_qdq.onnx"
    target = "vta+gpu" if is_by_cost else "vta+gpu:emulated"
    alone, split = daedal.compile(path, "vta"), daedal.compile(path, target=target)
    rng = np.random.default_rng(0)
    inputs = {item.name: rng.normal(size=item.shape).astype(np.float32) for item in alone.inputs}
    wanted = daedal.simulate(alone, inputs).outputs
    found = daedal.simulate(split, inputs, gpu=EmulatedGpu(seed=0)).outputs
    for output, array in wanted.items():
        np.testing.assert_allclose(found[output], array, rtol=1e-5, atol=1e-6)
    assert kinds(split).count("gpu") == (by_cost if is_by_cost else in_all)
