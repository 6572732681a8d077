"""What a network does not use, or saturates: dead tensors, infinite masks, and padding that only
compiled code computes."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import daedal
from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.quantization import quantize_model
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.dead_tensors import fit_dead_tensors
from daedal.compiler.quantization.plan import make_plan
from daedal.compiler.quantization.rewrites.finite import LARGEST, bound_constants
from tests.compiler.quantization.float_networks import simple_model

SHAPE = (1, 3, 8, 8)


def constants_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}


def scales_of(model: onnx.ModelProto) -> list[float]:
    constants = constants_of(model)
    nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return [constants[node.input[1]].item() for node in nodes]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_to_the_same_size_goes_with_dilation(auto_pad: str) -> None:
    def quantized(**attrs: object) -> onnx.ModelProto:
        net = FloatNetwork(np.random.default_rng(0))
        y = net.op("Conv", net.input("x", SHAPE), net.normal(4, 3, 3, 3), dilations=[2, 2], **attrs)
        samples = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
        return onnx.load_from_string(daedal.quantize(net.model(y).SerializeToString(), samples))

    assert scales_of(quantized(auto_pad=auto_pad)) == scales_of(quantized(pads=[2] * 4))


def masked_by_where(net: FloatNetwork, scores: str, low: float) -> str:
    mask = net.op("Cast", net.input("m", (1, 4)), to=9)
    return net.op("Where", mask, scores, net.constant(np.float32(low)))


def masked_by_sum(net: FloatNetwork, scores: str, low: float) -> str:
    mask = net.op("Cast", net.input("m", (1, 4)), to=9)
    zero, lowest = net.constant(np.float32(0)), net.constant(np.float32(low))
    return net.op("Add", scores, net.op("Where", mask, zero, lowest))


def masked_by_constant(net: FloatNetwork, scores: str, low: float) -> str:
    net.input("m", (1, 4))
    mask = np.where(np.tril(np.ones((4, 4))) > 0, 0, low).astype(np.float32)
    return net.op("Add", scores, net.constant(mask))


@pytest.mark.parametrize("fuses", [True, False])
@pytest.mark.parametrize("masked", [masked_by_where, masked_by_sum, masked_by_constant])
def test_a_mask_may_be_infinite(
    masked: Callable[[FloatNetwork, str, float], str], fuses: bool
) -> None:
    """It saturates as a mask that is low does."""

    def quantized(low: float) -> str:
        net = FloatNetwork(np.random.default_rng(0), opset=20)
        u = net.op("LayerNormalization", net.input("x", (1, 4, 8)), net.positive(8))
        q, k, v = (net.op("MatMul", u, net.normal(8, 8)) for _ in range(3))
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1]))
        weights = net.op("Softmax", masked(net, scores, low), axis=-1)
        y = net.op("MatMul", net.op("MatMul", weights, v), net.normal(8, 8))
        rng = np.random.default_rng(1)
        samples = {
            "x": rng.normal(size=(4, 4, 8)).astype(np.float32),
            "m": np.float32([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]),
        }
        model = net.model(y).SerializeToString()
        return str(quantize_model(model, samples, fuse_attention=fuses))

    assert quantized(-np.inf).replace(".bounded", "") == quantized(-LARGEST)


def test_infinite_constants_of_sums_become_finite_for_all_that_read_them() -> None:
    """Those of products stay, as do outputs."""
    graph = parse_graph(
        """
        graph masks {
          input x: float32[2,3]
          const low: float32[3] = [-1e999, 0.5, 1e999]
          const factor: float32[] = 1e999
          const known: float32[] = -1e999
          y: float32[2,3] = add(x, low)
          z: float32[2,3] = sub(low, x)
          u: float32[2,3] = add(x, factor)
          v: float32[2,3] = mul(x, factor)
          w: float32[2,3] = add(x, known)
          output y
          output z
          output u
          output v
          output w
          output known
        }
        """
    )
    after = bound_constants(graph)
    assert [node.inputs for node in after.nodes] == [
        ("x", "low.bounded"),
        ("low.bounded", "x"),
        *(node.inputs for node in graph.nodes[2:]),
    ]
    bounded = after.constant("low.bounded")
    np.testing.assert_array_equal(bounded, np.float32([-LARGEST, 0.5, LARGEST]))


def test_infinite_weights_are_an_error(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    weights = net.constant(np.full((4, 3, 1, 1), np.inf, np.float32))
    model = net.model(net.op("Conv", net.input("x", SHAPE), weights))
    with pytest.raises(ModelError, match="NaN or infinite"):
        quantize_model(model.SerializeToString(), np.ones(SHAPE, np.float32))


def _dead(net: FloatNetwork, x: str) -> str:
    """A ReLU that is always 0."""
    weights, bias = net.normal(8, 3, 3, 3, scale=0.2), net.constant(np.full(8, -100, np.float32))
    return net.op("Relu", net.op("Conv", x, weights, bias, pads=[1] * 4))


def dead_relu(net: FloatNetwork, x: str) -> str:
    return net.op("Add", net.conv(_dead(net, x), 8, 8), net.conv(x, 3, 8))


def dead_in_a_row(net: FloatNetwork, x: str) -> str:
    inner = net.op("MaxPool", _dead(net, x), kernel_shape=[3, 3], pads=[1] * 4)
    weights = net.normal(8, 8, 3, 3)
    dead = net.op("Relu", net.op("Conv", inner, weights, pads=[1] * 4))
    return net.conv(net.op("Add", dead, net.conv(x, 3, 8)), 8, 8)


def dead_gate(net: FloatNetwork, x: str) -> str:
    gate = net.op("GlobalAveragePool", _dead(net, x))
    return net.conv(net.op("Mul", net.conv(x, 3, 8), gate), 8, 8)


def dead_difference(net: FloatNetwork, x: str) -> str:
    y = net.conv(x, 3, 8)
    return net.conv(net.op("Sub", y, y), 8, 8)


def dead_output(net: FloatNetwork, x: str) -> str:
    return _dead(net, x)


def dead_branch(net: FloatNetwork, x: str) -> str:
    return net.conv(net.op("Concat", _dead(net, x), net.conv(x, 3, 8), axis=1), 16, 8)


@pytest.mark.parametrize(
    "build", [dead_relu, dead_in_a_row, dead_gate, dead_difference, dead_output, dead_branch]
)
def test_the_layers_around_a_dead_tensor_stay_on_the_accelerator(
    build: Callable[[FloatNetwork, str], str], rng: np.random.Generator
) -> None:
    net = FloatNetwork(rng)
    model = net.model(build(net, net.input("x", SHAPE)))
    samples = rng.normal(size=(3, *SHAPE[1:])).astype(np.float32)
    quantized = quantize_model(model.SerializeToString(), samples)
    assert all(2.0**-20 < scale < 2.0**10 for scale in scales_of(quantized))
    artifact = daedal.compile(quantized.SerializeToString(), "vta", host=None)
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear"}


def test_an_input_that_is_always_zero_has_a_scale(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    model = net.model(net.conv(net.input("x", SHAPE), 3, 8)).SerializeToString()
    quantized = quantize_model(model, np.zeros(SHAPE, np.float32))
    assert all(2.0**-20 < scale < 1 for scale in scales_of(quantized))
    biases = [x for x in constants_of(quantized).values() if x.dtype == np.int32]
    assert any(np.abs(item).max() > 100 for item in biases)


def test_the_steps_of_a_dead_tensor_are_those_of_what_reads_it(rng: np.random.Generator) -> None:
    """An accumulator's step is 1/256 of its result's, whichever operand of the product is dead."""
    net = FloatNetwork(rng)
    weights = net.constant(np.full((4, 4), -127 / 64, np.float32))
    net.op("MatMul", net.input("x", (4, 4)), weights, output="y")
    net.op("MatMul", net.input("u", (4, 4)), net.input("v", (4, 4)), output="z")
    graph = simple_model(net.model("y", "z")).graph
    plan = make_plan(graph)
    zero, one, four = (Range(0.0, 255 * step) for step in (0.0, 1.0, 4.0))
    ranges = {"x": zero, "y": one, "u": one, "v": zero, "z": four}
    fitted = fit_dead_tensors(graph, plan, ranges)
    steps = {name: item.quantization()[0] for name, item in fitted.items()}
    assert steps == {"x": 64 / 256, "y": 1, "u": 1, "v": 4 / 256, "z": 4}


def test_the_step_of_a_dead_result_is_that_of_the_layer_that_computes_it(
    rng: np.random.Generator,
) -> None:
    """256 times the accumulator's; another layer, with a finer accumulator, does not count."""
    net = FloatNetwork(rng)
    weights = net.constant(np.full((4, 4), -127 / 64, np.float32))
    net.op("MatMul", net.input("x", (4, 4)), weights, output="y")
    net.op("MatMul", net.input("u", (4, 4)), net.input("v", (4, 4)), output="z")
    graph = simple_model(net.model("y", "z")).graph
    zero, one, finer = (Range(0.0, 255 * step) for step in (0.0, 1.0, 1 / 16))
    ranges = {"x": one, "y": zero, "u": finer, "v": finer, "z": one}
    fitted = fit_dead_tensors(graph, make_plan(graph), ranges)
    assert {**fitted, "y": zero} == ranges
    assert fitted["y"].quantization()[0] == 256 / 64
