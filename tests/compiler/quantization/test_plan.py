"""Which activations are quantized, and which share a scale."""

import numpy as np
import pytest

from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.quantization.plan import Plan, make_plan
from daedal.compiler.quantization.transformer import is_transformer
from tests.compiler.quantization.float_networks import simple_model

SHAPE = (1, 4, 8, 8)


def planned(net: FloatNetwork, *outputs: str) -> Plan:
    return make_plan(simple_model(net.model(*outputs)).graph)


def test_bounds_belong_to_the_operator_before(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    low, high = (net.constant(np.float32(bound)) for bound in (0, 6))
    x = net.conv(net.input("x", SHAPE), 4, 4)
    net.op("Clip", net.op("Relu", x), low, high, output="y")
    plan = planned(net, "y")
    assert plan.groups == {"x": "x", "y": "y"}
    assert len(plan.computed) == 3


def test_a_bound_of_a_result_that_others_read_stands_alone(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    net.op("Add", net.op("Relu", x, output="r"), x, output="y")
    assert planned(net, "y").groups == {name: name for name in ("x", x, "r", "y")}


def test_what_moves_shares_a_scale(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    a, b = net.conv(x, 4, 4), net.conv(x, 4, 4)
    pooled = net.op("MaxPool", a, kernel_shape=[1, 1])
    joined = net.op("Concat", pooled, b, axis=1)
    turned = net.op("Transpose", joined, perm=[0, 1, 3, 2])
    net.conv(turned, 8, 4, output="y")
    groups = planned(net, "y").groups
    assert len({groups[name] for name in (a, b, pooled, joined, turned)}) == 1
    assert groups["x"] != groups[a]


def test_what_no_product_reads_is_joined_in_float(rng: np.random.Generator) -> None:
    """As in a detector: boxes in pixels, and scores, which have no steps in units of boxes."""
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    boxes, scores = net.conv(x, 4, 4), net.op("Sigmoid", net.conv(x, 4, 2), output="s")
    moved = net.op("Add", boxes, net.normal(1, 1, 8, 8))
    pixels = net.op("Mul", moved, net.positive(1, 1, 8, 8))
    net.op("Concat", pixels, scores, axis=1, output="y")
    plan = planned(net, "y")
    (classes,) = (node.input[0] for node in net.nodes if node.op_type == "Sigmoid")
    assert set(plan.groups) == {"x", x, boxes, classes, "s"}
    assert len(plan.computed) == 4


def test_foreign_operators_stay_in_float(rng: np.random.Generator) -> None:
    """As in AlexNet: what follows a normalization is quantized again before it is moved."""
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 4, 4))
    normalized = net.op("LRN", x, size=3)
    pooled = net.op("MaxPool", normalized, kernel_shape=[2, 2])
    y = net.conv(pooled, 4, 4)
    net.op("Exp", net.op("Neg", y), output="y")
    plan = planned(net, "y")
    assert set(plan.groups) == {"x", x, normalized, pooled, y}
    assert plan.groups[normalized] == plan.groups[pooled]
    assert normalized not in plan.computed and pooled in plan.computed


@pytest.mark.parametrize(("value", "computed"), [(-4096.0, True), (-1e4, False), (-np.inf, False)])
def test_a_mask_is_added_in_float(value: float, computed: bool, rng: np.random.Generator) -> None:
    """A sum with it would leave no steps for the scores that it does not mask."""
    net = FloatNetwork(rng)
    scores = net.conv(net.input("x", SHAPE), 4, 4)
    mask = net.constant(np.where(np.eye(SHAPE[-1]), 0, value).astype(np.float32))
    net.conv(net.op("Add", scores, mask, output="masked"), 4, 4, output="y")
    assert ("masked" in planned(net, "y").computed) is computed


def test_light_operators_between_foreign_ones_stay_in_float(rng: np.random.Generator) -> None:
    """As in a layer norm written out: its differences are small, and no product reads them."""
    net = FloatNetwork(rng)
    x = net.op("MatMul", net.input("x", (1, 6, 8)), net.normal(8, 8))
    centered = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1]))
    spread = net.op("Sqrt", net.op("ReduceMean", net.op("Mul", centered, centered), axes=[-1]))
    net.op("Div", centered, spread, output="y")
    assert set(planned(net, "y").groups) == {"x", x, f"{x}.map"}


def test_an_operator_waits_for_all_of_its_operands(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    y = net.conv(x, 4, 4)
    net.op("Add", y, net.op("LRN", x, size=3), output="y")
    net.op("Mul", y, net.op("GlobalAveragePool", y), output="z")
    groups = planned(net, "y", "z").groups
    assert "y" not in groups and "z" in groups


def test_products_of_activations_and_constants_on_either_side(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", (5, 5))
    net.op("MatMul", x, net.op("Gemm", x, net.normal(5, 5), output="w"), output="y")
    net.op("MatMul", net.normal(5, 5), x, output="z")
    assert set(planned(net, "y", "z").groups) == {"x", "w", "y"}


def test_forms_that_integers_have_not_stay_in_float(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    pads = net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    scales = net.constant(np.float32([1, 1, 2, 2]))
    net.op("Pad", x, pads, mode="reflect", output="a")
    net.op("Resize", x, "", scales, mode="linear", output="b")
    net.op("ReduceMean", x, axes=[1], output="c")
    net.op("Resize", x, "", scales, mode="nearest", output="d")
    net.op("ReduceMean", x, axes=[-1, -2], output="e")
    groups = planned(net, "a", "b", "c", "d", "e").groups
    assert set("abcde") & set(groups) == {"d", "e"}
    assert groups["d"] == groups[x]


@pytest.mark.parametrize("kind", ["three_dimensional", "computed_weights", "scaled"])
def test_products_of_other_forms_are_none(rng: np.random.Generator, kind: str) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", (1, 4, 8, 8, 8) if kind == "three_dimensional" else (4, 4))
    if kind == "three_dimensional":
        net.op("Conv", x, net.normal(4, 4, 3, 3, 3), output="y")
    elif kind == "computed_weights":
        net.op("Gemm", x, net.op("Abs", x), output="y")
    else:
        net.op("Gemm", x, net.normal(4, 4), transA=1, output="y")
    with pytest.raises(ModelError, match="Conv or ConvTranspose, a Gemm or a MatMul over float32"):
        planned(net, "y")


def test_a_function_is_quantized_around_only(rng: np.random.Generator) -> None:
    """However it is written: SiLU, GELU by erf. What something else reads is quantized, too."""
    net = FloatNetwork(rng)
    half, one = (net.constant(np.float32(value)) for value in (0.5, 1))
    x = net.conv(net.input("x", SHAPE), 4, 4)
    silu = net.op("Mul", x, net.op("Sigmoid", x))
    y = net.conv(silu, 4, 4)
    gelu = net.op("Mul", net.op("Mul", y, half), net.op("Add", net.op("Erf", y), one))
    z = net.conv(gelu, 4, 4)
    gate = net.op("Sigmoid", z)
    product = net.op("Mul", z, gate)
    first, second = net.conv(product, 4, 4), net.conv(gate, 4, 4)
    net.op("Add", first, second, output="sum")
    plan = planned(net, "sum")
    around = {"x", x, silu, y, gelu, z, gate, product, first, second, "sum"}
    assert set(plan.groups) == around
    assert {node.output[0] for node in net.nodes} == plan.computed


def test_no_function_of_two_tensors_or_of_channels(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    a, b = net.conv(x, 4, 4), net.conv(x, 4, 4)
    gate = net.op("Sigmoid", b)
    y = net.op("Mul", a, gate)
    powers = net.op("Pow", net.conv(y, 4, 4), net.positive(4, 1, 1))
    net.conv(powers, 4, 4)
    plan = planned(net, net.nodes[-1].output[0])
    assert {a, b, gate, y, powers} <= set(plan.groups) and powers not in plan.computed


@pytest.mark.parametrize("kind", ["vector", "matrix", "computed"])
def test_a_norm_has_constant_parameters_of_channels(kind: str, rng: np.random.Generator) -> None:
    """One whose parameters are of tokens, too, or are computed, stays in float."""
    net = FloatNetwork(rng, opset=17)
    x = net.op("MatMul", net.input("x", (1, 6, 8)), net.normal(8, 8))
    scale = {
        "vector": lambda: net.positive(8),
        "matrix": lambda: net.positive(6, 8),
        "computed": lambda: net.op("Exp", net.input("scale", (8,))),
    }[kind]()
    net.op("LayerNormalization", x, scale, axis=-1, output="n")
    net.op("MatMul", "n", net.normal(8, 4), output="y")
    plan = make_plan(simple_model(net.model("y")).graph, wide=True)
    assert ("n" in plan.computed) is (kind == "vector")


@pytest.mark.parametrize("read", [False, True])
def test_a_product_that_only_the_caller_reads_has_16_bits(
    read: bool, rng: np.random.Generator
) -> None:
    """One that another layer reads, too, has 8, as that multiplies it."""
    net = FloatNetwork(rng)
    net.op("MatMul", net.input("x", (1, 6, 8)), net.normal(8, 8), output="y")
    outputs = ["y"]
    if read:
        net.op("MatMul", "y", net.normal(8, 8), output="z")
        outputs.append("z")
    plan = make_plan(simple_model(net.model(*outputs)).graph, wide=True)
    assert (plan.groups["y"] in plan.wide) is not read


@pytest.mark.parametrize("turned", [False, True])
def test_products_of_a_softmax_make_a_transformer(turned: bool, rng: np.random.Generator) -> None:
    """Also where the weights are turned before they are multiplied."""
    net = FloatNetwork(rng)
    x = net.input("x", (1, 2, 8, 8))
    weights = net.op("Softmax", x, axis=-1)
    if turned:
        weights = net.op("Transpose", weights, perm=[0, 1, 3, 2])
    net.op("MatMul", weights, x, output="y")
    assert is_transformer(simple_model(net.model("y")).graph)
