"""Runs rewrites of float graphs in tests: what they compute stays the same."""

from collections.abc import Callable

import numpy as np
import onnx

from daedal.compiler.graph.graph import Array, Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.verifier import verify
from daedal.compiler.quantization.float_model import simplified
from daedal.compiler.quantization.operators import kind_of
from tests.compiler.quantization.float_networks import simple_model

__all__ = ["kinds", "rewritten"]


def rewritten(
    source: str | Graph | onnx.ModelProto,
    rng: np.random.Generator,
    *rewrites: Callable[[Graph], Graph],
) -> Graph:
    """The graph of a text or model, rewritten and simplified; its outputs are what they were."""
    if isinstance(source, str):
        source = parse_graph(source, rng=rng)
    before = source if isinstance(source, Graph) else simple_model(source).graph
    after = before
    for rewrite in rewrites:
        after = rewrite(after)
        verify(after)
        after = simplified(after)
    inputs = {name: _drawn(before.types[name], rng) for name in before.inputs}
    expected, found = run(before, inputs), run(after, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    return after


def kinds(graph: Graph) -> list[str]:
    """The operators of a graph, in order."""
    return [kind_of(node) for node in graph.nodes]


def _drawn(kind: TensorType, rng: np.random.Generator) -> Array:
    if kind.dtype == "float32":
        return rng.normal(size=kind.shape).astype(np.float32)
    return rng.integers(0, 10, kind.shape).astype(kind.dtype)
