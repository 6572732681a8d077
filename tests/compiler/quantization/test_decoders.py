"""Rewrites of decoders: exact in float, and quantized so that caches and new rows share a scale."""

import numpy as np
import onnx
import pytest

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.graph.passes.lowering import attention_rule
from daedal.compiler.quantization import masks
from daedal.compiler.quantization.attentions import Attention
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.given import given_tensors, spread_given
from daedal.compiler.quantization.masks import bound_attention_masks
from daedal.compiler.quantization.plan import Plan
from daedal.compiler.quantization.rewrites.caches import MASKED as HIDDEN
from daedal.compiler.quantization.rewrites.caches import ROWS, align_caches
from daedal.compiler.quantization.rewrites.rotary import multiply_rotations
from daedal.compiler.quantization.rewrites.rotations import multiply_turned
from tests.compiler.quantization.float_networks import rewritten_model, simple_model
from tests.compiler.quantization.graph_rewrites import kinds, rewritten
from tests.support.decoders import SmallDecoder, feed_caches

DECODER = SmallDecoder()
REWRITES = {
    "caches": align_caches,
    "rotations": lambda graph: multiply_rotations(multiply_turned(graph)),
    "given": spread_given,
}


def graph_of(decoder: SmallDecoder) -> Graph:
    return simple_model(decoder.float_model()).graph


@pytest.mark.parametrize("rewrite", [*REWRITES.values(), *[tuple(REWRITES.values())]])
@pytest.mark.parametrize("decoder", [DECODER, SmallDecoder(heads=3, kv_heads=3, width=12, rows=16)])
def test_a_rewrite_keeps_what_a_decoder_computes(rewrite, decoder, rng) -> None:
    rewrites = rewrite if isinstance(rewrite, tuple) else (rewrite,)
    outputs = []
    tokens = rng.integers(0, decoder.vocabulary, decoder.rows).tolist()
    model = decoder.float_model()
    for each in (model, rewritten_model(model, *rewrites)):
        run, names = open_session(each), [item.name for item in each.graph.output]
        steps = feed_caches(
            decoder, lambda feeds, r=run, n=names: dict(zip(n, r(feeds), strict=True)), tokens
        )
        outputs.append([{name: value.copy() for name, value in step.items()} for step in steps])
    for before, after in zip(*outputs, strict=True):
        for name, value in before.items():
            np.testing.assert_allclose(after[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_caches_and_new_rows_fill_blocks(rng) -> None:
    graph = rewritten(graph_of(DECODER), rng, align_caches)
    joined = [node for node in graph.nodes if node.op == "concat" and "cache" in node.inputs[0]]
    assert len(joined) == 2 * DECODER.layers
    for node in joined:
        assert graph.types[node.output].shape[2] == 2 * ROWS
    masks = [node for node in graph.nodes if node.op == "concat" and len(node.inputs) == 4]
    assert len(masks) == 1, "all layers share the mask"


def test_whole_blocks_stay(rng) -> None:
    graph = rewritten(graph_of(SmallDecoder(rows=16)), rng, align_caches)
    assert kinds(graph).count("pad") == 2 * 2, "only the new rows are filled up"
    plain = graph_of(SmallDecoder(rotary=False))
    assert multiply_rotations(plain) is spread_given(plain) is plain


def test_one_matrix_rotates_all_heads_of_all_layers(rng) -> None:
    before = graph_of(DECODER)
    graph = rewritten(before, rng, multiply_turned, multiply_rotations)
    assert kinds(graph).count("Neg") == 0 < kinds(before).count("Neg")
    more = kinds(graph).count("matmul") - kinds(before).count("matmul")
    assert more == 2 * DECODER.layers
    products = [node for node in graph.nodes if node.op == "matmul"]
    squares = [node.inputs[1] for node in products if node.inputs[1].endswith(".matrix")]
    assert len(squares) == more and len(set(squares)) == 1
    (turn,) = (graph.constant(name) for name in graph.constants if name.endswith(".turn"))
    np.testing.assert_array_equal(turn @ turn, -np.eye(16))


def test_what_the_host_gives_has_the_shape_of_what_it_is_added_to(rng) -> None:
    graph = rewritten(graph_of(DECODER), rng, spread_given)
    expanded = [node.output for node in graph.nodes if node.attrs.get("op_type") == "Expand"]
    assert len(expanded) == 4, "cosines and sines, of queries and of keys"
    assert given_tensors(graph) >= {"cos", "sin", "mask", "token", *expanded}


def test_caches_share_the_scale_of_their_new_rows() -> None:
    model = onnx.load_from_string(DECODER.quantized())
    producers = {name: node for node in model.graph.node for name in node.output}
    for name in DECODER.caches:
        (quantized,) = (node for node in model.graph.node if name in node.input)
        read = producers[name.replace("cache", "new")]
        assert quantized.op_type == "QuantizeLinear" and read.op_type == "DequantizeLinear"
        assert quantized.input[1:] == read.input[1:]


def test_every_mask_of_attention_can_be_lowered() -> None:
    """A mask for all layers is any number of steps of one layer's scores, not a whole one."""
    assert 0.5 / masks._STEPS <= attention_rule._LARGEST_ERROR


MASKED = """
graph masked {{
  input x: float32[2,3,4,4]
  input mask: float32[{mask}]
  scores: float32[2,3,4,4] = relu(x)
  masked: float32[2,3,4,4] = add(scores, mask)
  y: float32[2,3,4,4] = softmax(masked) axes=3
  output y
}}
"""


@pytest.mark.parametrize(
    ("mask", "spread"), [("4,4", False), ("1,1,4,4", False), ("2,1,4,4", True), ("1,3,1,4", True)]
)
def test_a_mask_of_rows_and_columns_is_spread_by_the_accelerator(mask, spread, rng) -> None:
    """One for each sample of a batch, or for each head, is spread by the host."""
    graph = rewritten(MASKED.format(mask=mask), rng, spread_given)
    given = graph.types[graph.producers["masked"].inputs[1]]
    assert str(given) == f"float32[{'2,3,4,4' if spread else mask}]"


@pytest.mark.parametrize(("low", "high", "steps"), [(-30.0, 18.0, 64 / 128), (-1.0, 1.0, 1 / 4)])
def test_the_lowest_value_of_a_mask_hides_every_score(low, high, steps) -> None:
    """A hidden score is 16 below the lowest that counts; a step is 512 of scores or more."""
    mask = Attention("q", "k", "v", "s", "m", 1 / 8, "y", ("s", "y"))
    ranges = {"q": Range(-127 / 16, 0), "k": Range(-127 / 16, 0), "s": Range(low, high)}
    plan = Plan({"m": "m"}, frozenset(), attentions=(mask,))
    bound_attention_masks(plan, ranges)
    assert ranges["m"] == Range(-127 * steps, 0.0)


CACHED = """
graph cached {
  input cache: float32[1,1,5,4]
  input new: float32[1,1,2,4]
  const m: float32[1,1,2,7] = ?
  rows: float32[1,1,7,4] = concat(cache, new) axis=2
  keys: float32[1,1,4,7] = transpose(rows) order=0,1,3,2
  values: float32[1,1,7,4] = concat(cache, new) axis=2
  scores: float32[1,1,2,7] = matmul(new, keys)
  masked: float32[1,1,2,7] = add(scores, m)
  w: float32[1,1,2,7] = softmax(masked) axes=3
  y: float32[1,1,2,4] = matmul(w, values)
  output y
}
"""


def test_a_constant_mask_covers_caches_and_new_rows(rng) -> None:
    """Each of its columns stays with its row, and what fills the blocks is hidden."""
    before = parse_graph(CACHED, rng=rng)
    graph = rewritten(before, rng, align_caches)
    (mask,) = (graph.constant(name) for name in graph.constants if name.startswith("m."))
    given = before.constant("m")
    np.testing.assert_array_equal(mask[..., :5], given[..., :5])
    np.testing.assert_array_equal(mask[..., ROWS : ROWS + 2], given[..., 5:])
    assert np.count_nonzero(mask == HIDDEN) == 2 * (2 * ROWS - 7)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("output y", "output y\n  output w", id="weights that others read"),
        pytest.param("m: float32[1,1,2,7]", "m: float32[1,1,2,1]", id="a mask of whole rows"),
        pytest.param("m: float32[1,1,2,7]", "m: float32[]", id="a number instead of a mask"),
        pytest.param("values: float32[1,1,7,4] = concat(cache, new)",
                     "values: float32[1,1,7,4] = concat(new, cache)", id="new rows first"),
        pytest.param("rows: float32[1,1,7,4] = concat(cache, new)",
                     "rows: float32[1,1,7,4] = concat(half, new)", id="a computed cache"),
    ],
)  # fmt: skip
def test_other_attention_is_not_aligned(old, new, rng) -> None:
    text = CACHED.replace(old, new)
    half = "half: float32[1,1,5,4] = relu(cache)\n  rows:"
    graph = parse_graph(text.replace("rows:", half, 1) if "half" in text else text, rng=rng)
    assert align_caches(graph) is graph
