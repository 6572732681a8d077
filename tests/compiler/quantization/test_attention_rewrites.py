"""Rewrites of attention, each alone: turned and rotated heads, repeated keys, unknown shapes."""

import numpy as np

from daedal.compiler.quantization.attentions import find_attentions
from daedal.compiler.quantization.bridge import simple_network
from daedal.compiler.quantization.rewrites.attention import normalize_attention
from daedal.compiler.quantization.rewrites.clean import clean
from daedal.compiler.quantization.rewrites.grouped_queries import group_queries
from daedal.compiler.quantization.rewrites.halves import widen_rotations
from daedal.compiler.quantization.rewrites.normalize import normalize, normalize_views
from tests.compiler.quantization.float_networks import evaluate
from tests.compiler.quantization.float_transformers import (
    DEPTH,
    HEADS,
    TOKENS,
    WIDTH,
    FloatTransformer,
)


def test_heads_of_a_projection_are_turned_in_its_weights(rng: np.random.Generator) -> None:
    """Not by a second product behind the first."""
    net = FloatTransformer(rng)
    heads = net.heads(net.dense(net.layer_norm(net.input("x", (1, TOKENS, DEPTH))), DEPTH, DEPTH))
    net.op("Softmax", net.rotated(heads), axis=-1, output="y")
    network = simple_network(net.model("y"))
    normalize_views(network)
    normalize(network)
    normalize_attention(network)
    first, second = (node for node in network.nodes if node.op_type == "Gemm")
    assert first.input[0] == second.input[0]


def test_a_slice_of_an_unknown_number_of_tokens_stays(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    x = net.layer_norm(net.input("x", (1, TOKENS, DEPTH)))
    kept = net.op("Compress", x, net.op("Cast", net.input("kept", (TOKENS,)), to=9), axis=1)
    net.op("Neg", net.sliced(kept, 0, 2, 1), output="y")
    model = net.model("y")
    network = simple_network(model)
    before = [node.op_type for node in network.nodes]
    normalize_attention(network)
    assert [node.op_type for node in network.nodes] == before


def test_whole_heads_are_rotated_where_a_model_rotates_some_channels(
    rng: np.random.Generator,
) -> None:
    """The others are multiplied by 1, and nothing is joined behind the rotation."""
    net = FloatTransformer(rng)
    half, end = WIDTH // 4, WIDTH // 2
    heads = net.op("Abs", net.input("x", (1, HEADS, TOKENS, WIDTH)))
    part = net.sliced(heads, 0, end, 3)
    second, first = net.sliced(part, half, end, 3), net.sliced(part, 0, half, 3)
    turned = net.op("Concat", net.op("Neg", second), first, axis=3)
    sines = net.normal(TOKENS, end)
    total = net.op(
        "Add", net.op("Mul", part, net.normal(TOKENS, end)), net.op("Mul", sines, turned)
    )
    rest = net.sliced(heads, end, WIDTH, 3)
    net.op("Concat", total, rest, axis=3, output="y")
    model = net.model("y")
    network = clean(model)
    widen_rotations(network)
    after = network.to_model()
    assert [node.op_type for node in after.graph.node] == [
        *("Abs", "Slice", "Slice", "Slice", "Neg", "Concat", "Mul", "Mul", "Add"),
    ]
    feeds = {"x": rng.normal(size=(1, HEADS, TOKENS, WIDTH)).astype(np.float32)}
    expected, found = evaluate(model, feeds)["y"], evaluate(after, feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_repetition_of_unknown_shape_stays(rng: np.random.Generator) -> None:
    """How often keys and values are repeated is an input."""
    net = FloatTransformer(rng)
    extents = net.input("extents", (5,), "int64")
    queries = net.layer_norm(net.input("q", (1, 4, TOKENS, DEPTH)))
    repeated = [
        net.op(
            "Reshape",
            net.op("Expand", net.input(name, (1, 2, 1, TOKENS, DEPTH)), extents),
            net.whole(1, 4, TOKENS, DEPTH),
        )
        for name in "kv"
    ]
    scores = net.op("MatMul", queries, net.op("Transpose", repeated[0], perm=[0, 1, 3, 2]))
    net.op("MatMul", net.op("Softmax", scores, axis=-1), repeated[1], output="y")
    network = clean(net.model("y"))
    assert len(find_attentions(network, network.types())) == 1
    before = [node.op_type for node in network.nodes]
    group_queries(network)
    assert [node.op_type for node in network.nodes] == before
