"""Elementwise operators and moves of ONNX models, through the whole compiler to the machine.

The machine's bytes are those of the blocked integer graph, and its real channels those of the plain
one, which `tests.compiler.graph.test_vector_operators` compares with onnxruntime.
"""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.compiler import te
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run, run_all
from daedal.compiler.ops.lookup import lookup
from daedal.compiler.pipeline import compile_graph, graph_passes
from daedal.compiler.tir import interpreter
from daedal.isa.variant import Variant, load_variant
from tests.support.networks import check_compiled

Maker = Callable[[QdqModel, str], str]


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def real(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def single(channels: int, make: Maker, images: int = 2) -> onnx.ModelProto:
    """A model of one operator over a map of 7x9."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (images, channels, 7, 9), "int8"), 0.05, 3)
    return maker.model(maker.quantize(make(maker, x), 0.06, 5, output="y"), dtype="int8")


def second(maker: QdqModel, shape: tuple[int, ...], name: str = "b") -> str:
    return maker.dequantize(maker.input(name, shape, "int8"), 0.07, -9)


def pads(*values: int) -> Maker:
    return lambda maker, x: maker.op("Pad", x, maker.constant(whole(*values)))


def part(begins: list[int], ends: list[int], steps: list[int]) -> Maker:
    numbers = [begins, ends, [1, 2, 3], steps]
    return lambda maker, x: maker.op("Slice", x, *(maker.constant(whole(*n)) for n in numbers))


def joined(*channels: int, axis: int = 1, rows: int = 7) -> Maker:
    def make(maker: QdqModel, x: str) -> str:
        others = [second(maker, (2, c, rows, 9), f"b{i}") for i, c in enumerate(channels)]
        return maker.op("Concat", x, *others, axis=axis)

    return make


def enlarged(height: int, width: int) -> Maker:
    mode = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    scales = real(1, 1, height, width)
    return lambda maker, x: maker.op("Resize", x, "", maker.constant(scales), **mode)


def window(op: str, **attrs: object) -> Maker:
    return lambda maker, x: maker.op(op, x, **attrs)


MODELS = {
    "sub": (20, lambda m, x: m.op("Sub", x, second(m, (2, 20, 7, 9))), ["q_add"]),
    "sub swapped": (20, lambda m, x: m.op("Sub", second(m, (2, 20, 7, 1)), x), ["q_add"]),
    "mul": (20, lambda m, x: m.op("Mul", x, second(m, (2, 20, 1, 1))), ["q_mul"]),
    "square": (20, lambda m, x: m.op("Mul", x, x), ["q_mul"]),
    "mul by a number": (20, lambda m, x: m.op("Mul", x, m.constant(real(-0.3))), ["q_mul"]),
    "leaky": (20, lambda m, x: m.op("LeakyRelu", x, alpha=0.1), ["q_leaky_relu"]),
    "max pool": (20, window("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), ["q_max_pool"]),
    "average pool": (
        20,
        window("AveragePool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], ceil_mode=1),
        ["q_avg_pool"],
    ),
    "global average": (20, window("GlobalAveragePool"), ["q_avg_pool"]),
    "mean of rows": (20, window("ReduceMean", axes=[2]), ["q_avg_pool"]),
    "pad": (20, pads(0, 0, 1, 2, 0, 0, 3, 0), ["q_pad"]),
    "pad channels": (32, pads(0, 32, 1, 0, 0, 5, 0, 0), ["q_pad"]),
    "pad within blocks": (20, pads(0, 5, 1, 2, 0, 3, 3, 0), ["q_conv2d"]),
    "slice": (40, part([32, 2, 1], [40, 7, 9], [1, 3, 2]), ["q_slice"]),
    "slice within blocks": (40, part([3, 0, 0], [40, 7, 9], [2, 2, 2]), ["q_conv2d"]),
    "slice both": (40, part([3, 1, 0], [40, 7, 9], [2, 1, 3]), ["q_slice", "q_conv2d"]),
    "concat": (32, joined(32, 20), ["q_concat"]),
    "concat within blocks": (20, joined(3, 20), ["q_concat", "q_conv2d"]),
    "concat rows": (20, joined(20, axis=2, rows=3), ["q_requantize"] * 4),
    "resize": (20, enlarged(2, 3), ["q_resize"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_single_operators(name: str, rng: np.random.Generator) -> None:
    """On blocks of 16 and 32 channels, and with images in the rows."""
    channels, make, expected = MODELS[name]
    model = single(channels, make).SerializeToString()
    for variant in map(load_variant, ("vta", "wide", "batch4")):
        compiled = compile_graph(load_onnx(model), variant)
        if variant.block == 16:
            assert [layer.op for layer in compiled.launch.layers] == expected
        check_compiled(compiled, rng)
        check_blocked_equals_plain(model, variant, rng)


def check_blocked_equals_plain(model: bytes, variant: Variant, rng: np.random.Generator) -> None:
    """Alignment and blocking keep every value of the outputs."""
    graphs = {"imported": load_onnx(model)}
    for name, run_pass in graph_passes(variant, (), ()):
        graphs[name] = run_pass(list(graphs.values())[-1])
    plain, blocked = graphs["extract"], graphs["to_blocked"]
    inputs = {
        name: rng.integers(-128, 128, plain.types[name].shape).astype(np.int8)
        for name in plain.inputs
    }
    np.testing.assert_array_equal(run_all(plain, inputs)["y"], run_all(blocked, inputs)["y"])


def test_matrices(rng: np.random.Generator) -> None:
    """Elementwise operators and moves of (N, C): maps of one pixel."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (2, 21), "int8"), 0.05, 3)
    gate = maker.requantized(maker.op("Mul", x, second(maker, (2, 21))), 0.1, -4)
    shifted = maker.requantized(maker.op("Sub", gate, maker.constant(real(0.4))), 0.1, 2)
    tail = [maker.constant(whole(v)) for v in (4, 21, 1)]
    tail = maker.requantized(maker.op("Slice", shifted, *tail), 0.1, 2)
    both = maker.requantized(maker.op("Concat", tail, gate, axis=1), 0.1, 2)
    leaky = maker.quantize(maker.op("LeakyRelu", both, alpha=0.2), 0.05, -20, output="y")
    model, vta = maker.model(leaky, dtype="int8"), load_variant("vta")
    compiled = compile_graph(load_onnx(model.SerializeToString()), vta)
    check_compiled(compiled, rng)
    assert [layer.op for layer in compiled.launch.layers] == [
        "q_mul",
        "q_add",
        "q_conv2d",
        "q_concat",
        "q_conv2d_leaky_relu",
    ]
    graph = processor_graph(model.SerializeToString(), vta)
    inputs = {name: rng.integers(-128, 128, (2, 21)).astype(np.int8) for name in graph.inputs}
    differences = compare_operators(model, graph, inputs)
    assert len(differences) == 5 and all(item.largest <= 1 for item in differences)


@pytest.mark.parametrize("pooled", [False, True], ids=["folded", "alone"])
def test_a_channel_shuffle(pooled: bool, rng: np.random.Generator) -> None:
    """It is the order of the outputs of the grouped convolution before it; after a pool, which has
    no weights, it is a layer of its own."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 24, 6, 5)), 0.05, 3)
    weights = maker.weights(rng.integers(-128, 128, (28, 6, 1, 1)).astype(np.int8), 0.01)
    x = maker.requantized(maker.op("Conv", x, weights, group=4, kernel_shape=[1, 1]), 0.08, 4)
    if pooled:
        x = maker.requantized(maker.op("MaxPool", x, kernel_shape=[2, 2]), 0.08, 4)
    rows, columns = (5, 4) if pooled else (6, 5)
    x = maker.op("Reshape", x, maker.constant(whole(0, 4, 7, rows, columns)))
    x = maker.op("Transpose", maker.requantized(x, 0.08, 4), perm=[0, 2, 1, 3, 4])
    x = maker.op("Reshape", x, maker.constant(whole(0, -1, rows, columns)))
    x = maker.requantized(x, 0.08, 4, output="shuffled")
    weights = maker.weights(rng.integers(-128, 128, (28, 1, 3, 3)).astype(np.int8), 0.01)
    x = maker.op("Conv", x, weights, group=28, kernel_shape=[3, 3])
    model = maker.model(maker.requantized(x, 0.2, 0, output="y_q")).SerializeToString()
    compiled = compile_graph(load_onnx(model), load_variant("vta"))
    pool = ["q_max_pool", "q_conv2d"] if pooled else []
    assert [layer.op for layer in compiled.launch.layers] == ["q_conv2d", *pool, "q_conv2d"]
    assert "shuffled" in [layer.output for layer in compiled.launch.layers]
    check_compiled(compiled, rng)
    artifact = daedal.compile(model, "vta")
    feeds = {"x": rng.normal(size=(1, 24, 6, 5)).astype(np.float32)}
    (found,) = daedal.simulate(artifact, feeds).outputs.values()
    (expected,) = run(processor_graph(model, load_variant("vta")), feeds).values()
    np.testing.assert_array_equal(found, expected)


def gated(rng: np.random.Generator, inside: bool) -> onnx.ModelProto:
    """A convolution and a sigmoid: at the end, or between integer layers."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 5, 6, 6)), 0.05, 3)
    weights = maker.weights(rng.integers(-128, 128, (9, 5, 3, 3)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("Conv", x, weights, kernel_shape=[3, 3]), 0.08, 4)
    gate = maker.requantized(maker.op("Sigmoid", y, output="gate"), 1 / 256, -128)
    if inside:
        gate = maker.requantized(maker.op("Mul", y, gate), 0.08, 4)
    return maker.model(maker.op("Identity", gate, output="y"))


def test_a_table_at_the_end_runs_on_the_host(rng: np.random.Generator) -> None:
    model = gated(rng, inside=False)
    artifact = daedal.compile(model.SerializeToString(), "vta")
    assert [layer.op for layer in artifact.layers] == ["q_conv2d"]
    assert "onnx" in [node.op for node in artifact.host_nodes]
    inputs = {"x": rng.normal(size=(1, 5, 6, 6)).astype(np.float32)}
    found = daedal.simulate(artifact, inputs).outputs["y"]
    (expected,) = run_onnxruntime(model, inputs)
    # One step before the sigmoid, where the reference may round the other way, is 5 of its steps.
    assert np.abs(found.reshape(expected.shape) - expected).max() <= 6 / 256


def test_a_table_between_layers_runs_on_the_host(rng: np.random.Generator) -> None:
    model = gated(rng, inside=True)
    assert reasons(model)["Sigmoid"] == (
        "the variant has no tables (memory.tables), which would compute it (variants that have it: "
        "attention)"
    )
    check_islands(model, rng, 2)


def reasons(model: onnx.ModelProto) -> dict[str, str]:
    """Why operators run on the host, but for those at the borders."""
    borders = ("DequantizeLinear", "QuantizeLinear")
    placed = daedal.compile(model.SerializeToString(), "vta", host=None).placements
    return {item.op: item.why for item in placed if item.where == "host" and item.op not in borders}


def check_islands(model: onnx.ModelProto, rng: np.random.Generator, num_launches: int) -> None:
    """Launches and host parts together give the integer graph's result, to one step of the last
    quantization: the host computes in float what the graph's tables hold."""
    artifact = daedal.compile(model.SerializeToString(), "vta", host=None)
    assert len(artifact.launches) == num_launches
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    inputs = {item.name: rng.normal(size=item.shape).astype(np.float32) for item in artifact.inputs}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (expected,) = run_onnxruntime(model, inputs)
    assert found.shape == expected.shape
    step = 1 if expected.dtype.kind in "iu" else 0.08
    assert np.abs(found.astype(np.float64) - expected).max() <= 1.01 * step


def around(inner: Maker) -> onnx.ModelProto:
    """An operator between two that run on the accelerator."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 5, 6, 6)), 0.05, 3)
    y = maker.requantized(maker.op("Relu", x), 0.08, 4)
    y = maker.requantized(inner(maker, y), 0.08, 4)
    return maker.model(maker.requantized(maker.op("Relu", y), 0.08, 0, output="y_q"))


def outer_product(maker: QdqModel, x: str) -> str:
    rows = maker.requantized(maker.op("ReduceMax", x, axes=[2]), 0.08, 4)
    columns = maker.requantized(maker.op("ReduceMax", x, axes=[3]), 0.08, 4)
    return maker.op("Mul", rows, columns, output="y")


@pytest.mark.parametrize(
    ("inner", "name", "reason"),
    [
        (
            lambda maker, x: maker.op("Concat", x, x, axis=0, output="y"),
            "Concat",
            "only channels, rows and columns move, of tensors of up to four dimensions",
        ),
        (
            outer_product,
            "Mul",
            "both operands must be quantized, and one must have the shape of the result",
        ),
    ],
    ids=["images", "outer product"],
)
def test_what_cannot_run_is_left_to_the_host(
    inner: Maker, name: str, reason: str, rng: np.random.Generator
) -> None:
    model = around(inner)
    assert reasons(model)[name] == reason
    check_islands(model, rng, 2)


def test_lookup_as_tensor_expression(rng: np.random.Generator) -> None:
    """te = loop IR = numpy, at every value."""
    x = te.placeholder((1, 2, 4, 4, 1, 1, 8), "int8", "x")
    table = te.placeholder((256,), "int8", "table")
    y = lookup(x, table)
    arrays = {
        "x": rng.permutation(np.arange(256)).astype(np.uint8).view(np.int8).reshape(x.shape),
        "table": rng.integers(-128, 128, 256).astype(np.int8),
    }
    expected = arrays["table"][arrays["x"].astype(int) + 128]
    np.testing.assert_array_equal(te.evaluate_tensors([y], arrays)[0], expected)
    func = te.create_prim_func([x, table], [y], "lookup")
    np.testing.assert_array_equal(interpreter.run(func, arrays)["y"], expected)
