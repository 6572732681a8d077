"""``daedal compile --shape``: shapes that a model leaves open."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from tests.support.command_line import Run, refuses


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The row sums of x beside a mask of the same open length."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 3])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", "length", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    nodes = [
        helper.make_node("Mul", ["x", "mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axes"], ["y"], keepdims=0),
    ]
    axes = onnx.numpy_helper.from_array(np.array([1], np.int64), "axes")
    graph = helper.make_graph(nodes, "sums", [x, mask], [y], [axes])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_shapes_bind(run: Run, model: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    arguments = ("compile", model, "--target", "cpu", "--shape", "x=1x5x3", "-o", target)
    status, _, err = run(*arguments)
    assert status == 0, err
    status, out, _ = run("inspect", target)
    assert status == 0
    assert out.splitlines()[:4] == [
        "for processors alone",
        "input x: 1x5x3",
        "input mask: 1x5x1",
        "output y: 1x3",
    ]
    report = json.loads(run("inspect", target, "--json")[1])
    assert report["inputs"][0] == {"name": "x", "shape": [1, 5, 3]}
    rng = np.random.default_rng(0)
    feeds = {"x": rng.random((2, 5, 3), np.float32), "mask": rng.random((2, 5, 1), np.float32)}
    np.savez(tmp_path / "in.npz", **feeds)
    status, _, err = run("run", target, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert status == 0, err
    with np.load(tmp_path / "out.npz") as found:
        wanted = (feeds["x"] * feeds["mask"]).sum(1)
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-5)


def test_shapes_in_python(model: Path) -> None:
    shapes = {"x": (4, 2, 3), "mask": (4, 2, 1)}
    artifact = daedal.compile(model, target="cpu", shapes=shapes)
    assert {item.name: item.shape for item in artifact.inputs} == shapes
    ones = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    assert daedal.simulate(artifact, ones).outputs["y"].tolist() == [[2.0] * 3] * 4


WRONG = [
    (("--shape", "z=1x2"), "'z' is none; its inputs are 'x', 'mask'"),
    (("--shape", "x=1x2"), "must have 3 dimensions, as the model says, not 2 (1x2)"),
    (("--shape", "x=1x5x4"), "dimension 2 of input 'x' must be 3"),
    (("--shape", "x=1xax3"), "a shape must be NAME=1x3x224x224"),
    (("--shape", "1x5x3"), "a shape must be NAME=1x3x224x224"),
    (("--shape", "x=-1x5x3"), "a shape must be NAME=1x3x224x224"),
    (("--shape", "x=0x5x3"), "from 1 to 2147483647, not 0x5x3"),
    (("--shape", "x=1x5x3", "--shape", "x=1x6x3"), "'x' is given two"),
    ((), "give those of inputs with --shape, or fix them at export"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_shapes(
    run: Run, model: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    target = tmp_path / "x.daedal"
    refuses(run("compile", model, "--target", "cpu", *options, "-o", target), message)
    assert not target.exists()
