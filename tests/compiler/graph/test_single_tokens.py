"""Passes and operators for a single token: exact, and what they are for."""

import numpy as np
import pytest

from daedal.common.errors import ModelError
from daedal.compiler.graph import ActivationLayout, Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.ops.append import append_region, has_states
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes import (
    append_to_maps,
    appends_first,
    diagonal_to_groups,
    join_columns,
)
from daedal.compiler.graph.selection import PIXELWISE

BLOCK = 16
LAYOUT = ActivationLayout(1, BLOCK)


def int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def selection(builder: GraphBuilder, x: str, weights: np.ndarray, output: str) -> str:
    w = builder.constant(f"{output}.w", weights.astype(np.int8)[..., None, None])
    p = builder.constant(f"{output}.p", np.repeat(IDENTITY, len(weights), axis=0))
    return builder.add("q_conv2d", [x, w, p], {**PIXELWISE, **UNCHANGED}, output=output)


@pytest.mark.parametrize(
    ("shape", "new", "attrs"),
    [
        ((2, 32, 9, 1), (2, 32, 1, 1), {"axis": 2, "begin": 5}),
        ((2, 48, 5, 1), (2, 1, 5, 1), {"axis": 1, "begin": 32}),
        ((1, 64, 3, 1), (1, 20, 3, 1), {"axis": 1, "begin": 16}),
    ],
)
def test_rows_are_stored_alike_in_both_layouts(shape, new, attrs, rng):
    plain = [TensorType(shape, "int8"), TensorType(new, "int8"), TensorType((1, 3), "int64")]
    arrays = [int8(rng, *shape), int8(rng, *new), IDENTITY]
    expected = np.array(arrays[0])
    row = [slice(None)] * 4
    row[attrs["axis"]] = slice(attrs["begin"], attrs["begin"] + new[attrs["axis"]])
    expected[tuple(row)] = arrays[1]
    found = get_op("q_append").evaluate(arrays, plain, attrs)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(get_op("append").evaluate(arrays[:2], plain[:2], attrs), expected)
    blocked = [item.with_layout(LAYOUT) for item in plain[:2]]
    packed = [LAYOUT.pack(array) for array in arrays[:2]]
    params = np.repeat(IDENTITY[:, None], BLOCK, axis=1)
    types = [*blocked, TensorType(params.shape, "int64")]
    held = get_op("q_append").evaluate([*packed, params], types, attrs)
    assert get_op("q_append").infer(types, attrs) == blocked[0]
    # What fills up the last block of new channels is stored, too.
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(row)] = True
    untouched = ~LAYOUT.pack(mask)
    untouched[append_region(*blocked, attrs)] = False
    np.testing.assert_array_equal(held[untouched], packed[0][untouched])
    np.testing.assert_array_equal(LAYOUT.unpack(held)[mask], expected[mask])


def test_pixels_and_images_have_the_same_bytes(rng):
    values = int8(rng, 2, BLOCK, 3, 1)
    types = [TensorType(values.shape, "int8")]
    blocked = [types[0].with_layout(LAYOUT)]
    images = get_op("pixels_to_images").evaluate([values], types, {})
    for image in range(2):
        for pixel in range(3):
            np.testing.assert_array_equal(
                images[image * 3 + pixel, :, 0, 0], values[image, :, pixel, 0]
            )
    held = get_op("pixels_to_images").evaluate([LAYOUT.pack(values)], blocked, {})
    assert held.tobytes() == LAYOUT.pack(values).tobytes() == LAYOUT.pack(images).tobytes()
    attrs, types = {"pixels": 3}, [TensorType(images.shape, "int8")]
    back = get_op("images_to_pixels").evaluate([images], types, attrs)
    np.testing.assert_array_equal(back, values)
    assert get_op("images_to_pixels").infer(types, attrs).shape == values.shape


def test_heads_of_a_token_stay_a_column(rng):
    """Of a host's table, too."""
    builder = GraphBuilder("token")
    builder.input("x", TensorType((1, 64, 1, 1), "int8"))
    builder.input("table", TensorType((1, 8, 1, 8), "int8"))
    builder.constant("p", np.array([[3, 5, 6]]))
    attrs = {"zero_point_a": 1, "zero_point_b": -2, **UNCHANGED}
    q = selection(builder, "x", np.eye(64)[::-1], "q")
    builder.add("reshape", [q], {"shape": (1, 8, 1, 8)}, output="heads")
    builder.add("q_mul", ["heads", "table", "p"], attrs, output="m")
    builder.add("q_requantize", ["m", "p"], UNCHANGED, output="r")
    graph = builder.finish(("r",))
    joined = join_columns(graph)
    verify(joined)
    shapes = {joined.types[node.output].shape for node in joined.nodes if node.op != "reshape"}
    assert shapes == {(1, 64, 1, 1)}
    feeds = {"x": int8(rng, 1, 64, 1, 1), "table": int8(rng, 1, 8, 1, 8)}
    np.testing.assert_array_equal(run(joined, feeds)["r"], run(graph, feeds)["r"])


def test_operators_on_what_the_host_gives_stay(rng):
    builder = GraphBuilder("host")
    builder.input("a", TensorType((1, 8, 1, 8), "int8"))
    builder.constant("p", IDENTITY)
    builder.add("q_requantize", ["a", "p"], UNCHANGED, output="r")
    graph = builder.finish(("r",))
    assert join_columns(graph).nodes == graph.nodes


def test_a_factor_for_each_head_stays():
    """It would have to be repeated for the channels of its head."""
    builder = GraphBuilder("factors")
    builder.input("x", TensorType((1, 64, 1, 1), "int8"))
    builder.input("factors", TensorType((1, 8, 1, 1), "int8"))
    builder.constant("p", IDENTITY)
    builder.add("q_requantize", ["x", "p"], UNCHANGED, output="q")
    builder.add("reshape", ["q"], {"shape": (1, 8, 1, 8)}, output="heads")
    attrs = {"zero_point_a": 0, "zero_point_b": 0, **UNCHANGED}
    builder.add("q_mul", ["heads", "factors", "p"], attrs, output="m")
    graph = builder.finish(("m",))
    assert join_columns(graph).nodes == graph.nodes


def with_state(graph_of_token: GraphBuilder, new: str) -> str:
    graph_of_token.input("state", TensorType((1, 64, 32, 1), "int8"))
    graph_of_token.constant("i", IDENTITY)
    attrs = {"axis": 2, "begin": 16}
    return graph_of_token.add("q_append", ["state", new, "i"], attrs, output="all")


def selected_and_kept(weights: np.ndarray) -> Graph:
    builder = GraphBuilder("selection")
    builder.input("x", TensorType((1, weights.shape[1], 1, 1), "int8"))
    builder.input("new", TensorType((1, 64, 1, 1), "int8"))
    selection(builder, "x", weights, "y")
    builder.constant("other", IDENTITY)
    kept = builder.add("q_requantize", ["new", "other"], UNCHANGED, output="new_q")
    return builder.finish(("y", with_state(builder, kept)))


@pytest.mark.parametrize(("outs", "ins", "groups"), [(32, 16, 4), (16, 32, 3), (16, 16, 2)])
def test_blocks_on_a_diagonal_are_groups(outs, ins, groups, rng):
    weights = np.zeros((groups * outs, groups * ins))
    for number in range(groups):
        part = int8(rng, outs, ins)
        weights[number * outs : (number + 1) * outs, number * ins : (number + 1) * ins] = part
    graph = selected_and_kept(weights)
    found = diagonal_to_groups(graph, block=BLOCK)
    verify(found)
    node = found.producers["y"]
    assert node.attrs["groups"] == groups
    assert found.types[node.inputs[1]].shape == (groups * outs, ins, 1, 1)
    feeds = {name: int8(rng, *graph.types[name].shape) for name in graph.inputs}
    for name in graph.outputs:
        np.testing.assert_array_equal(run(found, feeds)[name], run(graph, feeds)[name])


def test_other_weights_stay(rng):
    for weights in (int8(rng, 32, 32), np.eye(24), np.roll(np.eye(32), 16, axis=0)):
        graph = selected_and_kept(weights)
        assert diagonal_to_groups(graph, block=BLOCK).producers["y"] == graph.producers["y"]
    builder = GraphBuilder("stateless")
    builder.input("x", TensorType((1, 32, 1, 1), "int8"))
    selection(builder, "x", np.eye(32), "y")
    graph = builder.finish(("y",))
    assert not has_states(graph) and diagonal_to_groups(graph, block=BLOCK) is graph


def test_rows_are_stored_before_what_does_not_need_them():
    builder = GraphBuilder("order")
    builder.input("x", TensorType((1, 64, 1, 1), "int8"))
    builder.constant("i1", IDENTITY)
    first = builder.add("q_requantize", ["x", "i1"], UNCHANGED, output="first")
    builder.add("q_requantize", [first, "i1"], UNCHANGED, output="late")
    new = builder.add("q_requantize", [first, "i1"], UNCHANGED, output="new")
    graph = builder.finish((with_state(builder, new), "late"))
    order = [node.output for node in appends_first(graph).nodes]
    assert order == ["first", "new", "all", "late"]


def scores_of_a_state(order: tuple[int, ...], products: int) -> Graph:
    builder = GraphBuilder("scores")
    builder.input("state", TensorType((1, 2, 32, 16), "int8"))
    builder.input("new", TensorType((1, 2, 1, 16), "int8"))
    builder.input("a", TensorType((2, 16, 1, 1), "int8"))
    builder.add("append", ["state", "new"], {"axis": 2, "begin": 16}, output="all")
    builder.add("transpose", ["all"], {"order": order}, output="turned")
    builder.constant("factor", np.zeros(1, dtype=np.int8))
    builder.constant("p", IDENTITY)
    attrs = {"zero_point_a": 0, "zero_point_b": 0, "columns": 32, **UNCHANGED}
    builder.add("reshape", ["turned"], {"shape": (2, 16, 32, 1)}, output="b")
    names = [
        builder.add("q_matmul", ["a", "b", "factor", "p"], attrs, output=f"y{number}")
        for number in range(products)
    ]
    return builder.finish(tuple(names) or ("b",))


@pytest.mark.parametrize(
    ("order", "products", "message"),
    [
        ((0, 1, 3, 2), 0, "of one matrix product on the accelerator, and 'state' is that of 0"),
        ((0, 1, 3, 2), 2, "of one matrix product on the accelerator, and 'state' is that of 2"),
        ((0, 2, 1, 3), 1, "whose rows or columns are its rows, in whole blocks of 16, and node"),
    ],
)
def test_a_state_is_one_operand_of_one_product(order, products, message):
    with pytest.raises(ModelError, match=message):
        append_to_maps(scores_of_a_state(order, products), block=BLOCK)


def test_heads_that_share_a_block_give_the_same_scores(rng):
    """The channels that a query has for the other head hold its zero point, of which the sum is in
    the parameters."""
    width, zeros = 8, {"zero_point_a": -30, "zero_point_b": 50}
    builder = GraphBuilder("scores")
    builder.input("state", TensorType((1, 2, 32, width), "int8"))
    builder.input("x", TensorType((1, 2 * width, 1, 1), "int8"))
    builder.constant("p", IDENTITY)
    for name, shape in (("new", (1, 2, 1, width)), ("a", (2, width, 1, 1))):
        builder.add("q_requantize", ["x", "p"], UNCHANGED, output=f"{name}.column")
        builder.add("reshape", [f"{name}.column"], {"shape": shape}, output=name)
    builder.add("append", ["state", "new"], {"axis": 2, "begin": 16}, output="all")
    builder.add("transpose", ["all"], {"order": (0, 1, 3, 2)}, output="turned")
    builder.add("reshape", ["turned"], {"shape": (2, width, 32, 1)}, output="b")
    builder.constant("factor", np.array([-50], dtype=np.int8))
    builder.constant("scale", np.array([[width * -30 * 50 + 77, 1, 9]]))
    attrs = {**zeros, "columns": 32, **UNCHANGED}
    builder.add("q_matmul", ["a", "b", "factor", "scale"], attrs, output="y")
    graph = builder.finish(("y",))
    mapped = append_to_maps(graph, block=BLOCK)
    verify(mapped)
    assert mapped.types["state"].shape == (1, BLOCK, 32, 1)
    state, x = int8(rng, 1, 2, 32, width), int8(rng, 1, 2 * width, 1, 1)
    channels = state.transpose(0, 1, 3, 2).reshape(1, BLOCK, 32, 1)
    (expected,) = run(graph, {"state": state, "x": x}).values()
    (found,) = run(mapped, {"state": channels, "x": x}).values()
    np.testing.assert_array_equal(found, expected)
    assert expected.std() > 10
