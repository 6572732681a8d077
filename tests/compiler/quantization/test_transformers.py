"""Transformers through the quantizer: exact rewrites, 16 bits where 8 lose the model, masks."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import daedal
from bench.float_network import FloatNetwork
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.frontend.host_model import HOST_OPSET
from daedal.compiler.graph.graph import Array
from daedal.compiler.quantization import quantize_model
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.rewrites.attention import normalize_attention
from daedal.compiler.quantization.rewrites.normalize import flatten_rows
from daedal.compiler.quantization.rewrites.rotations import multiply_turned
from daedal.compiler.quantization.rewrites.tokens import pad_tokens
from tests.compiler.quantization.float_networks import evaluate, rewritten_model, signal_to_noise_db
from tests.compiler.quantization.float_transformers import (
    DEPTH,
    TOKENS,
    FloatTransformer,
)

MIN_SNR_DB = 25


def feeds_of(model: onnx.ModelProto, rng: np.random.Generator, count: int) -> dict[str, Array]:
    """`count` inputs of a model along axis 0."""
    (item,) = model.graph.input
    if item.name == "ids":
        return {"ids": rng.integers(0, 20, (count, TOKENS))}
    tokens = item.type.tensor_type.shape.dim[1].dim_value
    return {"x": rng.normal(size=(count, tokens, DEPTH)).astype(np.float32)}


def built(kind: str, rng: np.random.Generator) -> onnx.ModelProto:
    net = FloatTransformer(rng)
    return {"encoder": net.encoder, "language": net.language, "vision": net.vision}[kind]()


def quantized(
    kind: str, rng: np.random.Generator, fuse_attention: bool = True
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The float model and the quantized one."""
    model = built(kind, rng)
    result = quantize_model(
        model.SerializeToString(), feeds_of(model, rng, 32), fuse_attention=fuse_attention
    )
    onnx.checker.check_model(result)
    return model, result


def dtypes(model: onnx.ModelProto) -> Mapping[str, set[str]]:
    """Integer types as which each tensor is quantized, within bounds or not."""
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    clipped = {node.output[0]: node.input[0] for node in of_type(model, "Clip")}
    found: dict[str, set[str]] = {}
    for node in of_type(model, "QuantizeLinear"):
        name = clipped.get(node.input[0], node.input[0])
        found.setdefault(name, set()).add(constants[node.input[2]].dtype.name)
    return found


def of_type(model: onnx.ModelProto, *op_types: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type in op_types]


@pytest.mark.parametrize("kind", ["vision", "language"])
def test_rewrites_are_exact(kind: str, rng: np.random.Generator) -> None:
    model = built(kind, rng)
    after = rewritten_model(model, pad_tokens, multiply_turned, normalize_attention, flatten_rows)
    onnx.checker.check_model(after)
    feeds = feeds_of(model, rng, 1)
    expected, found = evaluate(model, feeds)["y"], evaluate(after, feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    ops = [node.op_type for node in after.graph.node]
    assert not {"Concat", "Neg", "Split", "Sqrt", "ReduceMean"} & set(ops)
    # Of projections: query, key and value, in a language model two of them also turned.
    assert ops.count("Gemm") == {"vision": 7, "language": 10}[kind]
    assert ops.count("Gather") == {"vision": 0, "language": 1}[kind]
    norms = {"vision": "LayerNormalization", "language": "RMSNormalization"}
    assert ops.count(norms[kind]) == 3


def test_rows_before_the_batch_are_one_launch(rng: np.random.Generator) -> None:
    model = FloatTransformer(rng).rows_first(tokens=17, depth=32, heads=4)
    samples = rng.normal(size=(16, 17, 32)).astype(np.float32)
    result = quantize_model(model.SerializeToString(), {"x": samples})
    artifact = daedal.compile(result.SerializeToString(), "attention")
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear", "Reshape"}  # of what is given
    assert len(artifact.launches) == 1
    feeds = {"x": samples[:1]}
    found = daedal.simulate(artifact, feeds).outputs["y"]
    assert signal_to_noise_db(evaluate(model, feeds)["y"], found) > MIN_SNR_DB


@pytest.mark.parametrize("kind", ["encoder", "vision", "language"])
def test_close_to_float(kind: str, rng: np.random.Generator) -> None:
    model, separate = quantized(kind, rng, fuse_attention=False)
    inputs = feeds_of(model, rng, 8)
    fused = quantize_model(model.SerializeToString(), feeds_of(model, rng, 32))
    name, values = next(iter(inputs.items()))
    expected, *found = (
        np.concatenate(
            [run_onnxruntime(item.SerializeToString(), {name: value[None]})[0] for value in values]
        )
        for item in (model, separate, fused)
    )
    for result in found:
        assert signal_to_noise_db(expected, result) > MIN_SNR_DB


@pytest.mark.parametrize("kind", ["vision", "language"])
def test_streams_and_scores_have_16_bits(kind: str, rng: np.random.Generator) -> None:
    _, result = quantized(kind, rng, fuse_attention=False)
    found = dtypes(result)
    assert found["attended"] == found["stream"] == {"int16"}
    operands = {node.output[0]: node for node in of_type(result, "DequantizeLinear")}
    constants = {item.name: numpy_helper.to_array(item) for item in result.graph.initializer}

    def dtype_of(name: str) -> str:
        """Of what a node reads."""
        return constants[operands[name].input[2]].dtype.name

    norms = of_type(result, "Softmax", "LayerNormalization", "RMSNormalization")
    for node in norms:
        assert dtype_of(node.input[0]) == "int16" and found[node.output[0]] == {"int8"}
    for node in of_type(result, "MatMul", "Gemm"):
        assert {dtype_of(name) for name in node.input[:2]} == {"int8"}
    assert found["y_raw"] == {"int16"}


@pytest.mark.parametrize("kind", ["vision", "language"])
def test_nothing_is_quantized_between_the_products_of_attention(
    kind: str, rng: np.random.Generator
) -> None:
    _, result = quantized(kind, rng)
    producers = {name: node for node in result.graph.node for name in node.output}
    users = {name: node for node in result.graph.node for name in node.input}
    constants = {item.name: numpy_helper.to_array(item) for item in result.graph.initializer}
    (softmax,) = of_type(result, "Softmax")
    mean, before = users[softmax.output[0]], producers[softmax.input[0]]
    if kind == "language":
        assert before.op_type == "Add"
        (mask,) = (constants[name] for name in before.input if name in constants)
        assert mask.min() == -1e4, "a constant mask stays"
        before = producers[before.input[0]]
    assert (before.op_type, mean.op_type) == ("MatMul", "MatMul")
    queries, keys, values = (producers[name] for name in (*before.input, mean.input[1]))
    for node in (queries, keys, values, users[users[mean.output[0]].output[0]]):
        assert node.op_type == "DequantizeLinear"
        assert constants[node.input[2]].dtype == np.int8
    assert constants[queries.input[2]] == 0


def test_a_stream_of_norms_has_16_bits_and_its_products_8(rng: np.random.Generator) -> None:
    _, result = quantized("encoder", rng)
    found = dtypes(result)
    assert found["normed"] == found["attended"] == {"int16"}
    assert found["normed.balanced"] == {"int8"}


def test_a_stream_that_a_product_reads_has_both_widths(rng: np.random.Generator) -> None:
    net = FloatTransformer(rng)
    x = net.input("x", (1, TOKENS, DEPTH))
    stream = net.op("Add", net.dense(x, DEPTH, DEPTH), x, output="stream")
    y = net.dense(net.layer_norm(stream), DEPTH, DEPTH)
    net.op("Add", y, net.dense(stream, DEPTH, DEPTH), output="y")
    model = net.model("y")
    samples = feeds_of(model, rng, 16)
    result = quantize_model(model.SerializeToString(), samples)
    found = dtypes(result)
    assert found["stream"] == {"int16"}
    narrowed = [name for name in found if name.endswith("_dq")]
    assert narrowed and all(found[name] == {"int8"} for name in narrowed)
    inputs = {"x": samples["x"][:1]}
    (expected,), (real,) = (
        run_onnxruntime(item.SerializeToString(), inputs) for item in (model, result)
    )
    assert signal_to_noise_db(expected, real) > MIN_SNR_DB


def test_what_a_mask_hides_has_no_weight(rng: np.random.Generator) -> None:
    """And the scores keep fine steps: a mask of -10000 does not set their scale."""
    model, result = quantized("language", rng, fuse_attention=False)
    (softmax,) = of_type(result, "Softmax")
    result.graph.output.append(onnx.ValueInfoProto(name=softmax.output[0]))
    _, weights = run_onnxruntime(result.SerializeToString(), feeds_of(model, rng, 1))
    hidden = np.triu(np.ones((TOKENS, TOKENS), dtype=bool), 1)
    assert weights[..., hidden].max() < 1 / 512
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-3)
    constants = {item.name: numpy_helper.to_array(item) for item in result.graph.initializer}
    producers = {name: node for node in result.graph.node for name in node.output}
    assert float(constants[producers[softmax.input[0]].input[1]]) < 0.01


@pytest.mark.parametrize("fuse_attention", [True, False])
def test_a_mask_of_an_input_counts_where_no_sample_hides_anything(
    fuse_attention: bool, rng: np.random.Generator
) -> None:
    net = FloatTransformer(rng)
    x, mask = net.input("x", (1, TOKENS, DEPTH)), net.input("mask", (1, 1, 1, TOKENS))
    query, key, value = (net.heads(net.dense(x, DEPTH, DEPTH)) for _ in range(3))
    y = net.attend(query, key, value, net.op("Mul", mask, net.number(1e4)))
    net.dense(y, DEPTH, DEPTH)
    net.nodes[-1].output[0] = "y"
    model = net.model("y")
    samples = rng.normal(size=(16, TOKENS, DEPTH)).astype(np.float32)
    masks = np.zeros((16, 1, 1, TOKENS), dtype=np.float32)
    result = quantize_model(
        model.SerializeToString(),
        {"x": samples, "mask": masks},
        fuse_attention=fuse_attention,
    )
    hidden = np.float32([0, 0, 0, -1, -1, -1]).reshape(1, 1, 1, TOKENS)
    inputs = {"x": samples[:1], "mask": hidden}
    (expected,), (found,) = (
        run_onnxruntime(item.SerializeToString(), inputs) for item in (model, result)
    )
    assert signal_to_noise_db(expected, found) > MIN_SNR_DB


def test_other_networks_have_8_bits(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.op("Softmax", net.conv(net.input("x", (1, 3, 8, 8)), 3, 4), axis=1)
    net.op("Softmax", net.conv(x, 4, 4), axis=1, output="y")
    samples = rng.normal(size=(4, 3, 8, 8)).astype(np.float32)
    result = quantize_model(net.model("y").SerializeToString(), samples)
    assert result.opset_import[0].version == HOST_OPSET
    assert set().union(*dtypes(result).values()) == {"int8"}


def test_16_bits_leave_room_for_values_beyond_the_samples() -> None:
    scale, zero_point = Range(-3.0, 1.0).wide_quantization()
    assert zero_point == 0 and zero_point.dtype == np.int16
    assert float(scale) * 32767 == pytest.approx(2 * 3.0)
