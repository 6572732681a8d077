"""Views of maps: transposes that move nothing vanish, matrix products read maps directly."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes import (
    align_matmul,
    eliminate_dead_code,
    feed_dense_maps,
    feed_matmul_maps,
    simplify_reshapes,
    simplify_transposes,
    transposes_to_products,
)
from daedal.compiler.graph.selection import PIXELWISE
from tests.compiler.graph.qdq_models import lower


def builder_with(*shape: int) -> GraphBuilder:
    builder = GraphBuilder("views")
    builder.input("a", TensorType(shape, "int8"))
    return builder


def test_two_transposes_that_cancel_become_a_reshape(rng):
    builder = builder_with(1, 6, 2, 3)
    builder.add("reshape", ["a"], {"shape": (1, 6, 6)}, output="b")
    builder.add("transpose", ["b"], {"order": (0, 2, 1)}, output="c")
    builder.add("transpose", ["c"], {"order": (0, 2, 1)}, output="d")
    builder.add("reshape", ["d"], {"shape": (1, 6, 6, 1)}, output="e")
    graph = builder.finish(("e",))
    simple = eliminate_dead_code(simplify_reshapes(simplify_transposes(graph)))
    verify(simple)
    assert [(node.op, node.inputs) for node in simple.nodes] == [("reshape", ("a",))]
    values = {"a": rng.integers(-128, 128, (1, 6, 2, 3)).astype(np.int8)}
    np.testing.assert_array_equal(run(simple, values)["e"], run(graph, values)["e"])


def test_a_transpose_around_single_elements_is_a_reshape():
    builder = builder_with(1, 5, 1, 1)
    builder.add("transpose", ["a"], {"order": (0, 2, 3, 1)}, output="b")
    simple = simplify_transposes(builder.finish(("b",)))
    assert [node.op for node in simple.nodes] == ["reshape"]
    assert simple.types["b"].shape == (1, 1, 1, 5)


def test_axes_of_one_element_are_dropped_before_a_transpose(rng):
    builder = builder_with(5, 1, 3, 1, 4)
    builder.add("transpose", ["a"], {"order": (2, 3, 0, 1, 4)}, output="b")
    builder.add("reshape", ["b"], {"shape": (3, 5, 1, 4)}, output="c")
    graph = builder.finish(("c",))
    simple = eliminate_dead_code(simplify_transposes(graph))
    verify(simple)
    assert [(node.op, simple.types[node.output].shape) for node in simple.nodes] == [
        ("reshape", (5, 1, 3, 4)),
        ("transpose", (3, 5, 1, 4)),
    ]
    values = {"a": rng.integers(-128, 128, (5, 1, 3, 1, 4)).astype(np.int8)}
    np.testing.assert_array_equal(run(simple, values)["c"], run(graph, values)["c"])


def test_a_transpose_that_moves_elements_stays(rng):
    builder = builder_with(2, 3, 4)
    builder.add("transpose", ["a"], {"order": (0, 2, 1)}, output="b")
    builder.add("reshape", ["b"], {"shape": (2, 3, 4)}, output="c")
    builder.add("transpose", ["c"], {"order": (0, 2, 1)}, output="d")
    graph = builder.finish(("d",))
    simple = simplify_transposes(graph)
    assert [node.op for node in simple.nodes] == ["transpose", "reshape", "transpose"]


def test_a_matrix_product_reads_maps(rng):
    builder = builder_with(1, 6, 2, 3)
    builder.add("reshape", ["a"], {"shape": (1, 6, 6, 1)}, output="b")
    builder.constant("factor", np.array([1], dtype=np.int8))
    builder.constant("params", np.array([[24, 1, 6]]))
    attrs = {"zero_point_a": -4, "zero_point_b": -1, "columns": 6}
    attrs |= {"zero_point": 0, "low": -128, "high": 127}
    builder.add("q_matmul", ["b", "b", "factor", "params"], attrs, output="c")
    builder.add("q_matmul", ["c", "b", "factor", "params"], attrs, output="d")
    graph = builder.finish(("d",))
    fed = eliminate_dead_code(simplify_reshapes(feed_matmul_maps(graph)))
    verify(fed)
    assert [(node.op, node.inputs[:2]) for node in fed.nodes] == [
        ("q_matmul", ("a", "a")),
        ("q_matmul", ("c.map", "a")),
        ("reshape", ("d.map",)),
    ]
    assert fed.types["c.map"].shape == (1, 6, 2, 3)
    values = {"a": rng.integers(-128, 128, (1, 6, 2, 3)).astype(np.int8)}
    np.testing.assert_array_equal(run(fed, values)["d"], run(graph, values)["d"])


def test_a_dense_layer_reads_the_channels_of_a_pixel(rng):
    """Not what the host gives, nor a part of a longer row."""
    attrs = {"zero_point": 0, "low": -128, "high": 127}
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
    builder = builder_with(1, 6, 1, 1)
    builder.constant("same", np.array([[0, 1, 0]]))
    builder.add("q_requantize", ["a", "same"], attrs, output="b")
    builder.constant("params", np.array([[5, 1, 4]] * 3))
    for name, source, width in (("c", "a", 6), ("d", "b", 6), ("e", "b", 5)):
        builder.add("reshape", [source], {"shape": (1, 1, 1, 6)}, output=f"{name}.row")
        weights = rng.integers(-128, 128, (3, 1, 1, width)).astype(np.int8)
        builder.constant(f"{name}.weights", weights)
        operands = [f"{name}.row", f"{name}.weights", "params"]
        builder.add("q_conv2d", operands, {**window, **attrs, "pad_value": 0}, output=name)
    graph = builder.finish(("c", "d", "e"))
    fed = eliminate_dead_code(feed_dense_maps(graph))
    verify(fed)
    sources = {node.output: node.inputs[0] for node in fed.nodes}
    assert [sources[name] for name in "cde"] == ["c.row", "b", "e.row"]
    values = {"a": rng.integers(-128, 128, (1, 6, 1, 1)).astype(np.int8)}
    for name, result in run(fed, values).items():
        np.testing.assert_array_equal(result, run(graph, values)[name])


def test_a_row_that_is_read_with_padding_stays(rng):
    """The kernel has the map's size, and more than one place."""
    attrs = {**PIXELWISE, "pads": (0, 1, 0, 1), **UNCHANGED}
    builder = builder_with(1, 6, 1, 1)
    builder.constant("same", IDENTITY)
    builder.add("q_requantize", ["a", "same"], UNCHANGED, output="b")
    builder.add("reshape", ["b"], {"shape": (1, 1, 1, 6)}, output="row")
    builder.constant("w", rng.integers(-128, 128, (3, 1, 1, 6)).astype(np.int8))
    builder.constant("p", np.repeat(IDENTITY, 3, axis=0))
    builder.add("q_conv2d", ["row", "w", "p"], attrs, output="c")
    graph = builder.finish(("c",))
    assert graph.types["c"].shape == (1, 3, 1, 3)
    assert feed_dense_maps(graph).nodes == graph.nodes


def test_operands_of_matrix_products_are_padded_to_blocks(rng):
    """Channels by the zero points, pixels by rows; what is whole stays."""
    builder = builder_with(1, 6, 3, 3)
    builder.constant("factor", np.array([1], dtype=np.int8))
    builder.constant("params", np.array([[6 * -4 * -1, 1, 6]]))
    attrs = {"zero_point_a": -4, "zero_point_b": -1, "columns": 9}
    attrs |= {"zero_point": 0, "low": -128, "high": 127}
    builder.add("q_matmul", ["a", "a", "factor", "params"], attrs, output="c")
    graph = builder.finish(("c",))
    aligned = align_matmul(graph, block=4)
    verify(aligned)
    assert [node.op for node in aligned.nodes] == ["q_pad", "reshape", "q_pad", "q_matmul"]
    left, right, _, params = aligned.nodes[-1].inputs
    assert aligned.types[left].shape == (1, 8, 3, 3)
    assert aligned.types[right].shape == (1, 8, 12, 1)
    assert aligned.constant(params).tolist() == [[8 * -4 * -1, 1, 6]]
    values = {"a": rng.integers(-128, 128, (1, 6, 3, 3)).astype(np.int8)}
    np.testing.assert_array_equal(run(aligned, values)["c"], run(graph, values)["c"])
    again = align_matmul(aligned, block=4)
    assert [node.op for node in again.nodes] == ["q_pad", "reshape", "q_pad", "q_matmul"]


def test_channels_of_one_pixel_as_pixels_are_padded_behind_the_layer(rng):
    """As the values of a window of one token: the layer cannot compute more of these pixels."""
    builder = builder_with(2, 5, 1, 1)
    bounds = {"zero_point": 0, "low": -128, "high": 127}
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
    builder.constant("weights", rng.integers(-128, 128, (6, 5, 1, 1)).astype(np.int8))
    builder.constant("rows", np.array([[5, 1, 4]] * 6))
    attrs = {**window, **bounds, "pad_value": 0}
    builder.add("q_conv2d", ["a", "weights", "rows"], attrs, output="b")
    builder.add("reshape", ["b"], {"shape": (4, 1, 3, 1)}, output="c")
    builder.input("d", TensorType((4, 1, 2, 1), "int8"))
    builder.constant("factor", np.array([1], dtype=np.int8))
    builder.constant("params", np.array([[0, 1, 6]]))
    attrs = {"zero_point_a": 0, "zero_point_b": 0, "columns": 3, **bounds}
    builder.add("q_matmul", ["d", "c", "factor", "params"], attrs, output="e")
    graph = builder.finish(("e",))
    aligned = align_matmul(graph, block=4)
    verify(aligned)
    assert [node.op for node in aligned.nodes] == ["q_conv2d", "reshape", "q_pad", "q_matmul"]
    values = {
        name: rng.integers(-128, 128, shape).astype(np.int8)
        for name, shape in (("a", (2, 5, 1, 1)), ("d", (4, 1, 2, 1)))
    }
    np.testing.assert_array_equal(run(aligned, values)["e"], run(graph, values)["e"])


def test_a_map_is_transposed_by_a_product(rng):
    """Between integer operators; the host's transposes, and other orders of axes, stay."""
    attrs = {"zero_point": 0, "low": -128, "high": 127}
    builder = builder_with(2, 6, 3, 2)
    builder.constant("params", np.array([[0, 1, 0]]))
    builder.add("q_requantize", ["a", "params"], attrs, output="b")
    builder.add("reshape", ["b"], {"shape": (2, 6, 6)}, output="c")
    builder.add("transpose", ["c"], {"order": (0, 2, 1)}, output="d")
    builder.add("reshape", ["d"], {"shape": (2, 6, 6, 1)}, output="e")
    builder.add("q_requantize", ["e", "params"], attrs, output="f")
    builder.add("transpose", ["f"], {"order": (0, 1, 3, 2)}, output="g")
    builder.add("q_requantize", ["g", "params"], attrs, output="h")
    graph = builder.finish(("h",))
    turned = transposes_to_products(graph)
    verify(turned)
    assert [node.op for node in turned.nodes] == [
        "q_requantize",
        "q_matmul",
        "q_requantize",
        "transpose",
        "q_requantize",
    ]
    values = {"a": rng.integers(-128, 128, (2, 6, 3, 2)).astype(np.int8)}
    np.testing.assert_array_equal(run(turned, values)["h"], run(graph, values)["h"])


def test_channels_that_a_transpose_makes_pixels_may_be_rows_and_columns(rng):
    params = np.array([[0, 1 << 14, 14]], np.int64)
    attrs = {"high": 127, "low": -128, "zero_point": 0}
    builder = builder_with(1, 6, 4, 1)
    builder.constant("params", params)
    builder.add("q_requantize", ["a", "params"], attrs, output="b")
    builder.add("reshape", ["b"], {"shape": (1, 6, 4)}, output="c")
    builder.add("transpose", ["c"], {"order": (0, 2, 1)}, output="d")
    builder.add("reshape", ["d"], {"shape": (1, 4, 2, 3)}, output="e")
    builder.add("q_requantize", ["e", "params"], attrs, output="f")
    graph = builder.finish(("f",))
    turned = eliminate_dead_code(transposes_to_products(graph))
    verify(turned)
    assert [node.op for node in turned.nodes] == [
        *("q_requantize", "q_matmul", "reshape", "q_requantize")
    ]
    values = {"a": rng.integers(-128, 128, (1, 6, 4, 1)).astype(np.int8)}
    np.testing.assert_array_equal(run(turned, values)["f"], run(graph, values)["f"])


def test_long_chains_of_transposes_take_little_time() -> None:
    """Each looks back a bounded way only."""
    builder = GraphBuilder("chain")
    name = builder.input("x", TensorType((1, 2, 3), "int8"))
    for number in range(2_000):
        name = builder.add("transpose", [name], {"order": (0, 2, 1)}, output=f"t{number}")
    simplified = simplify_transposes(builder.finish([name]))
    assert {node.op for node in simplified.nodes[2:]} == {"reshape"}
    values = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    np.testing.assert_array_equal(run(simplified, {"x": values})[name], values)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("concat", {"axis": 1}),
        ("slice", {"begins": (0, 0, 0), "ends": (2, 3, 4), "steps": (1, 1, 1)}),
        ("pad", {"pads": (0,) * 6}),
        ("resize", {"factors": (1, 1, 1)}),
        ("transpose", {"order": (0, 1, 2)}),
    ],
)
def test_what_moves_nothing_vanishes(op, attrs):
    builder = GraphBuilder("moves")
    builder.input("x", TensorType((2, 3, 4), "float32"))
    builder.add("relu", ["x"], output="a")
    builder.add(op, ["a"], attrs, output="b")
    builder.add("relu", ["b"], output="c")
    builder.add(op, ["c"], attrs, output="y")
    simple = simplify_reshapes(builder.finish(("y",)))
    verify(simple)
    assert [(node.op, node.inputs) for node in simple.nodes] == [
        ("relu", ("x",)),
        ("relu", ("a",)),
        ("reshape", ("c",)),
    ]
    assert [view.target for view in simple.views] == ["b", "y"]


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_a_concat_of_one_operand_is_a_change_of_scale(axis, order, rng):
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 3, 4, 5)), 1 / 16, 2)
    turned = maker.requantized(maker.op("Transpose", x, perm=order), 1 / 16, 2)
    joined = maker.requantized(maker.op("Concat", turned, axis=axis), 1 / 8, -3)
    model = maker.model(maker.op("Transpose", joined, perm=order))
    graph = lower(model)
    assert [node.op for node in graph.nodes if node.op.startswith("q_")] == ["q_requantize"]
    feeds = {"x": rng.normal(size=(1, 3, 4, 5)).astype(np.float32)}
    (found,) = run(graph, feeds).values()
    assert np.abs(found - run_onnxruntime(model, feeds)[0]).max() <= 1 / 8
