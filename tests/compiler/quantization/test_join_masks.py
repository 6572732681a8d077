"""Constants that are added to the scores of attention become one."""

from typing import Any

import numpy as np
import onnx
import pytest

from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph.interpreter import run
from daedal.compiler.quantization.float_model import simplified
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.join_masks import join_masks
from tests.compiler.quantization.float_networks import simple_model
from tests.compiler.quantization.float_transformers import HEADS, TOKENS, WIDTH, FloatTransformer

SHAPE = (3, HEADS, TOKENS, WIDTH)


def joined(model: onnx.ModelProto, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """The operators before and after the rewrite, which computes the same."""
    before = simple_model(model).graph
    after = simplified(join_masks(before))
    feeds = {name: rng.normal(size=SHAPE).astype(np.float32) for name in ("q", "k")}
    expected = dict(zip(before.outputs, run_onnxruntime(model, feeds), strict=True))
    with np.errstate(invalid="ignore"):  # of queries without scores
        results = run(after, feeds)
    for name, found in results.items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-6)
    return [kind_of(node) for node in before.nodes], [kind_of(node) for node in after.nodes]


def scores_of(net: FloatTransformer) -> str:
    """Scores of three windows with two heads each."""
    query, key = (net.input(name, SHAPE) for name in ("q", "k"))
    return net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))


def biased(net: FloatTransformer, scores: str) -> str:
    """As in Swin: a bias for each head, then a mask for each window, on a view."""
    scores = net.op("Add", scores, net.normal(1, HEADS, TOKENS, TOKENS))
    view = net.op("Reshape", scores, net.whole(1, 3, HEADS, TOKENS, TOKENS))
    view = net.op("Add", net.normal(1, 3, 1, TOKENS, TOKENS), view)
    return net.op("Reshape", view, net.whole(3, HEADS, TOKENS, TOKENS))


def hidden(net: FloatTransformer, scores: str, turned: bool) -> str:
    """As in GPT-2: a Where of the scores that count."""
    later = np.triu(np.ones((1, 1, TOKENS, TOKENS), bool), 1)
    low = net.number(-3e38)
    condition = net.constant(later if turned else ~later)
    return net.op("Where", condition, *((low, scores) if turned else (scores, low)))


@pytest.mark.parametrize("kind", ["biased", "hidden", "turned", "both"])
def test_constants_added_to_scores_become_one(kind: str, rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    scores = scores_of(net)
    if kind in ("biased", "both"):
        scores = biased(net, scores)
    if kind != "biased":
        scores = hidden(net, scores, turned=kind == "turned")
    model = net.model(net.op("Softmax", scores, axis=-1, output="y"))
    _, after = joined(model, rng)
    assert after == ["transpose", "matmul", "add", "softmax"]


@pytest.mark.parametrize("counts", [True, False])
def test_a_guard_against_rows_without_scores_goes_where_there_are_none(
    counts: bool, rng: np.random.Generator
) -> None:
    """The guard gives 0 for the weights of a query all of whose keys are hidden."""
    net = FloatTransformer(rng)
    mask = np.triu(np.full((TOKENS, TOKENS), -np.inf, np.float32), 1)
    mask[2] = mask[2] if counts else -np.inf
    weights = net.op("Softmax", net.op("Add", scores_of(net), net.constant(mask)), axis=-1)
    net.op("Where", net.op("IsNaN", weights), net.number(0), weights, output="w")
    net.op("Abs", "w", output="y")
    model = net.model("y")
    before, after = joined(model, rng)
    guards = {"Where", "IsNaN"}
    assert guards <= {*before} and guards & {*after} == (set() if counts else guards)


def test_what_is_no_mask_stays(rng: np.random.Generator) -> None:
    """A Where of numbers that do not hide, or of whole queries, and a sum that something else
    reads."""
    net = FloatTransformer(rng)
    scores = net.op("Add", scores_of(net), net.normal(1, HEADS, TOKENS, TOKENS), output="z")
    biases = net.op("Add", scores, net.normal(1))
    condition = net.constant(np.arange(TOKENS) < 2)
    queries = net.constant(np.arange(TOKENS)[:, None] < 2)
    model = net.model(
        "z",
        net.op("Softmax", biases, axis=-1, output="y"),
        net.op("Softmax", net.op("Where", condition, scores, net.number(-5)), output="w"),
        net.op("Softmax", net.op("Where", queries, scores, net.number(-1e9)), output="v"),
    )
    before, after = joined(model, rng)
    assert before == after


def test_constants_may_have_more_axes_than_scores(rng: np.random.Generator) -> None:
    """The sum of both repeats the scores."""
    net = FloatTransformer(rng)
    scores = net.op("Add", scores_of(net), net.normal(1, 3, 1, TOKENS, TOKENS))
    scores = net.op("Add", net.normal(2, 1, 1, 1, TOKENS), scores)
    hides = net.constant(np.arange(TOKENS).reshape(1, 1, 1, 1, -1) < 4)
    model = net.model(
        net.op("Softmax", net.op("Where", hides, scores, net.number(-1e5)), output="y")
    )
    _, after = joined(model, rng)
    assert after == ["transpose", "matmul", "add", "softmax"]


def test_a_sum_in_other_axes_stays_where_the_scores_get_others(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    scores = net.op("Reshape", scores_of(net), net.whole(3 * HEADS, TOKENS, TOKENS))
    scores = net.op("Add", scores, net.normal(TOKENS))
    view = net.op("Reshape", scores, net.whole(HEADS, 3, TOKENS, TOKENS))
    before, after = joined(net.model(net.op("Softmax", view, axis=-1, output="y")), rng)
    assert before == after == ["transpose", "matmul", "reshape", "add", "reshape", "softmax"]


def test_masks_of_another_axis_and_those_that_others_read_stay(rng: np.random.Generator) -> None:
    """Along an axis of queries, all of some keys may be hidden."""
    net = FloatTransformer(rng)
    hides = net.constant(np.arange(TOKENS) < 2)
    scores, low = scores_of(net), net.number(-1e9)
    masked, shared = (net.op("Where", hides, scores, low) for _ in range(2))
    model = net.model(
        net.op("Softmax", masked, axis=2, output="y"),
        net.op("Softmax", shared, axis=-1, output="z"),
        net.op("Abs", shared, output="w"),
    )
    before, after = joined(model, rng)
    assert before == after


def _guarded(net: FloatTransformer, *, axis: int = -1, zero: float = 0, kind: str = "") -> str:
    scores = net.op("Abs", scores_of(net)) if kind == "no product" else scores_of(net)
    weights = net.op("Softmax", scores, axis=axis)
    guard = net.op("IsNaN", scores if kind == "other" else weights)
    return net.op("Where", guard, net.number(zero), weights)


@pytest.mark.parametrize(
    "attrs", [{"axis": 2}, {"zero": 0.5}, {"kind": "no product"}, {"kind": "other"}]
)
def test_other_guards_stay(attrs: dict[str, Any], rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    net.op("Abs", _guarded(net, **attrs), output="y")
    before, after = joined(net.model("y"), rng)
    assert before == after


def test_a_guard_that_is_an_output_stays(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    before, after = joined(net.model(_guarded(net)), rng)
    assert before == after
