"""Every trained int8 QDQ network of ../shared/models, whole, for `vta`: its answers are as right as
onnxruntime's, and each of its operators is at most 1 from onnxruntime and from TFLite."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, integer_layers, processor_graph
from daedal.compiler.graph import Graph, extract, run
from daedal.isa.verifier import verify
from daedal.reports.artifact import share_of_macs
from tests.support.shared_models import MODELS, SharedModel

VTA = daedal.load_variant("vta")
MOVES = ("q_max_pool", "q_pad", "q_slice")
"""Operators that compute nothing."""

each_model = pytest.mark.parametrize(
    "model",
    # One worker compiles a model once for all its tests.
    [pytest.param(item, marks=pytest.mark.xdist_group(f"shared-{item.name}")) for item in MODELS],
    ids=lambda model: model.name,
)


@cache
def reference(path: Path) -> Graph:
    return processor_graph(path, VTA)


@cache
def compiled(path: Path) -> Artifact:
    return daedal.compile(path, VTA)


@each_model
def test_answers_are_as_right_as_those_of_onnxruntime(shared: Path, model: SharedModel) -> None:
    """Over all labelled inputs: half a point apart at most, or one image."""
    path, images, labels = model.path(shared), model.images(shared), model.labels(shared)
    artifact = compiled(path)
    verify(artifact.program)
    (source,) = artifact.inputs
    with np.errstate(divide="ignore"):  # LogSoftmax of logits far apart is minus infinity
        (output,) = daedal.simulate(artifact, {source.name: images}).outputs.values()
    answers = output.reshape(len(images), -1).argmax(axis=1)
    known = labels >= 0
    ours, theirs = (
        np.count_nonzero((found == labels)[known]) for found in (answers, model.classes(shared))
    )
    assert abs(ours - theirs) <= max(1, 0.005 * np.count_nonzero(known)), (ours, theirs)


@each_model
def test_every_layer_equals_the_reference(shared: Path, model: SharedModel) -> None:
    """And every multiplication runs on the accelerator, in one launch."""
    path = model.path(shared)
    artifact = compiled(path)
    (launch,) = artifact.launches
    assert share_of_macs(artifact) == 1
    (source,) = artifact.inputs
    with np.errstate(divide="ignore"):
        check = daedal.check_layers(artifact, path, {source.name: model.images(shared)[:3]})
    assert check.passed
    assert [item.layer for item in check.tensors if item.layer] == list(launch.layers)
    assert all(item.difference is not None for item in check.tensors)


@each_model
def test_operators_are_within_one_of_onnxruntime(shared: Path, model: SharedModel) -> None:
    """Each is fed the same inputs."""
    path = model.path(shared)
    graph = reference(path)
    images = model.images(shared)
    differences = compare_operators(onnx.load(path), graph, {graph.inputs[0]: images[:1]})
    assert len(differences) == len(list(integer_layers(graph)))
    for item in differences:
        assert item.largest <= (0 if item.op in MOVES else 1), item
        # As the models' authors found; one element of a small tensor is more.
        assert item.num_different <= max(1, 0.005 * item.num_elements), item


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: model.name)
def test_operators_are_within_one_of_tflite(shared: Path, model: SharedModel) -> None:
    """Each is fed TFLite's own tensors."""
    graph, golden = reference(model.path(shared)), model.golden(shared)
    data = np.load(model.path(shared).with_name("inputs.npz"))
    golden["input_q"] = data["x_q"][:2]
    layers = list(integer_layers(graph))
    assert {target for _, _, target in layers} <= set(golden)
    for _, sources, target in layers:
        part = extract(graph, sources, [target])
        for image in range(2):
            feeds = {name: golden[name][image].reshape(graph.types[name].shape) for name in sources}
            found = run(part, feeds)[target].astype(int)
            difference = np.abs(found - golden[target][image].reshape(found.shape))
            assert difference.max() <= 1, f"{target}, image {image}: {difference.max()} apart"
