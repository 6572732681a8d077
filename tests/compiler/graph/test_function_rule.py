"""Functions of one quantized tensor become tables: at most one from onnxruntime, at every value."""

import math
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import run
from daedal.compiler.graph.passes.lowering import function_rule
from tests.compiler.graph.qdq_models import lower

Formula = Callable[[QdqModel, str], str]

SHAPE = (1, 4, 8, 8)
VALUES = np.arange(256).reshape(SHAPE)


def number(maker: QdqModel, value: float) -> str:
    return maker.constant(np.array(value, dtype=np.float32))


def simple(op_type: str, **attrs: object) -> Formula:
    return lambda m, x: m.op(op_type, x, **attrs)


def silu(m: QdqModel, x: str) -> str:
    return m.op("Mul", x, m.op("Sigmoid", x))


def silu_in_steps(m: QdqModel, x: str) -> str:
    """As a quantizer without fusion writes it: the gate is quantized, too."""
    return m.op("Mul", x, m.requantized(m.op("Sigmoid", x), 1 / 256, -128))


def gelu(m: QdqModel, x: str) -> str:
    inner = m.op("Erf", m.op("Div", x, number(m, math.sqrt(2))))
    return m.op("Mul", m.op("Mul", x, m.op("Add", inner, number(m, 1))), number(m, 0.5))


def gelu_by_tanh(m: QdqModel, x: str) -> str:
    cube = m.op("Mul", m.op("Pow", x, number(m, 3)), number(m, 0.044715))
    inner = m.op("Mul", m.op("Add", x, cube), number(m, math.sqrt(2 / math.pi)))
    half = m.op("Mul", number(m, 0.5), x)
    return m.op("Mul", half, m.op("Add", number(m, 1), m.op("Tanh", inner)))


def mish_in_steps(m: QdqModel, x: str) -> str:
    soft = m.requantized(m.op("Softplus", x), 0.04, -128)
    return m.op("Mul", x, m.requantized(m.op("Tanh", soft), 1 / 127, 0))


def reciprocal(m: QdqModel, x: str) -> str:
    """Of values that are not 0."""
    return m.op("Reciprocal", m.op("Add", m.op("Abs", x), number(m, 0.5)))


def root(m: QdqModel, x: str) -> str:
    return m.op("Sqrt", m.op("Max", x, number(m, 0.0)))


def branches(m: QdqModel, x: str) -> str:
    positive = m.op("Greater", x, number(m, 0.25))
    return m.op("Where", positive, m.op("Sin", x), m.op("Neg", x))


FUNCTIONS: dict[str, Formula] = {
    "sigmoid": simple("Sigmoid"),
    "tanh": simple("Tanh"),
    "silu": silu,
    "silu in steps": silu_in_steps,
    "gelu": gelu,
    "gelu by tanh": gelu_by_tanh,
    "Gelu": simple("Gelu"),
    "Gelu by tanh": simple("Gelu", approximate="tanh"),
    "HardSwish": simple("HardSwish"),
    "HardSigmoid": simple("HardSigmoid"),
    "Mish": simple("Mish"),
    "mish in steps": mish_in_steps,
    "Elu": simple("Elu", alpha=0.7),
    "Selu": simple("Selu"),
    "Celu": simple("Celu"),
    "Softplus": simple("Softplus"),
    "Softsign": simple("Softsign"),
    "Exp": lambda m, x: m.op("Exp", m.op("Neg", m.op("Abs", x))),
    "LeakyRelu": simple("LeakyRelu", alpha=0.1),
    "Reciprocal": reciprocal,
    "Sqrt": root,
    "root of negative numbers, too": simple("Sqrt"),
    "steps without a number": lambda m, x: m.op(
        "Exp", m.requantized(m.op("Div", x, m.op("Relu", x)), 0.05, 3)
    ),
    "branches": branches,
    "shifted": lambda m, x: m.op("Add", x, number(m, 0.3)),
    "negated": simple("Neg"),
    "relu of silu": lambda m, x: m.op("Relu", silu(m, x)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value(name: str, dtype: str, rng: np.random.Generator) -> None:
    offset = 128 if dtype == "uint8" else 0
    for _ in range(2):
        scale, zero_point = rng.uniform(0.01, 0.08), int(rng.integers(-90, 60))
        maker = QdqModel(20)
        x = maker.input("x", SHAPE, dtype)
        real = maker.dequantize(x, scale, zero_point + offset, dtype)
        result = FUNCTIONS[name](maker, real)
        step = rng.uniform(0.01, 0.05)
        maker.quantize(result, step, int(rng.integers(-100, 100)) + offset, dtype, output="y")
        model = maker.model("y", dtype=dtype)
        graph = lower(model, tables=True)
        operators = [node.op for node in graph.nodes if node.op != "flip_sign"]
        assert operators == ["q_requantize_lookup", *["reshape"] * (len(operators) - 1)]
        values = {"x": (VALUES - 128 + offset).astype(dtype)}
        (expected,) = run_onnxruntime(model, values)
        found = run(graph, values)["y"]
        assert found.dtype == expected.dtype
        apart = np.abs(found.astype(int) - expected.astype(int)).max()
        assert apart <= 1, f"scale {scale}, zero point {zero_point}, step {step}: {apart} apart"


def operators(maker: QdqModel, dtype: str = "int8") -> list[str]:
    return [node.op for node in lower(maker.model("y", dtype=dtype), tables=True).nodes]


def test_a_change_of_scale_has_no_table() -> None:
    for step in (lambda m, x: m.op("Relu", x), lambda m, x: m.op("Mul", x, number(m, 2))):
        maker = QdqModel(20)
        real = maker.dequantize(maker.input("x", SHAPE, "int8"), 0.05, 3)
        maker.quantize(step(maker, real), 0.07, 3, output="y")
        assert operators(maker) == ["q_requantize"]


def test_two_tensors_or_channels_are_no_function_of_one() -> None:
    maker = QdqModel(20)
    a, b = (maker.dequantize(maker.input(name, SHAPE, "int8"), 0.05, 3) for name in "ab")
    maker.quantize(maker.op("Mul", a, maker.op("Sigmoid", b)), 0.07, 3, output="y")
    assert "q_requantize_lookup" not in operators(maker)
    maker = QdqModel(20)
    x = maker.dequantize(maker.input("x", SHAPE, "int8"), 0.05, 3)
    slopes = maker.constant(np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32).reshape(4, 1, 1))
    maker.quantize(maker.op("PRelu", x, slopes), 0.07, 3, output="y")
    assert "q_requantize_lookup" not in operators(maker)


def test_a_chain_is_one_table_unless_something_reads_between(rng: np.random.Generator) -> None:
    def chain(*outputs: str) -> QdqModel:
        maker = QdqModel(20)
        x = maker.dequantize(maker.input("x", SHAPE, "int8"), 0.05, 3)
        gate = maker.requantized(maker.op("Sigmoid", x), 1 / 255, -128, output="gate")
        maker.quantize(maker.op("Tanh", gate), 1 / 127, 0, output="y")
        return maker

    maker = chain()
    model, both = maker.model("y", dtype="int8"), maker.model("gate", "y", dtype="int8")
    lookups = [node for node in lower(model, tables=True).nodes if "lookup" in node.op]
    assert [node.inputs[0] for node in lookups] == ["x"]
    lookups = [node for node in lower(both, tables=True).nodes if "lookup" in node.op]
    assert [node.inputs[0] for node in lookups] == ["x", "gate"]
    values = {"x": (VALUES - 128).astype(np.int8)}
    expected = run_onnxruntime(both, values)
    found = run(lower(both, tables=True), values)
    for name, array in zip(("gate", "y"), expected, strict=True):
        assert np.abs(found[name].astype(int) - array.astype(int)).max() <= 1


def test_each_node_of_a_chain_is_evaluated_once() -> None:
    """The table of a function of a function begins with the values of the inner one."""
    maker = QdqModel(20)
    x = maker.dequantize(maker.input("x", SHAPE, "int8"), 0.05, 3)
    for _ in range(80):
        x = maker.requantized(silu(maker, x), 0.05, -3)
    with patch.object(function_rule, "_evaluated", wraps=function_rule._evaluated) as evaluated:
        graph = lower(maker.model(x), tables=True)
    lookups = [node for node in graph.nodes if node.op == "q_requantize_lookup"]
    assert [node.inputs[0] for node in lookups] == ["x"]
    assert evaluated.call_count == len({call.args[0].output for call in evaluated.mock_calls})


def test_pooling_between(rng: np.random.Generator) -> None:
    """The largest real is that of the largest integer, so a table can follow a pool."""
    maker = QdqModel(20)
    x = maker.dequantize(maker.input("x", SHAPE, "uint8"), 0.05, 130, "uint8")
    pool = maker.op("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2))
    maker.quantize(silu(maker, pool), 0.03, 20, "uint8", output="y")
    model = maker.model("y", dtype="uint8")
    graph = lower(model, tables=True)
    assert {"q_max_pool", "q_requantize_lookup"} <= {node.op for node in graph.nodes}
    values = {"x": rng.integers(0, 256, SHAPE).astype(np.uint8)}
    (expected,) = run_onnxruntime(model, values)
    assert np.abs(run(graph, values)["y"].astype(int) - expected.astype(int)).max() <= 1
