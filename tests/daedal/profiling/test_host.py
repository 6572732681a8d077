"""Calls of compiled code: what they compute and move, and that each has a time."""

import json
import platform
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import ArtifactError, UserError
from daedal.profiling import host
from daedal.profiling.host import CallProfile, profile_host
from daedal.reports.host_calls import calls_json, calls_note
from tests.support.command_line import Run, refuses

ROWS, DEPTH, COLUMNS = 8, 24, 40
node = helper.make_node


def network() -> bytes:
    """A product, a sum with an input, a Concat of both, and an operator without code."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.normal(size=(DEPTH, COLUMNS)).astype(np.float32), "w")
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Concat", ["a", "x"], ["c"], axis=1),
        node("NonZero", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (ROWS, DEPTH))],
        [
            helper.make_tensor_value_info("c", TensorProto.FLOAT, (ROWS, COLUMNS + DEPTH)),
            helper.make_tensor_value_info("y", TensorProto.INT64, (2, "n")),
        ],
        [weights],
    )
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return bytes(model.SerializeToString())


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_SECONDS", 0.0)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(network(), target="cpu")


def _of(calls: tuple[CallProfile, ...], operator: str) -> list[CallProfile]:
    return [item for item in calls if operator in item.operators]


def test_what_calls_compute_and_move(artifact: Artifact) -> None:
    found = profile_host(artifact)
    assert found.level in artifact.host_parts[0].objects
    products = [item for item in found.calls if item.products]
    assert [item.products for item in products] == [ROWS * DEPTH * COLUMNS]
    assert products[0].bytes_moved >= 4 * (ROWS * DEPTH + DEPTH * COLUMNS)
    assert _of(found.calls, "Concat") and all("c" in x.names for x in _of(found.calls, "Concat"))
    (left,) = (item for item in found.calls if not item.compiled)
    assert (left.operators, left.names, left.bytes_moved) == (("NonZero",), (), 0)
    assert all(item.seconds > 0 for item in found.calls)
    assert found.seconds == sum(item.seconds for item in found.calls)
    assert "interpreted" in calls_note(found)


@pytest.mark.slow
def test_layers_of_an_integer_network_have_the_models_names() -> None:
    """Blocked maps and packed rows, too, which the model does not have."""
    found = profile_host(daedal.compile("examples/digits/digits_qdq.onnx", target="cpu"))
    assert all(item.names for item in found.calls)
    assert sum(item.products > 0 for item in found.calls) >= 4


def test_profile_of_an_artifact_for_processors(
    run: Run, artifact: Artifact, tmp_path: Path
) -> None:
    path, target = tmp_path / "x.daedal", tmp_path / "profile.json"
    artifact.save(path)
    status, out, err = run("profile", path, "-o", target)
    assert status == 0, err
    assert "by one thread" in out and "MatMul" in out and "7,680" in out
    document = json.loads(target.read_text())
    assert document["threads"] == 1 and len(document["calls"]) > 2
    status, out, err = run("profile", path, "--device", "cpu", "--json")
    assert status == 0, err
    names = [item["names"] for item in json.loads(out)["calls"]]
    assert names == [item["names"] for item in document["calls"]]
    assert set(calls_json(profile_host(artifact))) == set(document)
    refuses(run("profile", path, "--layer", "a"), "of an accelerator")
    refuses(run("profile", path, "--option", "a=1"), "not for cpu")


def test_parts_of_the_host_beside_an_accelerator(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.daedal"
    daedal.compile("examples/digits/digits_qdq.onnx", "tiny").save(path)
    status, out, err = run("profile", path, "--device", "cpu", "--json")
    assert status == 0, err
    assert {item["part"] for item in json.loads(out)["calls"]} == {0, 2}


def test_profiles_that_are_refused() -> None:
    with pytest.raises(UserError, match="must have code for one, and this has none"):
        profile_host(daedal.compile(network(), target="cpu", cpu_levels=()))
    other = "x86-64" if platform.machine() == "aarch64" else "aarch64"
    made = daedal.compile(network(), target="cpu", cpu_levels=[other])
    with pytest.raises(ArtifactError, match=f"has code for {other}, not for this one"):
        profile_host(made)
