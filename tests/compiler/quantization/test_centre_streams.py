"""Residual streams lose their mean, and layer norms become RMS norms: the same results."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.quantization import quantize_model
from daedal.compiler.quantization.float_model import FloatModel, simplified
from daedal.compiler.quantization.rewrites.centre_streams import centre_streams
from tests.compiler.quantization.float_networks import simple_model
from tests.compiler.quantization.float_transformers import DEPTH, TOKENS, FloatTransformer

Stream = Callable[[FloatTransformer], str]


def patches(net: FloatTransformer) -> str:
    """Tokens of an image with a class token, whose row is padding, and positions."""
    x = net.op("Conv", net.input("x", (1, 3, 5, 2)), net.normal(DEPTH, 3, 1, 2), net.normal(DEPTH))
    x = net.op("Transpose", net.op("Reshape", x, net.whole(1, DEPTH, 5)), perm=[0, 2, 1])
    x = net.op("Pad", x, net.whole(0, 0, 0, 0, 1, 0))
    return net.op("Add", x, net.normal(1, TOKENS, DEPTH))


def joined(net: FloatTransformer) -> str:
    """A class token in front of projected tokens."""
    x = net.op("Gemm", net.input("x", (5, 3)), net.normal(DEPTH, 3), net.normal(DEPTH), transB=1)
    x = net.op("Reshape", x, net.whole(1, 5, DEPTH))
    return net.op("Concat", net.normal(1, 1, DEPTH), x, axis=1)


def permuted(net: FloatTransformer) -> str:
    """Projected tokens in another order, before channels become the last axis and after that."""
    order = net.whole(*range(1, TOKENS), 0)
    x = net.op("Conv", net.input("x", (1, 3, TOKENS, 1)), net.normal(DEPTH, 3, 1, 1))
    x = net.op("Gather", net.op("Reshape", x, net.whole(1, DEPTH, TOKENS)), order, axis=2)
    return net.op("Gather", net.op("Transpose", x, perm=[0, 2, 1]), order, axis=1)


def embedded(net: FloatTransformer) -> str:
    """Rows of a table."""
    return net.op("Gather", net.normal(7, DEPTH), net.input("x", (1, TOKENS), "int64"), axis=0)


def given(net: FloatTransformer) -> str:
    """Rows that the network did not compute."""
    return net.input("x", (1, TOKENS, DEPTH))


def depthwise(net: FloatTransformer) -> str:
    """Channels that no layer mixes, as in ConvNeXt."""
    x = net.input("x", (1, DEPTH, TOKENS, 1))
    x = net.op("Conv", x, net.normal(DEPTH, 1, 1, 1), net.normal(DEPTH), group=DEPTH)
    return net.op("Transpose", net.op("Reshape", x, net.whole(1, DEPTH, TOKENS)), perm=[0, 2, 1])


def rows(net: FloatTransformer, x: str) -> str:
    return net.op("Reshape", x, net.whole(TOKENS, DEPTH))


def layer(net: FloatTransformer, x: str, bias: bool = True) -> str:
    parameters = [net.normal(DEPTH, DEPTH, scale=0.3), *([net.normal(DEPTH)] if bias else [])]
    product = net.op("Gemm", rows(net, x), *parameters)
    return net.op("Reshape", product, net.whole(1, TOKENS, DEPTH))


def blocks(net: FloatTransformer, x: str, bias: bool = True) -> str:
    """Two sums, each of a stream and a product of its norm."""
    for _ in range(2):
        y = net.op("Relu", layer(net, net.layer_norm(x), bias))
        x = net.op("Add", x, layer(net, y, bias))
    return x


def classified(net: FloatTransformer, x: str) -> str:
    token = net.sliced(net.layer_norm(x), 0, 1, 1)
    return net.op("Gemm", net.op("Reshape", token, net.whole(1, DEPTH)), net.normal(DEPTH, 3))


def finished(net: FloatTransformer) -> onnx.ModelProto:
    net.nodes[-1].output[0] = "y"
    return net.model("y")


def centred(model: onnx.ModelProto) -> FloatModel:
    """The model after the rewrite; it computes what it did."""
    before = simple_model(model)
    after = before.with_graph(simplified(centre_streams(before.graph)))
    (item,) = model.graph.input
    shape = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    is_float = item.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    x = rng.normal(size=shape).astype(np.float32) if is_float else rng.integers(0, 7, shape)
    (wanted,), (found,) = (
        run_onnxruntime(item.SerializeToString(), {"x": x}) for item in (model, after.to_onnx())
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    return after


def norms(model: FloatModel) -> tuple[int, int]:
    """How many layer norms, and how many RMS norms."""
    found = Counter(node.op for node in model.graph.nodes)
    return found["layer_norm"], found["rms_norm"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("begin", [patches, joined, permuted, embedded])
def test_streams_that_can_be_centred(begin: Stream, bias: bool) -> None:
    net = FloatTransformer(np.random.default_rng(1))
    classified(net, blocks(net, begin(net), bias))
    model = centred(finished(net))
    assert norms(model) == (0, 3)
    assert model.to_onnx().opset_import[0].version == 23


def test_the_stream_has_no_mean() -> None:
    net = FloatTransformer(np.random.default_rng(1))
    x = blocks(net, patches(net))
    classified(net, x)
    graph = centred(finished(net)).graph
    image = np.random.default_rng(2).normal(size=(1, 3, 5, 2)).astype(np.float32)
    stream = run(graph, {"x": image}, [x])[x]
    assert np.abs(stream.mean(axis=-1)).max() < 1e-5 * np.abs(stream).max()


def keeps(net: FloatTransformer, x: str) -> None:
    """A last layer that only the norm's result needs."""
    classified(net, x)


def outputs_stream(net: FloatTransformer, x: str) -> None:
    net.layer_norm(x)
    net.op("Identity", x)


def multiplies_stream(net: FloatTransformer, x: str) -> None:
    net.op("Add", layer(net, x), layer(net, net.layer_norm(x)))


def scales_stream(net: FloatTransformer, x: str) -> None:
    x = net.op("Mul", x, net.normal(DEPTH))
    classified(net, x)


def shifts_tokens(net: FloatTransformer, x: str) -> None:
    x = net.op("Pad", x, net.whole(0, 0, 0, 0, 1, 0), net.constant(np.float32(2)))
    net.op("Gemm", net.op("Reshape", net.layer_norm(x), net.whole(-1, DEPTH)), net.normal(DEPTH, 3))


def norms_other_axes(net: FloatTransformer, x: str) -> None:
    both = [net.positive(TOKENS, DEPTH), net.normal(TOKENS, DEPTH)]
    y = net.op("LayerNormalization", x, *both, axis=1)
    net.op("Add", y, net.layer_norm(x))


def cuts_channels(net: FloatTransformer, x: str) -> None:
    net.op("Concat", net.sliced(x, 0, 4, 2), net.layer_norm(x), axis=2)


def gathers_channels(net: FloatTransformer, x: str) -> None:
    classified(net, net.op("Gather", x, net.whole(*range(1, DEPTH), 1), axis=2))


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (given, keeps),
        (depthwise, keeps),
        (patches, outputs_stream),
        (patches, multiplies_stream),
        (patches, scales_stream),
        (patches, shifts_tokens),
        (patches, norms_other_axes),
        (patches, cuts_channels),
        (patches, gathers_channels),
    ],
)
def test_streams_whose_mean_matters(
    begin: Stream, end: Callable[[FloatTransformer, str], None]
) -> None:
    net = FloatTransformer(np.random.default_rng(1))
    end(net, blocks(net, begin(net)))
    assert norms(centred(finished(net)))[1] == 0


def test_an_offset_that_no_product_takes() -> None:
    """The other norms of the stream change; one without an offset does, too."""
    net = FloatTransformer(np.random.default_rng(1))
    x = blocks(net, patches(net))
    plain = net.op("LayerNormalization", x, net.positive(DEPTH), axis=-1)
    net.op("Add", net.op("Relu", net.layer_norm(x)), plain)
    assert norms(centred(finished(net))) == (1, 3)


def test_shared_weights_of_other_readers_stay() -> None:
    """The head of a language model has the table of its embedding."""
    net = FloatTransformer(np.random.default_rng(1))
    table = net.normal(7, DEPTH)
    x = net.op("Gather", table, net.input("x", (1, TOKENS), "int64"), axis=0)
    x = rows(net, net.layer_norm(blocks(net, x)))
    net.op("Gemm", x, table, transB=1)
    model = finished(net)
    after = centred(model)
    assert norms(after) == (0, 3)
    (given,) = (item for item in model.graph.initializer if item.name == table)
    head = after.graph.producers["y"]
    np.testing.assert_array_equal(
        after.graph.constant(head.inputs[1]), numpy_helper.to_array(given)
    )


def test_the_quantizer_centres_streams() -> None:
    net = FloatTransformer(np.random.default_rng(1))
    classified(net, blocks(net, patches(net)))
    samples = {"x": np.random.default_rng(3).normal(size=(8, 3, 5, 2)).astype(np.float32)}
    model = quantize_model(finished(net).SerializeToString(), samples)
    found = Counter(node.op_type for node in model.graph.node)
    assert found["RMSNormalization"] == 3 and not found["LayerNormalization"]


STREAM = """
graph stream {{
  input x: float32[1,6,8]
  const w: float32[8,8] = ?
  const half: float32[8,4] = ?
  const more: float32[8,12] = ?
  const row: float32[1,8,1] = ?
  const rows: float32[6,1] = ?
  const number: float32[] = ?
  const k: float32[2,1,1,1] = ?
  const scale: float32[8] = ?
  const bias: float32[8] = ?
  const v: float32[8,3] = ?
  a: float32[1,6,8] = dense(x, w) transposed=0
{body}
  n: float32[1,{rows},8] = layer_norm(s, {scale}, bias) epsilon=1e-05
  y: float32[1,{rows},3] = dense(n, v) transposed=0
  output y
}}
"""

PLAIN = "s: float32[1,6,8] = reshape(a) shape=1,6,8"

OTHERS = {
    "channels that are joined": """
  b: float32[1,6,4] = dense(x, half) transposed=0
  s: float32[1,6,8] = concat(b, b) axis=2""",
    "channels that are cut": """
  b: float32[1,6,12] = dense(x, more) transposed=0
  s: float32[1,6,8] = slice(b) begins=0,0,0 ends=1,6,8 steps=1,1,1""",
    "channels that are padded": """
  b: float32[1,6,4] = dense(x, half) transposed=0
  s: float32[1,6,8] = pad(b) pads=0,0,2,0,0,2""",
    "numbers of rows": "s: float32[1,6,8] = add(a, rows)",
    "a number": "s: float32[1,6,8] = add(a, number)",
    "other channels of a convolution": """
  m: float32[1,1,6,8] = reshape(x) shape=1,1,6,8
  c: float32[1,2,6,8] = conv2d(m, k) strides=1,1 pads=0,0,0,0 dilations=1,1 groups=1
  d: float32[1,12,8] = reshape(c) shape=1,12,8
  s: float32[1,6,8] = slice(d) begins=0,0,0 ends=1,6,8 steps=1,1,1""",
}


def centred_text(body: str, rng: np.random.Generator, rows: int = 6, scale: str = "scale") -> Graph:
    """The graph after the rewrite, which computes the same."""
    graph = parse_graph(STREAM.format(body=body, rows=rows, scale=scale), rng=rng)
    after = centre_streams(graph)
    feeds = {"x": rng.normal(size=(1, 6, 8)).astype(np.float32)}
    np.testing.assert_allclose(run(after, feeds)["y"], run(graph, feeds)["y"], rtol=1e-3, atol=1e-3)
    return after


def test_a_stream_of_one_layer(rng: np.random.Generator) -> None:
    assert centred_text(PLAIN, rng).producers["n"].op == "rms_norm"


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_stream_stays(body: str, rng: np.random.Generator) -> None:
    assert centred_text(body, rng).producers["n"].op == "layer_norm"


def test_constants_whose_channels_are_not_last_stay(rng: np.random.Generator) -> None:
    body = """
  t: float32[1,8,6] = transpose(a) order=0,2,1
  b: float32[1,8,7] = concat(row, t) axis=2
  s: float32[1,7,8] = transpose(b) order=0,2,1"""
    assert centred_text(body, rng, rows=7).producers["n"].op == "layer_norm"


def test_a_tensor_and_its_transpose_have_no_common_mean(rng: np.random.Generator) -> None:
    body = """
  b: float32[1,8,8] = pad(a) pads=0,0,0,0,2,0
  t: float32[1,8,8] = transpose(b) order=0,2,1
  s: float32[1,8,8] = add(b, t)"""
    assert centred_text(body, rng, rows=8).producers["n"].op == "layer_norm"


def test_a_norm_that_is_an_output_keeps_its_offset(rng: np.random.Generator) -> None:
    text = STREAM.format(body=PLAIN, rows=6, scale="scale").replace("output y", "output n")
    after = centre_streams(parse_graph(text, rng=rng))
    assert after.producers["n"].op == "layer_norm"


def test_a_norm_whose_scale_is_computed_stays(rng: np.random.Generator) -> None:
    """Another norm of its stream does not."""
    body = f"""
  {PLAIN}
  m: float32[1,6,8] = layer_norm(s, scale) epsilon=1e-05
  q: float32[1,1,8] = slice(m) begins=0,0,0 ends=1,1,8 steps=1,1,1
  r: float32[8] = reshape(q) shape=8"""
    after = centred_text(body, rng, scale="r")
    assert [after.producers[name].op for name in "nm"] == ["layer_norm", "rms_norm"]


def test_a_stream_that_a_norm_of_rows_reads_stays(rng: np.random.Generator) -> None:
    body = f"""
  {PLAIN}
  m: float32[1,6,8] = layer_norm(s, scale) epsilon=1e-05
  b: float32[1,8,8] = pad(a) pads=0,0,0,0,2,0
  t: float32[1,8,8] = transpose(b) order=0,2,1
  u: float32[1,8,8] = layer_norm(t, scale) epsilon=1e-05
  q: float32[1,1,8] = slice(u) begins=0,0,0 ends=1,1,8 steps=1,1,1
  r: float32[8] = reshape(q) shape=8"""
    after = centred_text(body, rng, scale="r")
    assert {after.producers[name].op for name in "nmu"} == {"layer_norm"}
