"""Softmax and norms between quantized tensors: near onnxruntime, and the same on the machine."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import check_layers
from daedal.compiler.graph import Graph, run
from daedal.isa.variant import Variant, load_variant
from tests.compiler.graph.qdq_models import lower

Formula = Callable[[QdqModel, str, int, np.random.Generator], str]


def variant_with_rows() -> Variant:
    return load_variant("vta").replace("rows", tables=4, lane_reductions=True, wide_requantize=True)


def softmax(m: QdqModel, x: str, channels: int, rng: np.random.Generator) -> str:
    return m.op("Softmax", x, axis=-1)


def layer_norm(m: QdqModel, x: str, channels: int, rng: np.random.Generator) -> str:
    gain = m.constant(rng.uniform(0.5, 2, channels).astype(np.float32))
    bias = m.constant(rng.normal(0, 0.5, channels).astype(np.float32))
    return m.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-5)


def negative_gains(m: QdqModel, x: str, channels: int, rng: np.random.Generator) -> str:
    gain = m.constant(rng.normal(0, 1, channels).astype(np.float32))
    return m.op("LayerNormalization", x, gain, axis=-1, epsilon=1e-5)


def rms_norm(m: QdqModel, x: str, channels: int, rng: np.random.Generator) -> str:
    """Written out: the operator is younger than the models that have it."""
    gain = m.constant(rng.uniform(0.5, 2, channels).astype(np.float32))
    mean = m.op("ReduceMean", m.op("Mul", x, x), m.constant(np.array([-1])))
    root = m.op("Sqrt", m.op("Add", mean, m.constant(np.float32(1e-5))))
    return m.op("Mul", m.op("Div", x, root), gain)


FORMULAS: dict[str, tuple[Formula, str, float, int]] = {
    "softmax": (softmax, "q_softmax", 1 / 256, -128),
    "layer_norm": (layer_norm, "q_layer_norm", 0.05, 4),
    "rms_norm": (rms_norm, "q_rms_norm", 0.05, 0),
    "negative_gains": (negative_gains, "q_layer_norm", 0.05, -9),
}
"""Formula, its operator, and scale and zero point of the result."""


WIDE_SCALE = 0.0005
"""Of results of 16 bits."""

NORMS = ("layer_norm", "rms_norm", "negative_gains")


def model_of(
    name: str, shape: tuple[int, ...], dtype: str = "int8", *, wide_result: bool = False
) -> onnx.ModelProto:
    """The operand has `dtype`, the result 8 bits or 16."""
    formula, _, scale, zero_point = FORMULAS[name]
    rng = np.random.default_rng(len(shape))
    maker = QdqModel(21)
    x = maker.input("x", shape)
    if dtype == "int16":
        x, dtype = maker.requantized(x, 0.0004, 0, dtype), "int8"
    else:
        x = maker.requantized(x, 0.05, 131 if dtype == "uint8" else 3, dtype)
    offset = 128 if dtype == "uint8" else 0
    result = formula(maker, x, shape[-1], rng)
    if wide_result:
        return maker.model(maker.requantized(result, WIDE_SCALE, 0, "int16", output="y"))
    y = maker.requantized(result, scale, zero_point + offset, dtype, output="y")
    return maker.model(y)


def compiled(model: onnx.ModelProto) -> Artifact:
    return daedal.compile(model.SerializeToString(), variant_with_rows(), host=None)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("shape", [(1, 20, 40), (2, 3, 7, 16), (5, 33), (9,)])
@pytest.mark.parametrize("name", FORMULAS)
def test_near_onnxruntime(name: str, shape: tuple[int, ...], dtype: str) -> None:
    model, (_, op, scale, _) = model_of(name, shape, dtype), FORMULAS[name]
    graph: Graph = lower(model, rows=True)
    assert [node.op for node in graph.nodes].count(op) == 1
    inputs = {"x": np.random.default_rng(1).normal(0, 2, shape).astype(np.float32)}
    (found,) = run(graph, inputs).values()
    (expected,) = run_onnxruntime(model, inputs)
    assert np.abs(found - expected).max() <= 1.01 * scale


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("name", NORMS)
def test_wide_results_are_near_onnxruntime(name: str, dtype: str) -> None:
    """A row's 1/sigma has an error of 1/1000 at most, which all its elements share."""
    shape = (1, 20, 40)
    model = model_of(name, shape, dtype, wide_result=True)
    graph: Graph = lower(model, rows=True)
    (node,) = (node for node in graph.nodes if node.op == FORMULAS[name][1])
    assert graph.types[node.output].dtype == "int16"
    inputs = {"x": np.random.default_rng(1).normal(0, 2, shape).astype(np.float32)}
    (found,) = run(graph, inputs).values()
    (expected,) = run_onnxruntime(model, inputs)
    assert (np.abs(found - expected) <= 0.0015 * np.abs(expected) + 4 * WIDE_SCALE).all()


@pytest.mark.parametrize(
    ("shape", "dtype"), [((2, 21, 75), "int16"), ((1, 50, 64), "int16"), ((1, 33, 64), "int8")]
)
@pytest.mark.parametrize("name", NORMS)
def test_wide_results_on_the_machine(name: str, shape: tuple[int, ...], dtype: str) -> None:
    model = model_of(name, shape, dtype, wide_result=True)
    artifact = compiled(model)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    assert [layer.op for layer in launch.layers] == [FORMULAS[name][1]]
    inputs = {"x": np.random.default_rng(2).normal(0, 2, shape).astype(np.float32)}
    found = check_layers(artifact, model.SerializeToString(), inputs)
    assert found.passed, found.first_difference


def pair_of_norms(shape: tuple[int, ...], kind: str) -> onnx.ModelProto:
    """A norm of 16 bits, and one of 8 bits with other gains and another bias."""
    rng = np.random.default_rng(7)
    maker = QdqModel(21)
    x = maker.requantized(maker.input("x", shape), 0.0004, 0, "int16")
    gain = rng.uniform(0.5, 2, shape[-1]) * rng.choice([-1, 1], shape[-1])
    results = []
    for factor, dtype, scale, zero_point, name in (
        (1.0, "int16", WIDE_SCALE, 0, "y"),
        (rng.uniform(0.5, 2, shape[-1]), "int8", 0.05, -3, "t"),
    ):
        operands = [maker.constant((gain * factor).astype(np.float32))]
        if kind == "LayerNormalization":
            operands.append(maker.constant(rng.normal(0, 0.5, shape[-1]).astype(np.float32)))
        norm = maker.op(kind, x, *operands, axis=-1, epsilon=1e-5)
        results.append(maker.requantized(norm, scale, zero_point, dtype, output=name))
    return maker.model(*results)


@pytest.mark.parametrize("shape", [(1, 50, 64), (2, 21, 75)])
def test_two_norms_of_one_tensor_share_their_work(shape: tuple[int, ...]) -> None:
    """The second one is a change of scale, and finds the result of the first in the
    accumulators."""
    model = pair_of_norms(shape, "LayerNormalization")
    artifact = compiled(model)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    assert [layer.op for layer in launch.layers] == ["q_layer_norm", "q_channel_requantize"]
    inputs = {"x": np.random.default_rng(2).normal(0, 2, shape).astype(np.float32)}
    found = check_layers(artifact, model.SerializeToString(), inputs)
    assert found.passed, found.first_difference
    graph = lower(model, rows=True)
    for got, expected in zip(
        run(graph, inputs).values(), run_onnxruntime(model, inputs), strict=True
    ):
        assert np.abs(got - expected).max() <= 0.051


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 150, 40), "int8"),
        ((2, 21, 75), "int16"),
        ((1, 33, 64), "int8"),
        ((1, 50, 64), "int16"),
        ((1, 3, 5), "uint8"),
    ],
)
@pytest.mark.parametrize("name", FORMULAS)
def test_on_the_machine(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Several tiles of pixels, padding channels or none, blocks that fill no chunk."""
    model = model_of(name, shape, dtype)
    artifact = compiled(model)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    assert [layer.op for layer in launch.layers] == [FORMULAS[name][1]]
    inputs = {"x": np.random.default_rng(2).normal(0, 2, shape).astype(np.float32)}
    found = check_layers(artifact, model.SerializeToString(), inputs)
    assert found.passed, found.first_difference


def test_stays_float_without_the_operations() -> None:
    graph = lower(model_of("softmax", (1, 20, 40)))
    assert "softmax" in [node.op for node in graph.nodes]


def test_the_host_computes_a_softmax_of_16_bits() -> None:
    maker, rng = QdqModel(21), np.random.default_rng(0)
    x = maker.requantized(maker.input("x", (1, 20, 40)), 0.05, 3)
    normed = maker.requantized(layer_norm(maker, x, 40, rng), 0.05, 4)
    wide = maker.requantized(softmax(maker, normed, 40, rng), 2.0**-15, 0, "int16", output="y")
    artifact = compiled(maker.model(wide))
    reasons = {item.op: item.why for item in artifact.placements}
    expected = "its result has 16 bits, and a softmax gives 8 on the accelerator"
    assert reasons["Softmax"] == expected
