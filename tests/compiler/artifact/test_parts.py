"""Artifacts with parts of one target in a row, which the executor runs in order."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.compiler.graph.ops import get_op, registry
from daedal.compiler.targets import target as targets
from daedal.compiler.targets.cpu import Cpu

SHAPE = (1, 5, 6, 6)


def conv(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    w = maker.weights(rng.integers(-127, 128, (5, 5, 3, 3)).astype(np.int8), 0.01)
    return maker.quantize(maker.op("Conv", x, w, pads=[1, 1, 1, 1]), 0.08, 3)


class Second(Cpu):
    name = "second"
    title = "a processor that only this test has"


def test_host_parts_in_a_row(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, tmp_path: Path
) -> None:
    """A second processor runs the softmax; what comes before and after it is still the first's."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    soft = maker.op("Softmax", maker.dequantize(conv(maker, rng, x), 0.08, 3), axis=1)
    y = maker.dequantize(conv(maker, rng, maker.requantized(soft, 0.004, -128)), 0.08, 3)
    maker.op("Relu", maker.op("Softmax", y, axis=1), output="y")
    model = maker.model("y").SerializeToString()
    usual = daedal.compile(model, "tiny", host=None, cpu_levels=())
    definition = get_op("softmax")
    monkeypatch.setattr(targets, "_TARGETS", {})
    targets.add_target(Second())
    changed = dataclasses.replace(definition, targets=(Second.name,))
    monkeypatch.setitem(registry._REGISTRY, "softmax", changed)
    artifact = daedal.compile(model, "tiny", host=None, cpu_levels=())
    kinds = [type(part) for part in artifact.parts]
    assert kinds == [HostPart, Launch, *[HostPart] * 3, Launch, *[HostPart] * 3]
    artifact.save(tmp_path / "model.daedal")
    artifact = Artifact.load(tmp_path / "model.daedal")
    feeds = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    (found,) = daedal.simulate(artifact, feeds).outputs.values()
    (expected,) = daedal.simulate(usual, feeds).outputs.values()
    np.testing.assert_array_equal(found, expected)
    # Every node is in one part.
    models = [part.model for part in artifact.host_parts if part.model]
    nodes = [n.op_type for m in models for n in onnx.ModelProto.FromString(m).graph.node]
    assert nodes.count("Softmax") == 2 and nodes.count("Relu") == 1


def test_launches_in_a_row(rng: np.random.Generator, tmp_path: Path) -> None:
    """The parts before a tensor and those after it, one after the other, are the whole."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    middle = conv(maker, rng, x)
    y = conv(maker, rng, maker.dequantize(middle, 0.08, 3))
    maker.op("Relu", maker.dequantize(y, 0.08, 3), output="y")
    model = maker.model("y").SerializeToString()
    whole = daedal.compile(model, "tiny", cpu_levels=())
    first = daedal.compile(model, "tiny", to_tensors=[middle], cpu_levels=())
    second = daedal.compile(model, "tiny", from_tensors=[middle], cpu_levels=())
    parts = [part for item in (first, second) for part in item.parts]
    artifact = Artifact(
        tuple(part for part in parts if isinstance(part, Launch) or part.model),
        first.inputs,
        second.outputs,
    )
    assert [type(part) for part in artifact.parts] == [HostPart, Launch, Launch, HostPart]
    artifact.save(tmp_path / "model.daedal")
    artifact = Artifact.load(tmp_path / "model.daedal")
    feeds = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    result = daedal.simulate(artifact, feeds)
    np.testing.assert_array_equal(result.outputs["y"], daedal.simulate(whole, feeds).outputs["y"])
    assert len(daedal.inspect(artifact).launches) == 2
