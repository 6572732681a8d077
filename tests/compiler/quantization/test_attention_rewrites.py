"""Rewrites of attention, each alone: projections, factors, turned heads, repeated keys."""

import numpy as np
import onnx
import pytest

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.attentions import find_attentions
from daedal.compiler.quantization.rewrites.attention import normalize_attention
from daedal.compiler.quantization.rewrites.factors import move_factors
from daedal.compiler.quantization.rewrites.grouped_queries import group_queries
from daedal.compiler.quantization.rewrites.rotations import (
    multiply_turned,
    rotate_heads_first,
    widen_rotations,
)
from daedal.compiler.quantization.rewrites.turn_once import turn_once
from tests.compiler.quantization.float_transformers import (
    DEPTH,
    HEADS,
    TOKENS,
    WIDTH,
    FloatTransformer,
)
from tests.compiler.quantization.graph_rewrites import kinds, rewritten


def projected(net: FloatTransformer, order: str) -> list[str]:
    """Queries, keys and values (1, HEADS, TOKENS, WIDTH) from one projection, which is split behind
    views of it. Its outputs are in `order`: parts (p), then heads (h), or heads first."""
    x = net.dense(net.layer_norm(net.input("x", (1, TOKENS, DEPTH))), DEPTH, 3 * DEPTH)
    sizes = {"p": 3, "h": HEADS}
    split = net.op("Reshape", x, net.whole(1, TOKENS, *(sizes[axis] for axis in order), WIDTH))
    places = [2 + order.index(axis) for axis in "ph"]
    x = net.op("Transpose", split, perm=[places[0], 0, places[1], 1, 4])
    parts = ["query", "key", "value"]
    net.nodes.append(onnx.helper.make_node("Split", [x], parts, name="Split", axis=0))
    return [net.op("Squeeze", part, net.whole(0)) for part in parts]


@pytest.mark.parametrize("order", ["ph", "hp"])
def test_a_projection_is_split_behind_views(order: str, rng: np.random.Generator) -> None:
    """Queries and keys are scaled before their product, as exporters write attention."""
    net = FloatTransformer(rng)
    query, key, value = projected(net, order)
    factor = net.number(WIDTH**-0.25)
    key = net.op("Mul", net.op("Transpose", key, perm=[0, 1, 3, 2]), factor)
    scores = net.op("MatMul", net.op("Mul", factor, query), key)
    net.op("MatMul", net.op("Softmax", scores, axis=-1), value, output="y")
    ops = kinds(rewritten(net.model("y"), rng, normalize_attention))
    assert not {"mul", "slice"} & set(ops) and ops.count("dense") == 3


def test_a_projection_that_others_read_stays_whole(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    query, key, value = projected(net, "ph")
    y = net.op("Add", net.op("Mul", query, net.number(0.5)), net.op("Mul", key, value))
    (split,) = (node for node in net.nodes if node.op_type == "Split")
    net.op("Add", y, net.op("ReduceSum", split.input[0]), output="y")
    ops = kinds(rewritten(net.model("y"), rng, normalize_attention))
    assert ops.count("dense") == 1 and ops.count("slice") == 3 and ops.count("mul") == 2


SLICES = """
graph slices {{
  input x: float32[1,5,6]
  const w: float32[6,8] = ?
  t: float32[1,5,8] = dense(x, w) transposed=0
  a: float32[{shape}] = slice(t) begins={begins} ends={ends} steps={steps}
  b: float32[1,5,4] = slice(t) begins=0,0,4 ends=1,5,8 steps=1,1,1
  output a
  output b
}}
"""


@pytest.mark.parametrize(
    ("shape", "begins", "ends", "steps", "dense"),
    [
        pytest.param("1,5,3", "0,0,1", "1,5,4", "1,1,1", 2, id="apart"),
        pytest.param("1,5,4", "0,0,1", "1,5,5", "1,1,1", 1, id="overlapping"),
        pytest.param("1,5,2", "0,0,0", "1,5,4", "1,1,2", 1, id="strided"),
        pytest.param("1,2,8", "0,0,0", "1,2,8", "1,1,1", 1, id="of tokens"),
    ],
)
def test_only_slices_of_outputs_that_do_not_overlap_split_a_projection(
    shape: str, begins: str, ends: str, steps: str, dense: int, rng: np.random.Generator
) -> None:
    text = SLICES.format(shape=shape, begins=begins, ends=ends, steps=steps)
    assert kinds(rewritten(text, rng, normalize_attention)).count("dense") == dense


def of_maps(net: FloatTransformer) -> str:
    """Attention over the pixels of a map, as YOLO 11 has it: channels are rows."""
    x = net.op("Reshape", net.input("x", (1, TOKENS, DEPTH)), net.whole(1, DEPTH, 2, TOKENS // 2))
    x = net.conv(net.conv(x, DEPTH, DEPTH, 1), DEPTH, 2 * DEPTH, 1)
    x = net.op("Reshape", x, net.whole(1, HEADS, 2 * WIDTH, TOKENS))
    query, key, value = (
        net.sliced(x, begin * WIDTH // 2, end * WIDTH // 2, 2)
        for begin, end in ((0, 1), (1, 2), (2, 4))
    )
    scores = net.op("MatMul", net.op("Transpose", query, perm=[0, 1, 3, 2]), key)
    weights = net.op("Softmax", net.op("Mul", scores, net.number(0.7)), axis=-1)
    mean = net.op("MatMul", value, net.op("Transpose", weights, perm=[0, 1, 3, 2]))
    return net.op("Reshape", mean, net.whole(1, DEPTH, 2, TOKENS // 2))


def test_attention_over_maps_has_projections_and_weights_first(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    net.op("Neg", of_maps(net), output="y")
    graph = rewritten(net.model("y"), rng, normalize_attention)
    assert kinds(graph).count("conv2d") == 4
    (attention,) = find_attentions(graph)
    assert attention.factor == 1  # the 0.7 is in the weights
    assert "mul" not in kinds(graph)


def test_a_convolution_that_others_read_stays_whole(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    mean = of_maps(net)
    _, whole = (node.output[0] for node in net.nodes if node.op_type == "Conv")
    net.op("Add", mean, net.op("ReduceMean", whole), output="y")
    ops = kinds(rewritten(net.model("y"), rng, normalize_attention))
    assert ops.count("conv2d") == 2 and ops.count("slice") == 3


def test_every_factor_of_queries_counts(rng: np.random.Generator) -> None:
    """One behind another, and one behind a view of what another gave."""
    net = FloatTransformer(rng)
    x = net.dense(net.layer_norm(net.input("x", (1, TOKENS, DEPTH))), DEPTH, DEPTH)
    x = net.op("Mul", net.op("Mul", x, net.number(0.5)), net.number(3))
    x = net.op("Mul", net.heads(x), net.number(-2))
    net.op("Softmax", net.op("MatMul", x, net.op("Transpose", x, perm=[0, 1, 3, 2])), output="y")
    assert "mul" not in kinds(rewritten(net.model("y"), rng, normalize_attention))


FACTORS = """
graph factors {{
  input x: float32[1,5,4]
  input k: float32[1,4,5]
  const w: float32[4,4] = ?
  const b: float32[4] = ?
  const c: float32[] = 0.5
  const d: float32[1] = [-3]
  const v: float32[4] = ?
  const big: float32[1,1,1,1] = [[[[2]]]]
  const f: float32[2,5,1,1] = [[[[1]],[[2]],[[3]],[[4]],[[5]]],[[[1]],[[-2]],[[3]],[[0]],[[1]]]]
  q: float32[1,5,4] = dense(x, w, b) transposed=1
{lines}
  output y
}}
"""


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        pytest.param("y: float32[1,5,4] = mul(c, q)", 0, id="layer"),
        pytest.param(
            """m: float32[1,5,4,1] = reshape(x) shape=1,5,4,1
            t: float32[1,2,4,1] = conv2d(m, f) dilations=1,1 groups=1 pads=0,0,0,0 strides=1,1
            y: float32[1,2,4,1] = mul(t, c)""",
            0,
            id="convolution",
        ),
        pytest.param(
            """t: float32[1,5,5] = matmul(q, k)
            u: float32[1,5,5] = mul(t, c)
            y: float32[1,5,5] = mul(u, d)""",
            0,
            id="two factors of scores",
        ),
        pytest.param(
            """t: float32[1,5,4] = mul(q, v)
            p: float32[1,5,4] = dense(x, w) transposed=0
            s: float32[1,5,4] = add(t, p)
            y: float32[1,5,4] = mul(s, c)""",
            1,
            id="both addends",
        ),
        pytest.param(
            """s: float32[1,5,4] = add(q, x)
            y: float32[1,5,4] = mul(s, c)""",
            1,
            id="one addend",
        ),
        pytest.param(
            """t: float32[1,5,4] = mul(x, q)
            y: float32[1,5,4] = mul(t, c)""",
            1,
            id="a factor of a product",
        ),
        pytest.param(
            """t: float32[1,5,4] = mul(q, q)
            y: float32[1,5,4] = mul(t, c)""",
            2,
            id="a square",
        ),
        pytest.param(
            """t: float32[1,5,4] = mul(q, c)
            y: float32[1,5,4] = add(t, q)""",
            1,
            id="read by others",
        ),
        pytest.param("y: float32[1,1,5,4] = mul(q, big)", 1, id="of higher rank"),
    ],
)
def test_factors_go_into_the_constants_before_them(
    lines: str, left: int, rng: np.random.Generator
) -> None:
    graph = rewritten(FACTORS.format(lines=lines), rng, move_factors)
    assert kinds(graph).count("mul") == left


def test_layers_stay_in_their_order_where_factors_move(rng: np.random.Generator) -> None:
    """Programs of the accelerator follow it."""
    lines = """p: float32[1,5,4] = dense(x, w) transposed=0
    t: float32[1,5,4] = mul(q, c)
    y: float32[1,5,4] = add(t, p)"""
    graph = rewritten(FACTORS.format(lines=lines), rng, move_factors)
    assert [node.output for node in graph.nodes] == ["t", "p", "y"]


@pytest.mark.parametrize("form", ["rotated", "rotated_pairs"])
def test_heads_of_a_projection_are_turned_in_its_weights(
    form: str, rng: np.random.Generator
) -> None:
    """Not by a second product behind the first."""
    net = FloatTransformer(rng)
    heads = net.heads(net.dense(net.layer_norm(net.input("x", (1, TOKENS, DEPTH))), DEPTH, DEPTH))
    net.op("Softmax", getattr(net, form)(heads), axis=-1, output="y")
    graph = rewritten(net.model("y"), rng, multiply_turned, normalize_attention)
    first, second = (node for node in graph.nodes if node.op == "dense")
    assert first.inputs[0] == second.inputs[0] and "concat" not in kinds(graph)


def test_heads_of_a_norm_are_turned_by_a_product(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    heads = net.input("x", (1, HEADS, TOKENS, WIDTH))
    normed = net.op("LayerNormalization", heads, net.positive(WIDTH), axis=-1)
    net.op("Softmax", net.rotated(normed), axis=-1, output="y")
    graph = rewritten(net.model("y"), rng, multiply_turned, normalize_attention)
    assert kinds(graph) == ["layer_norm", "dense", "mul", "mul", "add", "softmax"]


@pytest.mark.parametrize(("end", "begin", "axis"), [(5, 3, 3), (3, 4, 3), (4, 4, 2)])
def test_what_exchanges_no_channels_is_not_turned(
    end: int, begin: int, axis: int, rng: np.random.Generator
) -> None:
    net = FloatTransformer(rng)
    heads = net.op("Abs", net.input("x", (1, HEADS, 8, 8)))
    first, second = net.sliced(heads, 0, end, axis), net.sliced(heads, begin, 8, axis)
    net.op("Concat", net.op("Neg", second), first, axis=axis, output="y")
    assert "concat" in kinds(rewritten(net.model("y"), rng, multiply_turned))


def partly_rotated(net: FloatTransformer, end: int = WIDTH // 2) -> str:
    """Heads of which the first channels are rotated."""
    half = end // 2
    heads = net.op("Abs", net.input("x", (1, HEADS, TOKENS, WIDTH)))
    part = net.sliced(heads, 0, end, 3)
    second, first = net.sliced(part, half, end, 3), net.sliced(part, 0, half, 3)
    turned = net.op("Concat", net.op("Neg", second), first, axis=3)
    sines = net.normal(TOKENS, end)
    total = net.op(
        "Add", net.op("Mul", part, net.normal(TOKENS, end)), net.op("Mul", sines, turned)
    )
    return net.op("Concat", total, net.sliced(heads, end, WIDTH, 3), axis=3, output="y")


def test_whole_heads_are_rotated_where_a_model_rotates_some_channels(
    rng: np.random.Generator,
) -> None:
    """The others are multiplied by 1, and nothing is joined behind the rotation."""
    net = FloatTransformer(rng)
    partly_rotated(net)
    graph = rewritten(net.model("y"), rng, multiply_turned, widen_rotations)
    assert kinds(graph) == ["Abs", "dense", "mul", "mul", "add"]


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 2, 3, 1)])
@pytest.mark.parametrize("shape", [(1, TOKENS, 1, WIDTH), (TOKENS, 1, WIDTH)])
def test_heads_are_rotated_in_the_order_of_attention(
    order: tuple[int, ...], shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    net = FloatTransformer(rng)
    x = net.dense(net.input("x", (1, TOKENS, DEPTH)), DEPTH, DEPTH)
    x = net.op("Reshape", x, net.whole(1, TOKENS, HEADS, WIDTH))
    first, second = net.sliced(x, 0, WIDTH // 2, 3), net.sliced(x, WIDTH // 2, WIDTH, 3)
    turned = net.op("Concat", net.op("Neg", second), first, axis=3)
    total = net.op("Add", net.op("Mul", x, net.normal(*shape)),
                   net.op("Mul", turned, net.normal(*shape)))  # fmt: skip
    net.op("Transpose", total, perm=order, output="y")
    graph = rewritten(net.model("y"), rng, multiply_turned, rotate_heads_first)
    sums = [node.output for node in graph.nodes if node.op == "add"]
    assert [graph.types[name].shape for name in sums] == [(1, HEADS, TOKENS, WIDTH)]


VIEWS = """
graph views {{
  input k: float32[1,5,2,8]
  a: float32[5,2,8] = reshape(k) shape=5,2,8
  b: float32[2,5,8] = transpose(a) order=1,0,2
{lines}
  output y
}}
"""


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        pytest.param(
            """c: float32[2,8,5] = transpose(b) order=0,2,1
            y: float32[1,2,8,5] = reshape(c) shape=1,2,8,5""",
            ["transpose"],
            id="keys",
        ),
        pytest.param("y: float32[2,1,5,8] = reshape(b) shape=2,1,5,8", ["transpose"], id="queries"),
        pytest.param("y: float32[10,8] = reshape(b) shape=10,8", None, id="joined axes"),
        pytest.param("y: float32[1,5,2,8] = reshape(b) shape=1,5,2,8", None, id="other axes"),
    ],
)
def test_views_that_are_one_transpose(
    lines: str, left: list[str] | None, rng: np.random.Generator
) -> None:
    graph = rewritten(VIEWS.format(lines=lines), rng, turn_once)
    assert kinds(graph) == (left or ["reshape", "transpose", "reshape"])


MASKS = {
    "number": (),
    "columns": (TOKENS,),
    "rows": (TOKENS, TOKENS),
    "batch": (1, 1, 1, TOKENS),
    "heads": (1, 4, TOKENS, TOKENS),
}


def repeated(
    rng: np.random.Generator, mask: str, *, next_to: bool = True, op: str = "Expand"
) -> onnx.ModelProto:
    """Attention of four heads over two of keys and values, each repeated next to itself or not, by
    Expand or Concat."""
    net = FloatTransformer(rng)
    queries = net.layer_norm(net.input("q", (1, 4, TOKENS, DEPTH)))
    heads = (1, 2, 1, TOKENS, DEPTH) if next_to else (1, 1, 2, TOKENS, DEPTH)

    def copies(name: str) -> str:
        x = net.input(name, heads)
        if op == "Concat":
            return net.op("Concat", x, x, axis=2 if next_to else 1)
        return net.op("Expand", x, net.whole(1, 2, 2, TOKENS, DEPTH))

    keys, values = (
        net.op("Reshape", copies(name), net.whole(1, 4, TOKENS, DEPTH)) for name in "kv"
    )
    scores = net.op("MatMul", queries, net.op("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.number(0.5))
    if mask in MASKS:
        scores = net.op("Add", scores, net.normal(*MASKS[mask]))
    elif mask == "input":
        scores = net.op("Add", scores, net.input("mask", (1, 4, TOKENS, TOKENS)))
    net.op("MatMul", net.op("Softmax", scores, axis=-1), values, output="y")
    return net.model("y")


@pytest.mark.parametrize(
    ("mask", "op"), [*((mask, "Expand") for mask in ("", *MASKS)), ("", "Concat")]
)
def test_keys_serve_their_queries_without_copies(
    mask: str, op: str, rng: np.random.Generator
) -> None:
    graph = rewritten(repeated(rng, mask, op=op), rng, group_queries)
    assert not {"Expand", "concat"} & set(kinds(graph))
    (attention,) = find_attentions(graph)
    assert graph.types[attention.queries].shape == (1, 2, 2, TOKENS, DEPTH)
    assert attention.keys.startswith("k") and attention.values == "v"


@pytest.mark.parametrize(("mask", "next_to"), [("input", True), ("", False)])
def test_other_repetitions_stay(mask: str, next_to: bool, rng: np.random.Generator) -> None:
    """A mask for each head that is no constant, and keys that are repeated as a whole."""
    for op, kind in (("Expand", "Expand"), ("Concat", "concat")):
        model = repeated(rng, mask, next_to=next_to, op=op)
        assert kinds(rewritten(model, rng, group_queries)).count(kind) == 2


def attended(rng: np.random.Generator, *outputs: str) -> Graph:
    net = FloatTransformer(rng)
    query, key = (net.input(name, (1, HEADS, TOKENS, WIDTH)) for name in ("q", "k"))
    net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]), output="s")
    net.op("MatMul", net.op("Softmax", "s", axis=-1, output="w"), "k", output="y")
    return rewritten(net.model(*outputs), rng)


def test_attention_whose_inner_tensors_others_read_is_none(rng: np.random.Generator) -> None:
    (found,) = find_attentions(attended(rng, "y"))
    assert (found.scores, found.mask, found.factor) == ("s", None, 1.0)
    assert found.inner == ("s", "w", "y")
    assert not find_attentions(attended(rng, "y", "w"))
    assert not find_attentions(attended(rng, "y", "s"))
