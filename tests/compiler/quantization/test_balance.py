"""Norms in a residual stream are balanced for the products that read them: the same results."""

from collections import Counter

import numpy as np
import onnx
import pytest

from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.quantization.float_model import FloatModel
from daedal.compiler.quantization.rewrites.balance import balance_norms

SHAPE = (1, 3, 8)

BLOCK = """
graph block {{
  input x: float32[1,3,8]
  const scale: float32[8] = [40, 1, 1, 1, -2, 1, 1, 1]
  const bias: float32[8] = ?
  const w: float32[8,8] = ?
  const b: float32[8] = ?
  const v: float32[8,8] = ?
  n: float32[1,3,8] = {norm} epsilon=1e-05
  r: float32[3,8] = reshape(n) shape=3,8
  h: float32[1,3,8] = dense(n, w, b) transposed=0
  k: float32[3,8] = dense(r, v) transposed=1
  l: float32[1,3,8] = reshape(k) shape=1,3,8
  m: float32[1,3,8] = add(h, l)
  y: float32[1,3,8] = {result}
  output y
}}
"""

NORMS = ["layer_norm(x, scale, bias)", "layer_norm(x, scale)", "rms_norm(x, scale)"]


def balanced(text: str, rng: np.random.Generator) -> tuple[Graph, Graph, dict[str, np.ndarray]]:
    """The graph before and after, which computes the same, and the last of its samples."""
    graph = parse_graph(text, rng=rng)
    feeds = [{"x": rng.normal(size=SHAPE).astype(np.float32)} for _ in range(4)]
    model = FloatModel(graph, graph.outputs, onnx.ModelProto(ir_version=10))
    after = balance_norms(model, feeds).graph
    for each in feeds:
        expected, found = run(graph, each)["y"], run(after, each)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    return graph, after, feeds[-1]


@pytest.mark.parametrize("norm", NORMS)
def test_products_read_a_norm_of_their_own(norm: str, rng: np.random.Generator) -> None:
    """Its largest channel does not set the steps of what the products read."""
    _, after, feeds = balanced(BLOCK.format(norm=norm, result="add(n, m)"), rng)
    assert Counter(node.op for node in after.nodes)[norm.partition("(")[0]] == 2
    own = after.producers["h"].inputs[0]
    assert after.producers[after.producers["k"].inputs[0]].inputs == (own,)
    assert after.producers["y"].inputs[0] == "n"
    values = run(after, feeds, ["n", own]).values()
    magnitudes = [np.abs(value).max(axis=(0, 1)) for value in values]
    before, behind = (float(item.max() / np.median(item)) for item in magnitudes)
    assert behind < before / 2


def test_a_norm_that_only_products_read_stays(rng: np.random.Generator) -> None:
    before, after, _ = balanced(BLOCK.format(norm=NORMS[0], result="add(x, m)"), rng)
    assert after == before


@pytest.mark.parametrize("norm", ["layer_norm(x, s)", "rms_norm(x, s)"])
def test_a_norm_whose_scale_is_computed_stays(norm: str, rng: np.random.Generator) -> None:
    computed = """
      q: float32[1,1,8] = slice(x) begins=0,0,0 ends=1,1,8 steps=1,1,1
      s: float32[8] = reshape(q) shape=8
      n:"""
    text = BLOCK.replace("  n:", computed)
    before, after, _ = balanced(text.format(norm=norm, result="add(n, m)"), rng)
    assert after == before


def test_a_view_with_other_rows_stays(rng: np.random.Generator) -> None:
    text = """
    graph rows {
      input x: float32[1,3,8]
      const scale: float32[8] = ?
      const w: float32[4,2] = ?
      n: float32[1,3,8] = rms_norm(x, scale) epsilon=1e-05
      r: float32[6,4] = reshape(n) shape=6,4
      y: float32[6,2] = dense(r, w) transposed=0
      z: float32[1,3,8] = add(n, x)
      output y
      output z
    }
    """
    before, after, _ = balanced(text, rng)
    assert after == before
