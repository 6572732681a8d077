"""A network split over the accelerator, the processor, and a target that only tests have."""

from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart, Launch, TargetPart
from daedal.common.errors import ArtifactError, ModelError
from daedal.compiler.targets import target as targets
from daedal.reports.inspection import inspection_json, print_inspection
from daedal.runtime import target_parts
from tests.support.third_target import FUNCTIONS, NAME, NumpyPart, NumpyTarget, Own

SHAPE = (1, 8, 6, 6)


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_TARGETS", {})
    monkeypatch.setattr(target_parts, "_LOADERS", {})
    monkeypatch.setattr(Own, "fetched", [])
    daedal.add_target(NumpyTarget(), NumpyPart)


def begin(maker: QdqModel) -> str:
    """A convolution for the accelerator that rounds nothing: sums of two channels, halved scale."""
    x = maker.requantized(maker.input("x", SHAPE), 0.0625, -3)
    pairs = np.eye(8, dtype=np.int8) + np.eye(8, k=1, dtype=np.int8)
    w = maker.weights(pairs[:, :, np.newaxis, np.newaxis], 0.5)
    return maker.requantized(maker.op("Conv", x, w), 0.03125, 0)


def model() -> onnx.ModelProto:
    """Floats after a convolution: the third target computes a sum, and later its product with a
    Softmax of the processor."""
    maker = QdqModel()
    y = begin(maker)
    first = maker.op("Add", maker.op("Relu", y), maker.constant(np.full(SHAPE, 0.5, np.float32)))
    return maker.model(maker.op("Mul", maker.op("Softmax", first), first, output="z"))


def test_a_network_over_three_targets(third: None, rng: np.random.Generator, tmp_path: Path):
    network = model()
    path = tmp_path / "split.daedal"
    daedal.compile(network, "tiny").save(path)
    artifact = Artifact.load(path)
    first, second = (part for part in artifact.parts if isinstance(part, TargetPart))
    assert {HostPart, Launch} <= {type(part) for part in artifact.parts}
    wheres = {item.op: item.where for item in artifact.placements}
    assert wheres["Conv"] == "accelerator"
    assert wheres["Softmax"] == "host"
    assert wheres["Relu"] == wheres["Add"] == wheres["Mul"] == NAME
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    split = daedal.simulate(artifact, inputs)
    alone = daedal.simulate(daedal.compile(network, target="cpu"), inputs)
    np.testing.assert_array_equal(split.outputs["z"], alone.outputs["z"])
    (stays,) = set(first.outputs) & set(second.inputs)
    # The processor fetches it for its Softmax, and the second part gets it as it was kept.
    assert Own.fetched == [stays, "z"]


def test_an_edge_that_only_the_target_reads_is_never_fetched(third: None, rng: np.random.Generator):
    maker = QdqModel()
    y = begin(maker)
    kept = maker.op("Sub", y, maker.constant(np.full(SHAPE, 0.25, np.float32)))
    network = maker.model(maker.op("Mul", maker.op("Softmax", y), kept, output="z"))
    artifact = daedal.compile(network, "tiny")
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    split = daedal.simulate(artifact, inputs)
    alone = daedal.simulate(daedal.compile(network, target="cpu"), inputs)
    np.testing.assert_array_equal(split.outputs["z"], alone.outputs["z"])
    assert Own.fetched == ["z"]


def test_the_time_of_another_target_is_not_known(third: None):
    report = daedal.inspect(daedal.compile(model(), "tiny"))
    assert report.seconds is None
    told = [part for part in inspection_json(report)["parts"] if part["kind"] == "target"]
    assert [part["target"] for part in told] == [NAME, NAME]
    written = StringIO()
    print_inspection(Console(file=written, width=200), report)
    assert NAME in written.getvalue()


def test_an_artifact_of_an_unknown_target(third: None, monkeypatch: pytest.MonkeyPatch):
    artifact = daedal.compile(model(), "tiny")
    monkeypatch.setattr(target_parts, "_LOADERS", {})
    with pytest.raises(ArtifactError, match=r"not 'numpy'; make it known with `daedal.add_target`"):
        daedal.simulate(artifact, {"x": np.zeros(SHAPE, np.float32)})


def test_a_tensor_that_the_model_does_not_have_is_refused(
    third: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FUNCTIONS, "dequantize", np.multiply)
    monkeypatch.setattr(
        NumpyTarget, "lacks", lambda _self, _graph, node: "" if node.op == "dequantize" else "no"
    )
    with pytest.raises(ModelError, match="must exchange tensors of the model"):
        daedal.compile(model(), "tiny")
