"""A concat of constant tokens and others becomes a pad and a part of the positions, exactly."""

import numpy as np
import pytest

from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.quantization.rewrites.tokens import pad_tokens

TOKENS = """
graph tokens {{
  input x: float32[2,3,4]
  const first: float32[2,1,4] = ?
  const last: float32[2,2,4] = ?
  const positions: float32[1,{rows},4] = ?
  t: float32[2,{rows},4] = concat({parts}) axis=1
  y: float32[2,{rows},4] = add({operands})
  output y
}}
"""


@pytest.mark.parametrize(
    ("parts", "pads"),
    [
        ("first, x", (0, 1, 0, 0, 0, 0)),
        ("x, last", (0, 0, 0, 0, 2, 0)),
        ("first, x, last", (0, 1, 0, 0, 2, 0)),
        ("first, last, x, first", (0, 3, 0, 0, 1, 0)),
    ],
)
@pytest.mark.parametrize("operands", ["t, positions", "positions, t"])
def test_tokens_are_padding(
    parts: str, pads: tuple[int, ...], operands: str, rng: np.random.Generator
) -> None:
    rows = 3 + pads[1] + pads[4]
    graph = parse_graph(TOKENS.format(rows=rows, parts=parts, operands=operands), rng=rng)
    after = pad_tokens(graph)
    assert [node.op for node in after.nodes] == ["pad", "add"]
    assert after.nodes[0].inputs == ("x",) and after.nodes[0].attrs["pads"] == pads
    feeds = {"x": rng.normal(size=(2, 3, 4)).astype(np.float32)}
    np.testing.assert_allclose(run(after, feeds)["y"], run(graph, feeds)["y"], rtol=1e-6)


def test_computed_tokens_and_joined_channels_stay(rng: np.random.Generator) -> None:
    """And rows of maps."""
    graph = parse_graph(
        """
        graph joined {
          input x: float32[1,3,4]
          input m: float32[1,2,2,4]
          const side: float32[1,3,2] = ?
          const a: float32[1,6,4] = ?
          const b: float32[1,3,6] = ?
          const maps: float32[1,2,2,4] = ?
          const d: float32[1,3,2,4] = ?
          t: float32[1,6,4] = concat(x, x) axis=1
          u: float32[1,3,6] = concat(x, side) axis=2
          s: float32[1,1,2,4] = slice(m) begins=0,0,0,0 ends=1,1,2,4 steps=1,1,1,1
          r: float32[1,3,2,4] = concat(s, maps) axis=1
          q: float32[1,3,2,4] = add(r, d)
          y: float32[1,6,4] = add(t, a)
          z: float32[1,3,6] = add(u, b)
          output q
          output y
          output z
        }
        """,
        rng=rng,
    )
    assert pad_tokens(graph) is graph


def test_tokens_without_positions_are_padding(rng: np.random.Generator) -> None:
    """As in BEiT, or where something else reads them, or a sum repeats them."""
    text = TOKENS.format(rows=4, parts="first, x", operands="t, positions")
    graph = parse_graph(text.replace("output y", "output t\n  output y"), rng=rng)
    after = pad_tokens(graph)
    assert [node.op for node in after.nodes] == ["pad", "add", "add"]
    feeds = {"x": rng.normal(size=(2, 3, 4)).astype(np.float32)}
    for name, value in run(graph, feeds).items():
        np.testing.assert_allclose(run(after, feeds)[name], value, rtol=1e-6)
