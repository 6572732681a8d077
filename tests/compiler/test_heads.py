"""Attention layers on the accelerator: heads are views, and nothing is transposed or copied."""

from unittest import mock

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.checking.layer_check import check_layers
from daedal.compiler.link.ordering import side_by_side
from tests.support.heads import Heads, attention_layer

PROJECTION, PRODUCT = "q_conv2d", "q_matmul"
LAYER = [PROJECTION, PROJECTION, PRODUCT, PRODUCT, PRODUCT, PROJECTION]
"""Queries, keys, scores, turned values, values by weights, and the projection of the result."""


def check(heads: Heads, variant: str, rng: np.random.Generator) -> Artifact:
    """Every layer gives the bytes of the integer reference, which is onnxruntime's result but for
    one unit in the last place."""
    model = attention_layer(rng, heads)
    data = model.SerializeToString()
    artifact = daedal.compile(data, variant, host=None, cpu_levels=())
    x = {"x": rng.normal(size=(1, heads.tokens, heads.depth)).astype(np.float32)}
    found = check_layers(artifact, data, x)
    assert found.passed, (found.first_difference, found.overwritten)
    graph = processor_graph(data, artifact.launches[0].program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    return artifact


def operators(artifact: Artifact) -> list[list[str]]:
    """Of the layers of each launch."""
    return [[layer.op for layer in launch.layers] for launch in artifact.launches]


@pytest.mark.parametrize("fused", [False, True], ids=["three projections", "one projection"])
@pytest.mark.parametrize(
    ("tokens", "heads", "width"), [(32, 2, 16), (16, 1, 24), (16, 3, 8), (32, 2, 40)]
)
def test_heads_are_views(fused, tokens, heads, width, rng):
    sizes = Heads(tokens, heads, heads, width, fused=fused)
    assert operators(check(sizes, "attention", rng)) == [LAYER]


@pytest.mark.parametrize("probability_zero", [-128, 0])
def test_keys_are_padded_by_their_projection(probability_zero, rng):
    """Only the operand of the values is padded by a copy: padding has probability 0."""
    sizes = Heads(50, width=8, softmax=True, probability_zero=probability_zero)
    found = operators(check(sizes, "attention", rng))
    assert found == [[*LAYER[:2], "q_pad", LAYER[2], "q_softmax", *LAYER[3:]]]


def test_padding_that_counts_is_replaced(rng):
    """Scores in place of probabilities have any value there."""
    found = operators(check(Heads(50, width=8), "attention", rng))
    copies = [PROJECTION, PROJECTION]
    assert found == [[*LAYER[:2], "q_pad", LAYER[2], PRODUCT, *copies, *LAYER[4:]]]


@pytest.mark.parametrize("fused", [False, True], ids=["three projections", "one projection"])
@pytest.mark.parametrize("width", [8, 32])
def test_heads_of_queries_share_keys(width, fused, rng):
    """The rows of three heads are one image of the product in the model."""
    sizes = Heads(32, 6, 2, width, fused=fused, softmax=True)
    assert operators(check(sizes, "attention", rng)) == [[*LAYER[:3], "q_softmax", *LAYER[3:]]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("tokens", "heads", "keys", "width"), [(32, 2, 2, 16), (50, 3, 3, 8), (32, 6, 2, 8)]
)
def test_attention_is_two_layers(tokens, heads, keys, width, causal, rng):
    """Also where heads fill no blocks, keys fill none, and the queries of three heads share keys;
    a mask of 96 rows is then that of 32."""
    sizes = Heads(tokens, heads, keys, width, attention=True, causal=causal)
    model = attention_layer(rng, sizes).SerializeToString()
    artifact = daedal.compile(model, "attention", host=None, cpu_levels=())
    (found,) = operators(artifact)
    layers = ["q_attention_weights", "q_weighted_mean"]
    assert [op for op in found if op not in (PROJECTION, PRODUCT, "q_pad")] == layers
    x = {"x": rng.normal(size=(1, tokens, sizes.depth)).astype(np.float32)}
    check = check_layers(artifact, model, x)
    assert check.passed, (check.first_difference, check.overwritten)
    macs = {layer.op: layer.macs for layer in artifact.launches[0].layers}
    assert macs["q_attention_weights"] >= heads * tokens * tokens * width


def test_values_are_projected_beside_the_weights(rng):
    """The multipliers do one while the ALU does the other: less time than one after the other."""
    sizes = Heads(128, 4, 4, 32, depth=256, attention=True)
    model = attention_layer(rng, sizes).SerializeToString()
    x = {"x": rng.normal(size=(1, sizes.tokens, sizes.depth)).astype(np.float32)}
    cycles = {}
    for together in (True, False):
        with mock.patch.object(side_by_side, "MOST_CYCLES", 0.9 if together else 0.0):
            artifact = daedal.compile(model, "attention", host=None, cpu_levels=(), cache=False)
        assert check_layers(artifact, model, x).passed
        (profile,) = daedal.simulate(artifact, x, device="timing").profiles
        cycles[together] = profile.cycles
    assert cycles[True] < 0.98 * cycles[False]


def test_a_softmax_on_the_host(rng):
    """It may read heads in any order, and what it gives to the accelerator has the order there."""
    found = operators(check(Heads(32, 4, 2, softmax=True), "vta", rng))
    assert found == [LAYER[:4], LAYER[4:]]


@pytest.mark.parametrize("variant", ["tiny", "vta", "wide", "ecp5"])
@pytest.mark.parametrize("fused", [False, True], ids=["three projections", "one projection"])
def test_every_variant(variant, fused, rng):
    """Also with fewer rows of weights than channels in a block."""
    sizes = Heads(64, 4, 4 if fused else 2, 12, fused=fused)
    assert operators(check(sizes, variant, rng)) == [LAYER]
