"""Residual streams lose their mean, and layer norms become RMS norms: the same results."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from daedal.compiler.graph.interpreter import run
from daedal.compiler.quantization import quantize_model
from daedal.compiler.quantization.float_model import FloatModel, simplified
from daedal.compiler.quantization.rewrites.centre_streams import centre_streams
from daedal.integer_reference import run_onnxruntime
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
@pytest.mark.parametrize("begin", [patches, joined, embedded])
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
