"""Random models on compiled code agree with onnxruntime: `bench/correctness/fuzz_models.py` has
thousands.

A seed that fails: ``python bench/correctness/fuzz_models.py --seed S --count 1``.
"""

import numpy as np
import onnx
import pytest

from bench.correctness.fuzz_models import How, differences, minimized, results_of
from bench.correctness.random_models.graphs import RandomGraph, random_graph

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")

FEW = 30
CHECKED = 6
"""Of these, also with indices checked at run time, and with every kernel split among threads."""
HOW = (How(), How(checked=True, split=True))


def _check(seed: int, how: How = HOW[0]) -> None:
    graph = random_graph(seed)
    found, code = results_of(graph.model, graph.feeds, how)
    assert not differences(graph, found), f"seed {seed}"
    assert not code.interpreted, f"seed {seed}"


@pytest.mark.parametrize("seed", range(FEW))
def test_random_graph(seed: int) -> None:
    _check(seed)


@pytest.mark.parametrize("seed", range(CHECKED))
def test_random_graph_with_checked_indices(seed: int) -> None:
    _check(seed, HOW[1])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 10_300, 50))
def test_many_random_graphs(first: int) -> None:
    for seed in range(first, first + 50):
        _check(seed, HOW[seed % 2])


def test_graphs_are_valid_and_repeat() -> None:
    for seed in range(5):
        graph = random_graph(seed)
        onnx.checker.check_model(graph.model, full_check=True)
        assert random_graph(seed).model == graph.model
        assert 5 <= len(graph.model.graph.node) <= 40


def test_a_wrong_result_is_found_and_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relu is made wrong: the smallest model that fails is one Relu."""
    graph = next(graph for graph in map(random_graph, range(50)) if _has_relu(graph))

    def broken(model: onnx.ModelProto, feeds: dict[str, np.ndarray], how: How) -> object:
        found, code = results_of(model, feeds, how)
        relu = {node.output[0] for node in model.graph.node if node.op_type == "Relu"}
        return {name: array + (name in relu) for name, array in found.items()}, code

    monkeypatch.setattr("bench.correctness.fuzz_models.results_of", broken)
    assert [node.op_type for node in minimized(graph).graph.node] == ["Relu"]


def _has_relu(graph: RandomGraph) -> bool:
    return any(
        node.op_type == "Relu" and graph.values[node.output[0]].dtype == np.float32
        for node in graph.model.graph.node
    )
