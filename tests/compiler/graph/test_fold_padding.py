"""Padding with other values than 0 goes into the bias, where that fits and pays."""

import numpy as np
import pytest

from daedal.compiler.graph import Graph, run_all, verify
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.ops.padding_classes import PaddingClasses
from daedal.compiler.graph.passes import fold_padding, to_blocked
from daedal.compiler.graph.types import TensorType
from daedal.isa.variant import Variant, load_variant
from tests.support.levels import Compiled, check_levels

VTA = load_variant("vta")
EXTREMES = np.array([-128, -127, -1, 0, 1, 127], dtype=np.int8)


def layer(
    rng: np.random.Generator,
    shape=(1, 20, 14, 13),
    weights=(33, 20, 3, 3),
    *,
    pads=(1, 1, 1, 1),
    strides=(1, 1),
    dilations=(1, 1),
    groups=1,
    pad_value=-128,
    bias=(-1000, 1000),
) -> Graph:
    """x -> q_conv2d -> y, with extreme weights."""
    builder = GraphBuilder("layer")
    builder.input("x", TensorType(shape, "int8"))
    builder.constant("w", rng.choice(EXTREMES, weights))
    outs = weights[0]
    params = np.stack(
        [
            rng.integers(*bias, outs, endpoint=True),
            rng.integers(1, 1 << 16, outs),
            rng.integers(22, 28, outs),
        ],
        axis=1,
    )
    builder.constant("p", params)
    attrs = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "groups": groups,
        "pad_value": pad_value,
        "zero_point": 3,
        "low": -128,
        "high": 120,
    }
    builder.add("q_conv2d", ["x", "w", "p"], attrs, output="y")
    return builder.finish(["y"])


def blocked(graph: Graph, variant: Variant = VTA) -> Graph:
    array = variant.array
    return to_blocked(
        graph,
        block_in=array.block_in,
        block_out=array.block_out,
        batch=array.batch,
        depthwise_taps=array.depthwise_taps,
    )


def conv(graph: Graph):
    (node,) = (node for node in graph.nodes if node.op == "q_conv2d")
    return node


FOLDED = {
    "square": {},
    "one side": {"pads": (2, 0, 0, 1)},
    "stride": {"shape": (1, 64, 14, 14), "weights": (256, 64, 3, 3), "strides": (2, 2)},
    "dilated": {"pads": (2, 2, 2, 2), "dilations": (2, 2)},
    "five": {"weights": (20, 20, 5, 5), "pads": (2, 2, 2, 2), "shape": (1, 20, 28, 28)},
    "grouped": {"shape": (1, 64, 14, 14), "weights": (64, 16, 3, 3), "groups": 4},
    "images": {"shape": (2, 20, 14, 13)},
    "small maps": {"shape": (64, 20, 1, 2)},
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("variant", ["vta", "wide", "batch4"])
def test_the_result_stays_the_same(name, variant, rng):
    target = load_variant(variant)
    graph = layer(rng, **FOLDED[name], pad_value=int(rng.choice(EXTREMES[EXTREMES != 0])))
    before = blocked(graph, target)
    after = fold_padding(before, target)
    verify(after)
    inputs = {"x": rng.choice(EXTREMES, graph.types["x"].shape)}
    expected = run_all(graph, inputs)["y"]
    np.testing.assert_array_equal(run_all(before, inputs)["y"], expected)
    np.testing.assert_array_equal(run_all(after, inputs)["y"], expected)


@pytest.mark.parametrize(
    ("variant", "case"),
    [
        ("vta", {"shape": (2, 64, 7, 6), "weights": (64, 16, 3, 3), "groups": 4}),
        ("wide", {"shape": (4, 32, 7, 6), "weights": (32, 32, 3, 3)}),
        ("batch4", {"shape": (2, 33, 5, 6), "weights": (20, 33, 3, 3), "pads": (2, 0, 0, 1)}),
    ],
)
def test_every_level_computes_the_same(case, variant, rng):
    """te, the loop IR after every primitive, and the program on the functional simulator."""
    target = load_variant(variant)
    graph = layer(rng, **case, pad_value=-128)
    inputs = {"x": rng.choice(EXTREMES, graph.types["x"].shape)}
    compiled = Compiled.of(graph, target)
    (node,) = compiled.result.launch.graph.nodes
    assert node.attrs["pad_value"] == 0
    check_levels(graph, target, inputs)


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_folded(name, rng):
    after = conv(fold_padding(blocked(layer(rng, **FOLDED[name])), VTA))
    assert after.attrs["pad_value"] == 0 and after.inputs[2] == "p.blocked.padded"


STAYING = {
    "no padding": {"pads": (0, 0, 0, 0)},
    "zeros": {"pad_value": 0},
    "too many classes": {"weights": (33, 20, 7, 7), "pads": (3, 3, 3, 3)},
    "nothing to save": {"shape": (1, 16, 14, 14), "weights": (512, 16, 1, 1)},
    "depthwise": {"shape": (1, 32, 14, 14), "weights": (32, 1, 3, 3), "groups": 32},
    "biases out of range": {"bias": ((1 << 31) - 1, (1 << 31) - 1)},
}


@pytest.mark.parametrize("name", STAYING)
def test_what_stays(name, rng):
    before = blocked(layer(rng, **STAYING[name]))
    assert conv(fold_padding(before, VTA)) == conv(before)


def test_fewer_products_are_made(rng):
    """Those of zeros: 18 % of a 3x3 window's on 7x7 pixels."""
    products = {}
    for pad_value in (0, -128):
        graph = layer(rng, (1, 64, 7, 7), (64, 64, 3, 3), pad_value=pad_value)
        compiled = Compiled.of(graph, VTA).result
        products[pad_value] = sum(
            item.extent0 * item.extent1 * item.extent2 * (item.uop_end - item.uop_begin)
            for item in compiled.launch.program.instructions
            if item.opcode.name == "GEMM"
        )
    assert products[-128] == products[0] < 0.83 * 7 * 7 * 9 * 16


def test_classes_of_a_window():
    attrs = {"strides": (1, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    classes = PaddingClasses.of((4, 5), (3, 3), (4, 3), attrs)
    assert classes.rows == (0, 1, 1, 2) and classes.columns == (0, 1, 2)
    assert classes.count == 9 and classes.table[3] == [6, 7, 8]
    outside = classes.outside()
    assert outside.shape == (9, 3, 3) and not outside[4].any()
    np.testing.assert_array_equal(outside[0], [[1, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert classes.share_inside() == pytest.approx(10 / 12 * 7 / 9)
