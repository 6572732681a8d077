"""The bench of random quantized models: its models, and what it says of those that fail."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.correctness import fuzz_quantized
from bench.correctness.fuzz_quantized import failure_of, main, variant_of
from bench.correctness.random_models.qdq import qdq_graph
from daedal.artifact.artifact import Artifact
from daedal.common.errors import ModelError

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")

SIMPLE = 6
"""A seed of few layers."""
LARGE_KERNEL = 47
"""A seed with pads of 1 that fit the kernel of an average pool."""


def test_graphs_are_valid_and_repeat() -> None:
    for seed in range(4):
        graph = qdq_graph(seed)
        onnx.checker.check_model(graph.model, full_check=True)
        assert qdq_graph(seed).model == graph.model
        assert {"QuantizeLinear", "DequantizeLinear"} <= {
            node.op_type for node in graph.model.graph.node
        }


def test_no_average_pool_is_larger_than_its_padded_map() -> None:
    """onnxruntime has two results for such pools, by opset."""
    model = onnx.shape_inference.infer_shapes(qdq_graph(LARGE_KERNEL).model)
    shapes = {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in model.graph.value_info
    }
    pools = [node for node in model.graph.node if node.op_type == "AveragePool"]
    for node in pools:
        attributes = {item.name: list(item.ints) for item in node.attribute}
        extents = shapes[node.input[0]][2:]
        pads = attributes.get("pads", [0] * 2 * len(extents))
        for axis, kernel in enumerate(attributes["kernel_shape"]):
            assert kernel <= extents[axis] + pads[axis] + pads[axis + len(extents)]


def test_seeds_draw_all_variants() -> None:
    assert {variant_of(seed) for seed in range(100)} == set(fuzz_quantized.VARIANTS)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3000, 3060, 10))
def test_models_that_agree(first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.json"
    status = main(["--seed", str(first), "--count", "10", "--json", str(path)])
    assert status == 0, capsys.readouterr().out
    assert [item["seed"] for item in json.loads(path.read_text())] == [*range(first, first + 10)]


def test_a_host_tensor_that_is_not_onnxruntimes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = qdq_graph(SIMPLE)
    monkeypatch.setattr(
        fuzz_quantized, "run_onnxruntime", lambda *_: [np.full((1,), 3, np.float16)]
    )
    assert "host '" in failure_of(graph.model, graph.feeds, graph.values, "tiny")[1]


@pytest.mark.parametrize("error", [ModelError("no"), KeyError("x")])
def test_what_is_refused_and_what_fails(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that the compiler refuses does not fail; any other error does."""

    def refuse(*_: object) -> tuple[Artifact, str]:
        raise error

    monkeypatch.setattr(fuzz_quantized, "failure_of", refuse)
    result = fuzz_quantized._result(SIMPLE, "")
    refused = isinstance(error, ModelError)
    assert (result["refused"] == "no") == refused
    assert bool(result["failure"]) != refused
    fuzz_quantized._show([result])
    assert f"{int(refused)} refused" in capsys.readouterr().out


def test_mistakes_on_the_command_line() -> None:
    for arguments in (["--count", "0"], ["--seed", "-1"], ["--variant", "none"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
