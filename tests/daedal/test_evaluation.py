"""`daedal.evaluate`: figures computed by hand, and one sentence for what does not fit."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from daedal.common.errors import UserError
from tests.support.command_line import Run, refuses

SCORES = np.array(
    [[3, 1, 0], [0, 2, 1], [1, 0, 5], [2, 1, 0], [0, 1, 4], [1, 7, 0]], dtype=np.float32
)
CLASSES = np.array([0, 1, 2, 0, 1, 1])
"""The fifth is not the one with the largest score."""


def shifted(step: float, outputs: tuple[str, ...] = ("y",)) -> bytes:
    """A model that adds `step` to the second of three scores."""
    step_vector = helper.make_tensor("step", TensorProto.FLOAT, [3], [0, step, 0])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "step"], [name]) for name in outputs],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in outputs],
        [step_vector],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def shifted_maps(step: float, channels: int) -> bytes:
    """A model that adds `step` to the last of the channels of a map of 3 x 5 pixels."""
    values = [0.0] * (channels - 1) + [step]
    types = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, 3, 5]) for name in "xy"
    ]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "step"], ["y"])],
        "g",
        types[:1],
        types[1:],
        [helper.make_tensor("step", TensorProto.FLOAT, [channels, 1, 1], values)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_figures_are_those_of_the_definition() -> None:
    found = daedal.evaluate(
        shifted(1.5), {"x": SCORES}, reference=shifted(0), labels=CLASSES.reshape(6, 1)
    )
    assert found.items == 6
    (output,) = found.outputs
    assert output.name == "y"
    assert output.signal == pytest.approx(np.square(SCORES.astype(np.float64)).mean())
    assert output.noise == pytest.approx(1.5**2 / 3)
    assert output.snr_db == pytest.approx(10 * math.log10(output.signal / output.noise))
    assert output.largest == pytest.approx(1.5)
    assert output.same_class == pytest.approx(5 / 6), "the fourth item is another class now"
    assert (found.accuracy.right, found.accuracy.count) == (4, 6)
    assert (found.reference_accuracy.right, found.reference_accuracy.count) == (5, 6)
    assert (found.only_model, found.only_reference) == (0, 1)
    assert found.accuracy.error == pytest.approx(math.sqrt(4 / 6 * 2 / 6 / 6))


def test_classes_of_maps_are_their_channels() -> None:
    # Two channels for each pixel, as a segmentation has them; the second one becomes larger.
    maps = np.random.default_rng(0).normal(size=(4, 2, 3, 5)).astype(np.float32)
    found = daedal.evaluate(
        shifted_maps(1.0, 2), {"x": maps}, reference=shifted_maps(0, 2), labels=maps.argmax(axis=1)
    )
    moved = maps + np.array([0, 1], np.float32).reshape(2, 1, 1)
    right = (moved.argmax(axis=1) == maps.argmax(axis=1)).mean()
    assert 0.5 < right < 1
    assert found.outputs[0].same_class == pytest.approx(right)
    assert found.accuracy.share == pytest.approx(right) and found.reference_accuracy.share == 1


def test_an_image_has_no_classes() -> None:
    maps = np.zeros((2, 1, 3, 5), np.float32)
    found = daedal.evaluate(shifted_maps(1, 1), {"x": maps}, reference=shifted_maps(0, 1))
    assert found.outputs[0].same_class is None


def test_a_model_beside_itself_differs_in_nothing() -> None:
    found = daedal.evaluate(shifted(0), {"x": SCORES}, reference=shifted(0))
    assert found.outputs[0].snr_db == math.inf
    assert (found.accuracy, found.reference_accuracy) == (None, None)


def test_indices_are_no_signals() -> None:
    """Of integers of 64 bits, it says how many are equal."""
    models = []
    for step in (0.0, 1.5):
        model = onnx.ModelProto.FromString(shifted(step))
        model.graph.node.append(helper.make_node("ArgMax", ["y"], ["best"], axis=1))
        value = helper.make_tensor_value_info("best", TensorProto.INT64, [1, 1])
        model.graph.output[0].CopyFrom(value)
        models.append(model)
    (output,) = daedal.evaluate(models[1], {"x": SCORES}, reference=models[0]).outputs
    assert (output.equal, output.same_class) == (pytest.approx(5 / 6), None)
    (scores,) = daedal.evaluate(shifted(1.5), {"x": SCORES}, reference=shifted(0)).outputs
    assert scores.equal is None


def test_labels_alone_are_enough() -> None:
    found = daedal.evaluate(shifted(0), {"x": SCORES}, labels=CLASSES)
    assert found.outputs == () and found.reference_accuracy is None
    assert found.accuracy.share == pytest.approx(5 / 6)


def test_an_output_is_chosen_by_name() -> None:
    model = shifted(0, ("y", "z"))
    assert daedal.evaluate(model, {"x": SCORES}, labels=CLASSES, output="z").accuracy.right == 5
    with pytest.raises(UserError, match="one of 'y', 'z', not None"):
        daedal.evaluate(model, {"x": SCORES}, labels=CLASSES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give a reference model, labels, or both"),
        ({"labels": CLASSES[:4]}, "labels must be 6 integers, .* not 4 of type int64"),
        ({"labels": CLASSES.astype(float)}, "not 6 of type float64"),
        ({"labels": CLASSES + 1}, "labels must be from 0 to 2, .* not 1 to 3"),
        ({"reference": shifted(0, ("z",))}, r"not 'y' \(6, 3\) against 'z' \(6, 3\)"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        daedal.evaluate(shifted(0), {"x": SCORES}, **options)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, a reference, and data with labels."""
    paths = tuple(tmp_path / name for name in ("model.onnx", "reference.onnx", "data.npz"))
    paths[0].write_bytes(shifted(1.5))
    paths[1].write_bytes(shifted(0))
    np.savez(paths[2], x=SCORES, classes=CLASSES)
    return paths


def test_the_command_prints_both_tables(run: Run, files: tuple[Path, Path, Path]) -> None:
    model, reference, data = files
    status, out, err = run(
        "evaluate", model, "-d", data, "--against", reference, "--labels", "classes"
    )
    assert status == 0, err
    assert "6 items, model.onnx against reference.onnx" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["y", "9.2", "dB", "1.5", "83.33%"] in rows
    assert ["model.onnx", "4", "of", "6", "66.67%", "19.25%"] in rows
    assert ["reference.onnx", "5", "of", "6", "83.33%", "15.21%"] in rows
    assert "right in one alone: 0 in model.onnx, 1 in reference.onnx" in out


def test_its_json_has_the_same(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, _, data = files
    status, out, _ = run(
        "evaluate", model, "-d", data, "--against", model, "--labels", "classes", "--json"
    )
    assert status == 0
    record = json.loads(out)
    assert record["outputs"][0]["snr_db"] is None and record["outputs"][0]["noise"] == 0
    assert record["accuracy"]["right"] == 4
    assert record["accuracy"]["share"] == pytest.approx(4 / 6)


def test_bad_names_are_one_sentence(run: Run, files: tuple[Path, Path, Path]) -> None:
    model, _, data = files
    refuses(run("evaluate", model, "-d", data, "--labels", "y"), "one of 'x', 'classes', not 'y'")
    refuses(run("evaluate", model, "-d", data, "--labels", "classes", "--scores", "q"), "not 'q'")


@pytest.mark.heavy(10)
def test_an_artifact_is_run_on_its_machine() -> None:
    """The digits network in integers, compared with the float model."""
    from examples.digits.data import demo_images

    images, labels = demo_images(4)
    folder = Path(__file__).resolve().parents[2] / "examples" / "digits"
    artifact = daedal.compile(folder / "digits_qdq.onnx", "tiny")
    found = daedal.evaluate(
        artifact, {"input": images}, reference=folder / "digits.onnx", labels=labels
    )
    assert found.accuracy.right == found.reference_accuracy.right == 4
    assert 15 < found.outputs[0].snr_db < 80
