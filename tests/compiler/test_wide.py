"""Networks with 16-bit tensors on variants with wide results: one launch, equal to the integer
reference, and each operator at most one from onnxruntime."""

from itertools import product

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.checking.layer_check import check_layers
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run
from daedal.compiler.pipeline import compile_graph
from daedal.isa.instruction import Instruction
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from tests.support.networks import check_compiled

OPSET = 21
"""The first one with quantization to int16."""

INT16 = np.iinfo(np.int16)


def wide(name: str) -> Variant:
    return load_variant(name).replace(wide_requantize=True)


def dense(
    maker: QdqModel, x: str, inner: int, outer: int, rng: np.random.Generator, scale: float = 0.01
) -> str:
    values = rng.integers(-127, 128, (inner, outer)).astype(np.int8)
    scales = rng.uniform(0.5, 1, outer) * scale
    return maker.op("MatMul", x, maker.weights(values, scales, axis=1))


def stream_model(rng: np.random.Generator, channels: int, rows: int = 3) -> onnx.ModelProto:
    """A residual stream of 16 bits: two products that are added, an 8-bit product and a constant
    added to that, and a product of the sum in 8 bits."""
    maker = QdqModel(OPSET)
    x = maker.dequantize(maker.input("x", (rows, 24), "int8"), 0.03, 3)

    def kept(value: str, name: str, full: float) -> str:
        return maker.requantized(value, full / INT16.max, 0, "int16", name)

    a = kept(dense(maker, x, 24, channels, rng), "a", 30)
    b = kept(dense(maker, x, 24, channels, rng), "b", 40)
    c = maker.requantized(dense(maker, x, 24, channels, rng), 0.2, -5, output="c")
    first = kept(maker.op("Add", a, b), "first", 44)
    second = kept(maker.op("Add", c, first), "second", 50)
    values = rng.integers(INT16.min, INT16.max + 1, (rows, channels)).astype(np.int16)
    constant = maker.dequantize(maker.constant(values), 5 / INT16.max, 0, "int16")
    third = kept(maker.op("Sub", second, constant), "third", 52)
    small = maker.requantized(third, 0.4, 7, output="small")
    maker.quantize(dense(maker, small, channels, 10, rng), 0.5, -2, output="y")
    return maker.model("y", dtype="int8")


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        *(("vta", channels) for channels in (16, 40, 100)),
        *((name, 40) for name in ("attention", "ecp5", "tiny")),
        *(
            pytest.param(name, channels, marks=pytest.mark.slow)
            for name, channels in product(("attention", "ecp5", "tiny"), (16, 100))
        ),
    ],
)
def test_a_residual_stream(name: str, channels: int, rng: np.random.Generator) -> None:
    model = stream_model(rng, channels)
    data, variant = model.SerializeToString(), wide(name)
    artifact = daedal.compile(data, variant, host=None)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    (launch,) = artifact.launches
    operators = [layer.op for layer in launch.layers]
    assert operators.count("q_conv2d_add") == 2 and "q_add" in operators
    inputs = {"x": rng.integers(-128, 128, (3, 24)).astype(np.int8)}
    found = check_layers(artifact, data, inputs)
    assert found.passed and len(found.tensors) == len(operators)
    differences = compare_operators(model, processor_graph(data, variant), inputs)
    assert len(differences) == 8 and max(item.largest for item in differences) <= 1


def test_variants_without_wide_results(rng: np.random.Generator) -> None:
    """The host computes what has 16 bits, and the report tells why."""
    model = stream_model(rng, 40)
    data = model.SerializeToString()
    artifact = daedal.compile(data, "vta", host=None)
    adds = [item for item in artifact.placements if item.op in ("Add", "Sub")]
    assert [item.where for item in adds] == ["host"] * 3
    assert {item.why for item in adds} == {
        "it has 16 bits, and the variant has no results of 16 bits (units.wide_requantize) "
        "(variants that have it: attention)"
    }
    inputs = {"x": rng.integers(-128, 128, (3, 24)).astype(np.int8)}
    assert check_layers(artifact, data, inputs).passed


def element_model(kinds: tuple[str, str], result: str, op: str, shape: tuple[int, ...]) -> bytes:
    """A sum of two tensors, or with op "" a change of the first one's scale."""
    scales = {"int8": (0.31, 7), "int16": (0.0011, 0)}
    maker = QdqModel(OPSET)
    inputs = []
    for number, kind in enumerate(kinds if op else kinds[:1]):
        scale, zero_point = scales[kind]
        x = maker.input(f"x{number}", shape, kind)
        inputs.append(maker.dequantize(x, scale * (1 + 0.17 * number), zero_point, kind))
    value = maker.op(op, *inputs) if op else inputs[0]
    maker.quantize(value, scales[result][0] * 1.3, scales[result][1], result, output="y")
    return maker.model("y", dtype=result).SerializeToString()


KINDS = [*product(("int8", "int16"), repeat=3)]


@pytest.mark.parametrize(
    ("kinds", "op"),
    [(kinds, op) for op in ("Add", "Sub") for kinds in KINDS if "int16" in kinds]
    + [(kinds, "") for kinds in KINDS[4:] if kinds[0] == kinds[1]]
    + [(("int8", "int8", "int16"), "")],
)
def test_sums_and_changes_of_scale(
    kinds: tuple[str, str, str], op: str, rng: np.random.Generator
) -> None:
    """All pairs of operands, with results of either width, and the extremes of both."""
    *operands, result = kinds
    shape = (1, 21, 5, 7)
    variant = wide("vta")
    data = element_model((operands[0], operands[1]), result, op, shape)
    compiled = compile_graph(load_onnx(data), variant, host=None)
    (layer,) = compiled.launch.layers
    assert layer.op == ("q_add" if op else "q_requantize")
    check_compiled(compiled, rng)
    graph = processor_graph(data, variant)
    inputs = {}
    for name in graph.inputs:
        limits = np.iinfo(graph.types[name].dtype)
        values = rng.integers(limits.min, limits.max + 1, shape)
        corners = [limits.min, limits.max, 0, limits.min, limits.max, -1]
        values[0, 0].flat[:6] = corners if name == "x0" else sorted(corners)
        inputs[name] = values.astype(limits.dtype)
    (difference,) = compare_operators(onnx.load_from_string(data), graph, inputs)
    assert difference.largest <= 1


def test_products_of_maps(rng: np.random.Generator) -> None:
    """A convolution of a map and one with ReLU, each with a wide result, unfused and fused."""
    maker = QdqModel(OPSET)
    x = maker.dequantize(maker.input("x", (1, 20, 9, 6), "int8"), 0.02, 3)

    def conv(relu: bool) -> str:
        weights = maker.weights(
            rng.integers(-127, 128, (24, 20, 3, 3)).astype(np.int8), rng.uniform(0.001, 0.004, 24)
        )
        y = maker.op("Conv", x, weights, pads=[1] * 4)
        y = maker.op("Relu", y) if relu else y
        return maker.requantized(y, 0.0002, 0, "int16")

    total = maker.op("Add", conv(relu=True), conv(relu=False))
    maker.quantize(total, 0.00031, 0, "int16", output="y")
    model = maker.model("y", dtype="int16")
    data = model.SerializeToString()
    inputs = {"x": rng.integers(-128, 128, (1, 20, 9, 6)).astype(np.int8)}
    differences = compare_operators(model, processor_graph(data, wide("vta")), inputs)
    assert len(differences) == 3 and max(item.largest for item in differences) <= 1
    for fuse, name in product((False, True), ("vta", "tiny", "ecp5")):
        compiled = compile_graph(load_onnx(data), wide(name), fuse=fuse, host=None)
        assert len(compiled.launch.layers) == (2 if fuse else 3)
        check_compiled(compiled, rng)
        for layer in compiled.launch.layers:
            assert layer.bytes_once > 24 * 9 * 6 * 4


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (21, 50)])
def test_products_of_two_tensors(rows: int, columns: int, rng: np.random.Generator) -> None:
    """Scores of 16 bits."""
    maker = QdqModel(OPSET)
    a = maker.dequantize(maker.input("a", (2, rows, 40), "int8"), 0.02, 3)
    b = maker.dequantize(maker.input("b", (2, 40, columns), "int8"), 0.03, -4)
    maker.quantize(maker.op("MatMul", a, b), 0.0015, 0, "int16", output="y")
    model = maker.model("y", dtype="int16")
    compiled = compile_graph(load_onnx(model.SerializeToString()), wide("vta"), host=None)
    assert [layer.op for layer in compiled.launch.layers][-1] == "q_matmul"
    check_compiled(compiled, rng)
    graph = processor_graph(model.SerializeToString(), wide("vta"))
    inputs = {
        name: rng.integers(-128, 128, graph.types[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    (difference,) = compare_operators(model, graph, inputs)
    assert difference.largest <= 1
    assert np.abs(run(graph, inputs)["y"].astype(int)).max() > 1000


def test_instructions(rng: np.random.Generator) -> None:
    """A sum loads and stores rows of accumulators, and requantizes once in place."""
    data = element_model(("int16", "int16"), "int16", "Add", (1, 16, 2, 2))
    compiled = compile_graph(load_onnx(data), wide("vta"), host=None)
    found: dict[Opcode, list[Instruction]] = {}
    for instruction in compiled.launch.program.instructions:
        found.setdefault(instruction.opcode, []).append(instruction)
    loads = [item.memory for item in found[Opcode.LOAD]]
    assert loads.count(LoadMemory.ACC) == 2 and LoadMemory.ACC_NARROW not in loads
    assert [item.memory for item in found[Opcode.STORE]] == [OutMemory.ACC]
    operations = [item for item in found[Opcode.ALU] if item.operation == AluOp.REQUANTIZE]
    assert [(item.wide, item.low, item.high) for item in operations] == [(1, -128, 127)]
    assert [item.dst_base for item in operations] == [item.src_base for item in operations]


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ((300.0, 0.0001, 0.009), "operands of a 16-bit sum must have comparable scales"),
    ],
)
def test_scales_that_are_far_apart(scales: tuple[float, float, float], message: str) -> None:
    """The host adds them."""
    maker = QdqModel(OPSET)
    inputs = [
        maker.dequantize(maker.input(name, (1, 16), kind), scale, 0, kind)
        for name, kind, scale in zip("ab", ("int8", "int16"), scales, strict=False)
    ]
    total = maker.requantized(maker.op("Add", *inputs), scales[2], 0, "int16")
    maker.quantize(total, 300.0, 0, output="y")
    data = maker.model("y", dtype="int8").SerializeToString()
    compiled = compile_graph(load_onnx(data), wide("vta"), host=None)
    (reason,) = compiled.reasons.values()
    assert reason.startswith(message)


def test_bounds_that_are_no_multiples(rng: np.random.Generator) -> None:
    """REQUANTIZE has the upper byte of the bounds of wide results only."""
    maker = QdqModel(OPSET)
    x = maker.dequantize(maker.input("x", (2, 24), "int8"), 0.03, 0)
    y = maker.op(
        "Clip",
        dense(maker, x, 24, 16, rng),
        maker.constant(np.float32(0)),
        maker.constant(np.float32(6)),
    )
    total = maker.requantized(y, 0.001, 0, "int16")
    maker.quantize(dense(maker, maker.requantized(total, 0.05, 0), 16, 16, rng), 0.1, 0, output="y")
    data = maker.model("y", dtype="int8").SerializeToString()
    compiled = compile_graph(load_onnx(data), wide("vta"), host=None)
    (reason,) = compiled.reasons.values()
    assert reason.startswith("bounds of a 16-bit result must be")


def test_tokens(rng: np.random.Generator) -> None:
    """A stream of tokens, which may be transposed on the host: it has int16."""
    maker, shape = QdqModel(OPSET), (1, 10, 48)
    x = maker.dequantize(maker.input("x", (1, 10, 24), "int8"), 0.03, 3)
    first = maker.requantized(dense(maker, x, 24, 48, rng), 0.001, 0, "int16")
    values = rng.integers(-20_000, 20_000, shape).astype(np.int16)
    places = maker.dequantize(maker.constant(values), 0.0001, 0, "int16")
    second = maker.requantized(maker.op("Add", first, places), 0.0012, 0, "int16", "second")
    branch = dense(maker, maker.requantized(second, 0.2, 0), 48, 48, rng)
    third = maker.op("Add", second, maker.requantized(branch, 0.0009, 0, "int16"))
    maker.quantize(third, 0.0013, 0, "int16", output="y")
    model = maker.model("y", dtype="int16")
    data = model.SerializeToString()
    artifact = daedal.compile(data, wide("attention"), host=None)
    assert {item.where for item in artifact.placements if item.op == "Add"} == {"accelerator"}
    inputs = {"x": rng.integers(-128, 128, (1, 10, 24)).astype(np.int8)}
    found = check_layers(artifact, data, inputs)
    assert found.passed and found.result.outputs["y"].dtype == np.int16
    graph = processor_graph(data, wide("attention"))
    assert max(item.largest for item in compare_operators(model, graph, inputs)) <= 1
