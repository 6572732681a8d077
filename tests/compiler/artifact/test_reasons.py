"""Why nodes run on the host: what could run on the accelerator is told that it is not quantized."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Placement
from daedal.common.errors import ModelError
from daedal.compiler.artifact import missing_parts
from daedal.isa.variant import load_variant

Maker = Callable[[QdqModel, str], str]

ROWS = (
    "the variant has no tables, units.lane_reductions or units.wide_requantize, which would "
    "compute it (variants that have it: attention)"
)
TABLE = (
    "the variant has no tables (memory.tables), which would compute it (variants that have it: "
    "attention)"
)
UNQUANTIZED = "it does not stand between DequantizeLinear and QuantizeLinear"


def placed(rng: np.random.Generator, inner: Maker, *, quantized: bool = False) -> list[Placement]:
    """A convolution, `inner`, and an Erf, which no importer takes."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 4, 6, 6)), 0.05, 3)
    weights = maker.weights(rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8), 0.01)
    x = maker.requantized(maker.op("Conv", x, weights), 0.08, 3)
    y = inner(maker, x)
    y = maker.requantized(y, 0.08, 3) if quantized else y
    model = maker.model(maker.op("Erf", y))
    return list(daedal.compile(model.SerializeToString(), "tiny", host=None).placements)


def number(maker: QdqModel, value: float) -> str:
    return maker.constant(np.float32(value))


INNER: dict[str, Maker] = {
    "Add": lambda m, x: m.op("Add", x, x),
    "AveragePool": lambda m, x: m.op("AveragePool", x, kernel_shape=[2, 2]),
    "Clip": lambda m, x: m.op("Clip", x, number(m, 0), number(m, 6)),
    "Concat": lambda m, x: m.op("Concat", x, x, axis=1),
    "GlobalAveragePool": lambda m, x: m.op("GlobalAveragePool", x),
    "GlobalMaxPool": lambda m, x: m.op("GlobalMaxPool", x),
    "HardSigmoid": lambda m, x: m.op("HardSigmoid", x),
    "LeakyRelu": lambda m, x: m.op("LeakyRelu", x),
    "Max": lambda m, x: m.op("Max", x, number(m, 1)),
    "MaxPool": lambda m, x: m.op("MaxPool", x, kernel_shape=[2, 2]),
    "Mul": lambda m, x: m.op("Mul", x, x),
    "Pad": lambda m, x: m.op("Pad", x, m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))),
    "Relu": lambda m, x: m.op("Relu", x),
    "Slice": lambda m, x: m.op("Slice", x, *(m.constant(np.array([v])) for v in (0, 2, 1))),
    "Sub": lambda m, x: m.op("Sub", x, x),
}


@pytest.mark.parametrize("op", INNER)
def test_what_could_run_on_the_accelerator(op: str, rng: np.random.Generator) -> None:
    """Its operands are quantized, and its result is not."""
    (found,) = (item for item in placed(rng, INNER[op]) if item.op == op)
    assert (found.where, found.why) == ("host", UNQUANTIZED)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("Flatten", "it only tells in which order the host reads the elements"),
        ("Transpose", "LOAD and STORE move whole rows and cannot transpose"),
    ],
)
def test_another_order_of_quantized_elements(
    op: str, reason: str, rng: np.random.Generator
) -> None:
    """It is the same for integers, so that its result is not quantized is no reason."""
    orders = {"Transpose": {"perm": [0, 2, 1, 3]}}
    nodes = placed(rng, lambda m, x: m.op(op, x, **orders.get(op, {})))
    (found,) = (item for item in nodes if item.op == op)
    assert (found.where, found.why) == ("host", reason)


def test_results_that_are_quantized_of_operands_that_are_not(rng: np.random.Generator) -> None:
    nodes = placed(rng, lambda m, x: m.op("Relu", m.op("LRN", x, size=3)), quantized=True)
    (relu,) = (item for item in nodes if item.op == "Relu")
    assert (relu.where, relu.why) == ("host", UNQUANTIZED)
    (norm,) = (item for item in nodes if item.op == "LRN")
    assert norm.why == "the accelerator has no such operator"


def test_every_operator_of_a_function_has_the_reason(rng: np.random.Generator) -> None:
    """A table would compute all of them; with one, none is left on the host."""

    def gelu(maker: QdqModel, x: str) -> str:
        one = maker.constant(np.array(1, dtype=np.float32))
        return maker.op("Mul", x, maker.op("Add", maker.op("Erf", x), one))

    *nodes, _last = placed(rng, gelu, quantized=True)
    found = [(item.op, item.where, item.why) for item in nodes if item.op in ("Add", "Erf", "Mul")]
    assert sorted(found) == [(op, "host", TABLE) for op in ("Add", "Erf", "Mul")]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("Sigmoid", TABLE),
        ("Tanh", TABLE),
        ("Softmax", ROWS),
    ],
)
def test_what_the_accelerator_cannot_run(
    op: str, reason: str, quantized: bool, rng: np.random.Generator
) -> None:
    """To quantize it would not help."""
    nodes = placed(rng, lambda m, x: m.op(op, x), quantized=quantized)
    (found,) = (item for item in nodes if item.op == op)
    assert (found.where, found.why) == ("host", reason)


def test_reasons_do_not_spread_to_other_operators(rng: np.random.Generator) -> None:
    """Exp, whose result is reshaped and added up in floating point, has a reason of its own."""

    def inner(maker: QdqModel, x: str) -> str:
        rows = maker.op("Reshape", maker.op("Exp", x), maker.constant(np.array([1, 4, 36])))
        return maker.op("Add", rows, rows)

    reasons = {item.op: item.why for item in placed(rng, inner)}
    assert reasons["Exp"] == TABLE
    assert reasons["Reshape"] == reasons["Add"] == UNQUANTIZED


def test_tensors_that_stay_on_the_host_are_no_borders(rng: np.random.Generator) -> None:
    nodes = placed(
        rng, lambda m, x: m.op("Neg", m.requantized(m.op("Neg", x), 0.08, 3)), quantized=True
    )
    reasons = [item.why for item in nodes if item.where == "host" and "Linear" in item.op]
    meet, around = "host and accelerator meet here", "the host computes what is around it"
    assert reasons == [meet, meet, around, around, around, around]


def test_a_product_whose_result_is_transposed_for_the_host(rng: np.random.Generator) -> None:
    """The driver swaps rows and columns. The nodes have the names of their tensors, as the
    transpose that the compiler adds has."""
    maker = QdqModel()
    a = maker.requantized(maker.input("a", (2, 9, 16)), 0.05, 3, output="a_q")
    b = maker.requantized(maker.input("b", (2, 16, 10)), 0.05, -2, output="b_q")
    product = maker.requantized(maker.op("MatMul", a, b), 0.1, 4, output="product_q")
    model = maker.model(maker.op("Erf", product))
    for node in model.graph.node:
        node.name = node.output[0]
    data = model.SerializeToString()
    artifact = daedal.compile(data, "tiny", host=None, cpu_levels=())
    assert artifact.host_quantized == {"a_q", "b_q"}
    inputs = {item.name: rng.normal(size=item.shape).astype("f") for item in artifact.inputs}
    assert daedal.check_layers(artifact, data, inputs).passed


def convolution(maker: QdqModel, x: str) -> str:
    values = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    return maker.op("Conv", x, maker.weights(values, 0.01))


def test_a_layer_before_an_operator_of_the_host_is_not_quantized(rng: np.random.Generator) -> None:
    """Its result passes through the Clip as floats, although a QuantizeLinear follows."""

    def inner(maker: QdqModel, x: str) -> str:
        low = maker.dequantize(maker.constant(np.int8(0)), 0.05, 0)
        return maker.op("Clip", convolution(maker, x), low, number(maker, 6))

    reasons = [item.why for item in placed(rng, inner, quantized=True) if item.op == "Conv"]
    assert reasons[1] == UNQUANTIZED


def test_a_reduction_is_no_change_of_order(rng: np.random.Generator) -> None:
    """Although the graph has a reshape behind it."""

    def inner(maker: QdqModel, x: str) -> str:
        return maker.op("ReduceMean", x, axes=[2, 3], keepdims=0)

    (found,) = (item for item in placed(rng, inner) if item.op == "ReduceMean")
    assert found.why == UNQUANTIZED


def of_type(dtype: str) -> Maker:
    def inner(maker: QdqModel, x: str) -> str:
        return maker.op("Relu", maker.requantized(x, 0.01, 3, dtype))

    return inner


def test_types_that_the_accelerator_has_not_are_named(rng: np.random.Generator) -> None:
    (found,) = (item for item in placed(rng, of_type("uint16")) if item.op == "Relu")
    assert found.why.startswith("the accelerator does not compute with UINT16, the type of ")


def test_a_minimum_of_two_tensors_is_named(rng: np.random.Generator) -> None:
    def inner(maker: QdqModel, x: str) -> str:
        return maker.op("Min", x, maker.requantized(convolution(maker, x), 0.1, 0))

    (found,) = (item for item in placed(rng, inner, quantized=True) if item.op == "Min")
    assert found.why.startswith("the accelerator has no minimum of two tensors")


def test_a_model_without_a_layer_that_fits_says_why() -> None:
    maker = QdqModel()
    weights = maker.weights(np.ones((3, 2), np.int8), 0.01)
    x = maker.requantized(maker.input("x", (4, 3)), 0.05, 0)
    y = maker.requantized(maker.op("Gemm", x, weights, alpha=0.5), 0.1, 0)
    with pytest.raises(
        ModelError, match=r"has none that it can run: .* alpha and beta must be 1, or .* not 0.5"
    ):
        daedal.compile(maker.model(y).SerializeToString(), "tiny", host=None)


def test_a_model_of_wide_integers_says_so() -> None:
    maker = QdqModel(opset=21)
    x = maker.requantized(maker.input("x", (1, 4, 6, 6)), 0.05, 3, "uint16")
    model = maker.model(convolution(maker, x)).SerializeToString()
    with pytest.raises(ModelError, match=r"int8 \(QDQ\), and '.*' of 'small' is UINT16, which"):
        daedal.compile(model, "tiny")


def test_variants_that_would_run_it_are_found_by_their_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a variant that has tables and reductions already, the rest is named alone."""
    attention, tiny = load_variant("attention"), load_variant("tiny")
    units = dataclasses.replace(attention.units, wide_requantize=False)
    half = dataclasses.replace(attention, units=units)
    shipped = {"full": attention, "half": half, "tiny": tiny}
    monkeypatch.setattr(missing_parts, "shipped_machines", lambda: shipped)
    found = missing_parts.names_lacking(half, missing_parts.ROWS)
    assert found == ("units.wide_requantize", " (variants that have it: full)")
    lacking, others = missing_parts.names_lacking(tiny, missing_parts.TABLES)
    assert (lacking, others) == ("tables (memory.tables)", " (variants that have it: full, half)")


def test_dequantized_weights_of_a_layer_on_the_host_are_no_work(rng: np.random.Generator) -> None:
    def gemm(maker: QdqModel, x: str) -> str:
        row = maker.op("Flatten", maker.op("Erf", x))
        weights = maker.weights(rng.integers(-127, 128, (144, 8)).astype(np.int8), 0.01)
        return maker.op("MatMul", row, weights)

    placements = placed(rng, gemm)
    (product,) = (item for item in placements if item.op == "MatMul")
    assert product.where == "host"
    constants = [item for item in placements if item.op == "DequantizeLinear" and not item.why]
    assert [item.where for item in constants] == ["folded"] * 3, "two weights, an operand"
