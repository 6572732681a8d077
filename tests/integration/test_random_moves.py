"""Random quantized models that mostly move elements: every pass ends and keeps every value.

`bench/correctness/fuzz_split.py --quantized` has thousands, and runs them. A seed that fails:
``python bench/correctness/fuzz_split.py --quantized --seed S --count 1``.
"""

import numpy as np
import pytest

from bench.correctness.random_models.graphs import quantized_graph
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run, verify
from daedal.compiler.pipeline import layout_passes, lowering_passes
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
NODES = 24


@pytest.mark.parametrize("seed", range(12))
def test_passes_keep_the_values_of_moved_tensors(seed: int) -> None:
    """A pass that does not end warns, which is an error here."""
    random = quantized_graph(seed, NODES)
    graph = load_onnx(random.model.SerializeToString())
    for _, run_pass in lowering_passes(TINY):
        graph = run_pass(graph)
        verify(graph)
    feeds = {name: random.feeds[name] for name in graph.inputs}
    expected = run(graph, feeds)
    for _, run_pass in layout_passes(TINY, (), ()):
        graph = run_pass(graph)
        verify(graph)
    found = run(graph, {name: feeds[name] for name in graph.inputs})
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name)
