"""Host and accelerator in turn: networks that operators of the host interrupt."""

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.checking.integer_reference import processor_graph, run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run
from daedal.compiler.pipeline import graph_passes
from daedal.isa.variant import load_variant
from tests.support.host_code import check_host_code

Array = npt.NDArray[np.float32]
SHAPE = (1, 5, 6, 6)


def weights(maker: QdqModel, rng: np.random.Generator, *shape: int) -> str:
    return maker.weights(rng.integers(-127, 128, shape).astype(np.int8), 0.01)


def conv(maker: QdqModel, rng: np.random.Generator, x: str, inner: int = 5) -> str:
    w = weights(maker, rng, 5, inner, 3, 3)
    return maker.requantized(maker.op("Conv", x, w, pads=[1, 1, 1, 1]), 0.08, 3)


def check(model: onnx.ModelProto, rng: np.random.Generator, num_launches: int) -> Artifact:
    """The parts in order give the bytes of the integer graph.

    The host's parts are interpreted: compiled functions such as exp differ in the last bit.
    """
    artifact = daedal.compile(model.SerializeToString(), "tiny", host=None, cpu_levels=())
    assert len(artifact.launches) == num_launches
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    graph = load_onnx(model.SerializeToString())
    for name, run_pass in graph_passes(load_variant("tiny"), (), ()):
        if name == "to_blocked":
            break
        graph = run_pass(graph)
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    found = daedal.simulate(artifact, inputs).outputs
    for name, expected in run(graph, inputs).items():
        if name in found:
            np.testing.assert_array_equal(found[name], expected, name)
    reference = run_onnxruntime(model, inputs)
    for (name, value), expected in zip(found.items(), reference, strict=True):
        assert value.shape == expected.shape, name
        assert value.dtype == expected.dtype, name
    compiled = daedal.compile(model.SerializeToString(), "tiny", host=None)
    assert Artifact.from_bytes(compiled.to_bytes()) == compiled
    assert check_host_code(compiled, inputs) > 0
    return artifact


def test_operators_of_the_host_between_layers(rng: np.random.Generator) -> None:
    """One that the compiler knows, one that it does not, and one of several results."""
    maker = QdqModel()
    x = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    soft = maker.requantized(maker.op("Softmax", x, axis=1), 0.004, -128)
    y = conv(maker, rng, soft)
    norm = maker.requantized(maker.op("LpNormalization", y, axis=1), 0.01, 0)
    z = conv(maker, rng, norm)
    artifact = check(maker.model(z), rng, 3)
    assert [type(part) for part in artifact.parts] == [HostPart, Launch] * 3 + [HostPart]
    placed = {item.op: item for item in artifact.placements}
    assert placed["LpNormalization"].why == "the accelerator has no such operator"
    assert placed["Softmax"].why.startswith("the variant has no tables, units.lane_reductions")
    assert placed["Conv"].where == "accelerator"
    assert sum(item.macs for item in artifact.placements) == 3 * 36 * 25 * 9


def test_a_tensor_that_several_parts_read(rng: np.random.Generator) -> None:
    """Results of host and accelerator skip a part, and float tensors go from host to host."""
    maker = QdqModel()
    x = maker.input("x", SHAPE)
    scaled = maker.op("Exp", maker.op("Neg", maker.op("Relu", x)))
    first = conv(maker, rng, maker.requantized(scaled, 0.01, -128))
    side = conv(maker, rng, first)
    soft = maker.op("Erf", maker.op("Add", first, scaled))
    last = conv(maker, rng, maker.requantized(soft, 0.01, -3))
    total = maker.requantized(maker.op("Add", side, last), 0.1, 4)
    maker.op("Add", maker.op("Exp", total), scaled, output="sum")
    artifact = check(maker.model("sum"), rng, 2)
    # Nothing is computed twice: each of the model's float nodes is in one part.
    parts = [part for part in artifact.parts if isinstance(part, HostPart) and part.model]
    nodes = [n.op_type for p in parts for n in onnx.ModelProto.FromString(p.model).graph.node]
    assert nodes.count("Exp") == 2 and nodes.count("Neg") == 1 and nodes.count("Erf") == 1


@pytest.mark.parametrize("operators", [("MaxPool", "Sigmoid"), ("Sigmoid", "MaxPool")])
def test_a_pool_beside_what_the_host_computes(
    rng: np.random.Generator, operators: tuple[str, str]
) -> None:
    """The model does not quantize what is between them, so the host runs both, and nothing else."""
    maker = QdqModel()
    x = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    for op in operators:
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if op == "MaxPool" else {}
        x = maker.op(op, x, **window)
    artifact = check(maker.model(conv(maker, rng, maker.requantized(x, 1 / 256, -128))), rng, 2)
    assert [layer.op for layer in artifact.layers] == ["q_conv2d", "q_conv2d"]
    placed = {item.op: item for item in artifact.placements}
    assert [placed[op].where for op in (*operators, "Conv")] == ["host", "host", "accelerator"]
    assert placed["Sigmoid"].why.startswith("the variant has no tables")
    assert placed["MaxPool"].why.startswith("it does not stand between DequantizeLinear and")


def test_shapes_that_only_a_run_tells(rng: np.random.Generator) -> None:
    """What has no static shape is the host's, after everything else."""
    maker = QdqModel()
    y = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    positive = maker.op("Greater", y, maker.constant(np.float32(0.5)))
    maker.op("Transpose", maker.op("NonZero", positive), output="places")
    model = maker.model("places")
    out = helper.make_tensor_value_info("places", onnx.TensorProto.INT64, ["number", 4])
    model.graph.output[0].CopyFrom(out)
    artifact = daedal.compile(model.SerializeToString(), "tiny", host=None)
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (expected,) = run_onnxruntime(model, inputs)
    assert found.ndim == 2 and found.shape[1] == 4 and len(found) > 10
    assert abs(len(found) - len(expected)) <= 3


def test_shape_arithmetic_is_folded(rng: np.random.Generator) -> None:
    """As exporters write a flatten: the shape is computed from the shape of a tensor."""
    maker = QdqModel()
    y = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    batch = maker.op("Gather", maker.op("Shape", y), maker.constant(np.int64(0)), axis=0)
    batch = maker.op("Unsqueeze", batch, maker.constant(np.array([0])))
    shape = maker.op("Concat", batch, maker.constant(np.array([-1])), axis=0)
    flat = maker.op("Reshape", y, shape)
    w = weights(maker, rng, 7, 180)
    out = maker.requantized(maker.op("Gemm", flat, w, transB=1), 0.2, 0)
    artifact = check(maker.model(out), rng, 1)
    assert [layer.op for layer in artifact.layers] == ["q_conv2d", "q_conv2d"]


def test_a_layer_that_does_not_fit_is_left_to_the_host(rng: np.random.Generator) -> None:
    """The window of the second convolution, which is depthwise, is larger than the scratchpad."""
    maker = QdqModel()
    x = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    w = weights(maker, rng, 5, 1, 6, 6)
    y = maker.requantized(maker.op("Conv", x, w, pads=[3, 3, 2, 2], group=5), 0.08, 3)
    small = load_variant("tiny").replace("small", inp_bytes=128)
    model = maker.model(conv(maker, rng, y))
    artifact = daedal.compile(model.SerializeToString(), small, host=None)
    places = [item for item in artifact.placements if item.op == "Conv"]
    assert [item.where for item in places] == ["accelerator", "host", "accelerator"]
    assert "must fit scratchpad 'inp'" in places[1].why
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (expected,) = run_onnxruntime(model, inputs)
    assert np.abs(found - expected).max() <= 5 * 0.08


def test_branches_of_a_subgraph_read_what_is_around_them(rng: np.random.Generator) -> None:
    maker = QdqModel()
    y = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    flag = maker.op("Greater", maker.op("ReduceMax", y, keepdims=0), maker.constant(np.float32(0)))
    out = helper.make_tensor_value_info("branch", onnx.TensorProto.FLOAT, None)
    then, other = (
        helper.make_graph([helper.make_node(op, [y], ["branch"])], op, [], [out])
        for op in ("Neg", "Abs")
    )
    z = maker.op("If", flag, then_branch=then, else_branch=other)
    check(maker.model(conv(maker, rng, maker.requantized(z, 0.08, 3))), rng, 2)


def test_what_nobody_can_run_is_refused(rng: np.random.Generator) -> None:
    maker = QdqModel()
    y = conv(maker, rng, maker.requantized(maker.input("x", SHAPE), 0.05, 3))
    model = maker.model(conv(maker, rng, maker.requantized(maker.op("Relu", y), 0.05, 3)))
    (relu,) = (node for node in model.graph.node if node.op_type == "Relu")
    relu.domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(ModelError, match="neither accelerator nor host can run it"):
        daedal.compile(model.SerializeToString(), "tiny", host=None)


def test_an_island_that_is_not_worth_the_way_is_left_to_the_host(rng: np.random.Generator) -> None:
    """Of two convolutions around a Softmax the larger stays; the launch of the other costs more
    cycles than the host takes for it, unless that is much slower."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    first = maker.requantized(maker.op("Conv", x, weights(maker, rng, 64, 5, 3, 3)), 0.08, 3)
    soft = maker.requantized(maker.op("Softmax", first, axis=1), 0.004, -128)
    w = weights(maker, rng, 2, 64, 1, 1)
    model = maker.model(maker.requantized(maker.op("Conv", soft, w), 0.01, 0, output="small"))
    data = model.SerializeToString()
    artifact = daedal.compile(data, "tiny", cpu_levels=())
    assert len(artifact.launches) == 1
    places = [item for item in artifact.placements if item.op == "Conv"]
    assert [item.where for item in places] == ["accelerator", "host"]
    assert places[1].why.startswith("to bring 1,152 bytes to the accelerator and back takes")
    assert len(daedal.compile(data, "tiny", host=None).launches) == 2
    slow = daedal.HostRates(launch_cycles=500, macs_per_cycle=1)
    assert len(daedal.compile(data, "tiny", host=slow).launches) == 2
    # The reference knows what the host computes.
    graph = processor_graph(data, load_variant("tiny"), artifact.host_quantized)
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (expected,) = run(graph, inputs).values()
    np.testing.assert_array_equal(found, expected)


def test_a_product_of_few_rows_is_not_worth_the_way_either(rng: np.random.Generator) -> None:
    """The compiler computes it as a map, which has another name than the model's tensor."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    first = maker.requantized(maker.op("Conv", x, weights(maker, rng, 64, 5, 3, 3)), 0.08, 3)
    soft = maker.requantized(maker.op("Softmax", first, axis=1), 0.004, -128)
    rows = maker.op("Reshape", soft, maker.constant(np.array([1, 16, 64])))
    y = maker.op("MatMul", rows, weights(maker, rng, 64, 2))
    data = maker.model(maker.requantized(y, 0.01, 0)).SerializeToString()
    artifact = daedal.compile(data, "tiny")
    places = {item.op: item for item in artifact.placements}
    assert (places["Conv"].where, places["MatMul"].where) == ("accelerator", "host")
    assert places["MatMul"].why.startswith("to bring 1,152 bytes to the accelerator and back takes")
    assert len(artifact.launches) == 1
    assert len(daedal.compile(data, "tiny", host=None).launches) == 2


def normalized_image(channels: int, *, per_channel: bool) -> onnx.ModelProto:
    """A sum and a product before the first convolution, between quantized tensors."""
    rng = np.random.default_rng(5)
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, channels, 24, 24)), 0.05, 3)
    for operator in ("Sub", "Mul"):
        factor = maker.constant(np.float32(0.7))
        if per_channel:
            values = rng.integers(60, 127, (1, channels, 1, 1)).astype(np.int8)
            factor = maker.weights(values, 0.01)
        x = maker.requantized(maker.op(operator, x, factor), 0.04, -3)
    x = maker.requantized(maker.op("Conv", x, weights(maker, rng, 16, channels, 3, 3)), 0.1, 0)
    maker.requantized(maker.op("Conv", x, weights(maker, rng, 16, 16, 3, 3)), 0.2, 0, output="y")
    return maker.model("y", dtype="int8")


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_host_normalizes_an_image_before_it_packs_it(per_channel: bool) -> None:
    model = normalized_image(3, per_channel=per_channel).SerializeToString()
    artifact = daedal.compile(model, "vta")
    assert [layer.op for layer in artifact.layers] == ["q_conv2d"] * 2
    reasons = {item.op: item.why for item in artifact.placements if item.where == "host"}
    assert "3 channels would fill few lanes" in reasons["Sub"]
    assert "3 channels would fill few lanes" in reasons["Mul"]
    feeds = {"x": np.random.default_rng(6).normal(0, 3, (1, 3, 24, 24)).astype(np.float32)}
    assert daedal.check_layers(artifact, model, feeds).passed
    onto = daedal.compile(model, "vta", host=None)
    assert len(onto.layers) == 4


def test_an_entry_of_full_blocks_stays_on_the_accelerator() -> None:
    model = normalized_image(16, per_channel=True).SerializeToString()
    assert len(daedal.compile(model, "vta").layers) == 4
