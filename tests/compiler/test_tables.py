"""Networks with activations on variants with tables: one launch, equal to the integer reference."""

import numpy as np
import onnx
import pytest

import daedal
from bench.float_network import FloatNetwork
from bench.networks.activation_network import activation_network, samples_for
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.checking.layer_check import check_layers
from daedal.compiler.frontend import load_onnx
from daedal.compiler.pipeline import compile_graph
from daedal.isa.table import AluOp, Opcode
from daedal.isa.variant import Variant, load_variant
from tests.compiler.graph.test_function_rule import number, silu
from tests.support.networks import check_compiled

VTA = load_variant("vta")
TABLES = VTA.replace("tables", tables=4)


@pytest.mark.parametrize("activation", ["SiLU", "GELU"])
def test_three_stages_in_one_launch(activation: str) -> None:
    """Each layer at most one from onnxruntime, and the machine's bytes those of the reference."""
    model = daedal.quantize(activation_network(activation).SerializeToString(), samples_for(1, 4))
    artifact = daedal.compile(model, TABLES)
    (launch,) = artifact.launches
    operators = [layer.op for layer in launch.layers]
    assert sum("lookup" in name for name in operators) == 10 and "q_requantize" not in operators
    graph, inputs = processor_graph(model, TABLES), {"x": samples_for(2, 1)}
    differences = compare_operators(onnx.load_from_string(model), graph, inputs)
    assert len(differences) > 20 and max(item.largest for item in differences) <= 1
    check = check_layers(artifact, model, inputs)
    assert check.passed and len(check.tensors) >= len(operators)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("tables", [1, 2])
def test_machine_and_integer_reference(tables: int, dtype: str, rng: np.random.Generator) -> None:
    """Tables behind a convolution, a depthwise one, a sum, a pool and nothing, and a concat whose
    operands have other scales."""
    offset = 128 if dtype == "uint8" else 0
    maker = QdqModel(20)

    def between(x: str, scale: float, zero_point: int) -> str:
        return maker.requantized(x, scale, zero_point + offset, dtype)

    def conv(x: str, inner: int, outer: int, kernel: int, groups: int = 1) -> str:
        values = rng.integers(-40, 41, (outer, inner // groups, kernel, kernel)).astype(np.int8)
        weights = maker.weights(values, rng.uniform(0.001, 0.004, outer))
        y = maker.op("Conv", x, weights, pads=[kernel // 2] * 4, group=groups)
        return between(y, 0.04, 7)

    x = maker.dequantize(maker.input("x", (1, 20, 9, 7), dtype), 0.02, 3 + offset, dtype)
    first = between(silu(maker, conv(x, 20, 24, 3)), 0.02, -110)
    second = between(maker.op("Tanh", conv(first, 24, 24, 3, 24)), 1 / 128, 0)
    total = between(maker.op("Add", first, second), 0.03, -20)
    third = between(maker.op("Elu", total), 0.02, -70)
    pool = maker.op("MaxPool", third, kernel_shape=[3, 3], pads=[1] * 4)
    fourth = between(maker.op("Exp", maker.op("Neg", maker.op("Abs", pool))), 1 / 255, -128)
    scaled = maker.op("Mul", maker.op("Sigmoid", x), number(maker, 3))
    joined = maker.op("Concat", fourth, between(scaled, 0.012, -128), axis=1)
    maker.quantize(joined, 0.012, -100 + offset, dtype, output="y")
    model = maker.model("y", dtype=dtype)
    variant = VTA.replace("tables", tables=tables)
    compiled = compile_graph(load_onnx(model.SerializeToString()), variant, host=None)
    operators = [layer.op for layer in compiled.launch.layers]
    assert sum("lookup" in name for name in operators) == 5
    check_compiled(compiled, rng)
    graph = processor_graph(model.SerializeToString(), variant)
    values = {"x": rng.integers(0, 256, (1, 20, 9, 7)).astype(np.uint8).view(dtype)}
    assert max(item.largest for item in compare_operators(model, graph, values)) <= 1


def test_a_table_costs_no_operation() -> None:
    """The program has the same ALU instructions as with ReLU, but LOOKUP in place of REQUANTIZE."""

    def operations(activation: str, variant: Variant) -> list[AluOp]:
        model = daedal.quantize(
            activation_network(activation).SerializeToString(), samples_for(1, 1), method="minmax"
        )
        (launch,) = daedal.compile(model, variant).launches
        every = launch.program.instructions
        return [AluOp(item.operation) for item in every if item.opcode is Opcode.ALU]

    before, after = operations("ReLU", VTA), operations("SiLU", TABLES)
    assert after.count(AluOp.LOOKUP) > 10
    plain = [AluOp.REQUANTIZE if item is AluOp.LOOKUP else item for item in after]
    assert plain == before


def test_tokens(rng: np.random.Generator) -> None:
    """Two layers over tokens with GELU between: the table follows the product, not the reshapes."""
    net = FloatNetwork(rng, 20)

    def layer(x: str, inner: int, outer: int) -> str:
        product = net.op("MatMul", x, net.normal(inner, outer, scale=inner**-0.5))
        return net.op("Add", product, net.normal(outer, scale=0.1))

    x = layer(net.input("x", (1, 12, 16)), 16, 40)
    erf = net.op("Erf", net.op("Div", x, number(net, 2**0.5)))
    gelu = net.op("Mul", net.op("Mul", x, net.op("Add", erf, number(net, 1))), number(net, 0.5))
    net.op("Identity", layer(gelu, 40, 16), output="y")
    samples = rng.normal(size=(4, 12, 16)).astype(np.float32)
    model = daedal.quantize(net.model("y").SerializeToString(), samples)
    artifact = daedal.compile(model, TABLES)
    (launch,) = artifact.launches
    assert [layer.op for layer in launch.layers] == ["q_conv2d_lookup", "q_conv2d"]
    assert check_layers(artifact, model, {"x": samples[:1]}).passed
    graph = processor_graph(model, TABLES)
    found = compare_operators(onnx.load_from_string(model), graph, {"x": samples[:1]})
    assert max(item.largest for item in found) <= 1


def test_what_follows_a_table_becomes_part_of_it(rng: np.random.Generator) -> None:
    """A change of scale behind a table, and a bound with it; two readers keep what they read."""

    def compiled(twice: bool) -> list[str]:
        maker = QdqModel(20)
        x = maker.dequantize(maker.input("x", (1, 16, 5, 5), "int8"), 0.05, 3)
        gate = maker.requantized(maker.op("Tanh", x), 1 / 128, 0, output="gate")
        y = maker.op("Relu", maker.requantized(gate, 0.01, 4))
        maker.quantize(y, 0.02, -100, output="y")
        model = maker.model(*(("gate", "y") if twice else ("y",)), dtype="int8")
        result = compile_graph(load_onnx(model.SerializeToString()), TABLES, host=None)
        check_compiled(result, rng)
        return [layer.op for layer in result.launch.layers]

    assert compiled(False) == ["q_requantize_lookup"]
    assert compiled(True)[0] == "q_requantize_lookup" and len(compiled(True)) > 1


def test_all_that_depends_on_one_tensor_is_one_table() -> None:
    """Over a sum of two of its functions, each quantized."""
    maker = QdqModel(20)
    x = maker.dequantize(maker.input("x", (1, 16, 5, 5), "int8"), 0.05, 3)
    gates = (maker.requantized(maker.op(name, x), 1 / 128, 0) for name in ("Tanh", "Sigmoid"))
    maker.quantize(maker.op("Add", *gates), 0.02, -100, output="y")
    graph = load_onnx(maker.model("y", dtype="int8").SerializeToString())
    result = compile_graph(graph, TABLES, host=None)
    assert [layer.op for layer in result.launch.layers] == ["q_requantize_lookup"]
