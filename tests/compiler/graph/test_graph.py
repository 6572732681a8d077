"""Builder, printer, verifier, interpreter, cuts and layouts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ModelError
from daedal.compiler.graph import (
    ActivationLayout,
    DepthwiseLayout,
    Graph,
    GraphBuilder,
    Node,
    TensorType,
    WeightLayout,
    extract,
    list_ops,
    print_graph,
    run,
    run_all,
    verify,
)
from daedal.compiler.graph.ops.integer_pooling import divisor_indices


def small_graph() -> Graph:
    """y = relu(x + c), z = softmax(y)."""
    builder = GraphBuilder("small")
    builder.input("x", TensorType((2, 3), "float32"))
    builder.constant("c", np.array([0.5, -1.0, 2.0], dtype=np.float32))
    builder.add("add", ["x", "c"], output="t", name="sum")
    builder.add("relu", ["t"], output="y")
    builder.add("softmax", ["y"], {"axes": (1,)}, output="a strange\nname")
    return builder.finish(["y", "a strange\nname"])


def test_prints_stable_text() -> None:
    assert print_graph(small_graph()) == (
        "graph small {\n"
        "  input x: float32[2,3]\n"
        "  const c: float32[3] = [0.5, -1.0, 2.0]\n"
        "  t: float32[2,3] = add(x, c)  # sum\n"
        "  y: float32[2,3] = relu(t)\n"
        '  "a strange\\nname": float32[2,3] = softmax(y) axes=1\n'
        "  output y\n"
        '  output "a strange\\nname"\n'
        "}\n"
    )
    assert str(small_graph()) == print_graph(small_graph())


def test_fresh_names_are_those_of_no_tensor_before() -> None:
    """Not of the model, of this graph, or of one that a graph before this one had."""
    first = GraphBuilder("first", taken=["of the model"])
    first.input("x", TensorType((2,), "float32"))
    first.add("relu", ["x"], output="gone")
    second = GraphBuilder("second", first.finish(["gone"]))
    second.copy_inputs()
    third = GraphBuilder("third", second.finish(["x"]))
    third.copy_inputs()
    assert not third.is_defined("gone")
    names = ["of the model", "gone", "x", "new"]
    fresh = ["of the model_1", "gone_1", "x_1", "new"]
    assert [third.fresh_name(name) for name in names] == fresh


def test_interprets_and_returns_any_tensor() -> None:
    graph = small_graph()
    x = np.array([[1, 2, -3], [-1, 0, 1]], dtype=np.float32)
    values = run_all(graph, {"x": x})
    np.testing.assert_array_equal(values["y"], [[1.5, 1, 0], [0, 0, 3]])
    np.testing.assert_array_equal(run(graph, {"x": x}, ["t"])["t"], x + values["c"])
    np.testing.assert_allclose(values["a strange\nname"].sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({}, None, "inputs must be exactly x, not none; give one array for each"),
        (
            {"x": np.zeros((2, 4), dtype=np.float32)},
            None,
            "input 'x' must be float32[2, 3], not float32[2, 4]; convert the array",
        ),
        (
            {"x": np.zeros((2, 3))},
            None,
            "input 'x' must be float32[2, 3], not float64[2, 3]; convert the array",
        ),
        (
            {"x": np.zeros((2, 3), dtype=np.float32)},
            ["q"],
            "outputs must be tensors of the graph, not 'q'; the graph's outputs are "
            "y, a strange\nname",
        ),
    ],
)
def test_interpreter_refuses_wrong_inputs(inputs, outputs, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ModelError) as error:
        run(small_graph(), inputs, outputs)
    assert str(error.value) == message


def test_cuts_between_tensors() -> None:
    part = extract(small_graph(), ["t"], ["y"])
    verify(part)
    assert (part.inputs, part.outputs, len(part.nodes)) == (("t",), ("y",), 1)
    whole = extract(small_graph(), [], [])
    verify(whole)
    assert str(whole) == str(small_graph())


@pytest.mark.parametrize(
    ("starts", "ends", "message"),
    [
        (
            ["nothing"],
            [],
            "a cut must name tensors that the graph computes, not 'nothing'; "
            "some it has: t, y, a strange\nname",
        ),
        (
            ["y"],
            ["t"],
            "a cut must have every input it needs, but 't' also needs 'x'; "
            "add 'x' to the tensors it starts from",
        ),
    ],
)
def test_cut_refuses(starts: list[str], ends: list[str], message: str) -> None:
    with pytest.raises(ModelError) as error:
        extract(small_graph(), starts, ends)
    assert str(error.value) == message


def test_graphs_are_immutable() -> None:
    graph = small_graph()
    with pytest.raises(ValueError, match="read-only"):
        graph.constants["c"][0] = 1
    with pytest.raises(TypeError):
        graph.types["x"] = graph.types["c"]  # type: ignore[index]
    with pytest.raises(TypeError):
        graph.nodes[-1].attrs["axes"] = (0,)  # type: ignore[index]


def test_users_and_producers() -> None:
    graph = small_graph()
    assert [node.name for node in graph.users["x"]] == ["sum"]
    assert graph.producers["t"].name == "sum"
    assert "x" not in graph.producers


def break_type(graph: Graph) -> Graph:
    return dataclasses.replace(graph, types={**graph.types, "y": TensorType((2, 4), "float32")})


def break_order(graph: Graph) -> Graph:
    return dataclasses.replace(graph, nodes=graph.nodes[::-1])


def break_single_assignment(graph: Graph) -> Graph:
    return dataclasses.replace(graph, nodes=(*graph.nodes, Node("relu", ("x",), ("y",))))


def break_signature(graph: Graph) -> Graph:
    node = Node("relu", ("x", "x"), ("r",))
    types = {**graph.types, "r": graph.types["x"]}
    return dataclasses.replace(graph, nodes=(*graph.nodes, node), types=types)


def break_attributes(graph: Graph) -> Graph:
    node = Node("relu", ("x",), ("r",), {"slope": 1})
    types = {**graph.types, "r": graph.types["x"]}
    return dataclasses.replace(graph, nodes=(*graph.nodes, node), types=types)


def break_constant(graph: Graph) -> Graph:
    return dataclasses.replace(graph, constants={"c": np.zeros(4, dtype=np.float32)})


def break_output(graph: Graph) -> Graph:
    return dataclasses.replace(graph, outputs=("missing",))


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (break_type, "its type is"),
        (break_order, "before it is defined"),
        (break_single_assignment, "defined twice"),
        (break_signature, "takes 1 operands, not 2"),
        (break_attributes, "has attributes"),
        (break_constant, "holds"),
        (break_output, "is not defined"),
    ],
)
def test_verifier_finds_broken_graphs(breakage, message: str) -> None:  # type: ignore[no-untyped-def]
    verify(small_graph())
    with pytest.raises(AssertionError, match=message):
        verify(breakage(small_graph()))


def test_builder_names_the_node_in_errors() -> None:
    builder = GraphBuilder("g")
    builder.input("x", TensorType((2, 3), "float32"))
    with pytest.raises(ModelError) as error:
        builder.add("reshape", ["x"], {"shape": (5,)}, output="y", name="/flatten")
    assert str(error.value) == (
        "a reshape must keep the number of elements: [2, 3] does not fit [5]; repair the model "
        "(node '/flatten', operator reshape)"
    )


def test_every_operator_is_described() -> None:
    assert all(definition.evaluate.__doc__ for definition in list_ops())


extents = st.integers(1, 5)


@given(st.tuples(extents, st.integers(1, 20), extents, extents), st.sampled_from([(1, 4), (3, 8)]))
def test_activation_layout_round_trip(
    shape: tuple[int, int, int, int], rows: tuple[int, int]
) -> None:
    layout = ActivationLayout(*rows)
    array = np.arange(1, np.prod(shape) + 1).reshape(shape)
    packed = layout.pack(array)
    assert packed.shape == layout.physical_shape(shape)
    assert packed.shape[4:] == rows
    n, c = shape[0] - 1, shape[1] - 1
    assert packed[n // rows[0], c // rows[1], 0, 0, n % rows[0], c % rows[1]] == array[n, c, 0, 0]
    unpacked = layout.unpack(packed)
    np.testing.assert_array_equal(unpacked[: shape[0], : shape[1]], array)
    assert unpacked.sum() == array.sum(), "padding is zero"


@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20), extents, extents),
    st.sampled_from([(4, 4), (8, 4), (4, 8)]),
)
def test_weight_layout_round_trip(
    shape: tuple[int, int, int, int], blocks: tuple[int, int]
) -> None:
    layout = WeightLayout(*blocks)
    array = np.arange(1, np.prod(shape) + 1).reshape(shape)
    packed = layout.pack(array)
    assert packed.shape == layout.physical_shape(shape)
    assert packed.shape[4:] == blocks
    # Both sides are padded to the block of the activations, whatever their own block.
    assert (
        packed.shape[0] * blocks[0] % max(blocks) == packed.shape[1] * blocks[1] % max(blocks) == 0
    )
    o, i = shape[0] - 1, shape[1] - 1
    row = packed[o // blocks[0], i // blocks[1], 0, 0]
    assert row[o % blocks[0], i % blocks[1]] == array[o, i, 0, 0]
    unpacked = layout.unpack(packed)
    np.testing.assert_array_equal(unpacked[: shape[0], : shape[1]], array)
    assert unpacked.sum() == array.sum(), "padding is zero"


@given(st.integers(1, 20), st.tuples(extents, extents), st.sampled_from([1, 3]))
def test_depthwise_layout_round_trip(channels: int, kernel: tuple[int, int], taps: int) -> None:
    layout = DepthwiseLayout(kernel, 8, taps)
    array = np.arange(1, channels * kernel[0] * kernel[1] + 1).reshape(channels, 1, *kernel)
    packed = layout.pack(array)
    assert packed.shape == layout.physical_shape(array.shape)
    row, column, c = kernel[0] - 1, kernel[1] - 1, channels - 1
    assert packed[c // 8, row, column // taps, column % taps, c % 8] == array[c, 0, -1, -1]
    unpacked = layout.unpack(packed)
    np.testing.assert_array_equal(unpacked[:channels], array)
    assert packed.sum() == array.sum(), "padding is zero"


def test_types_know_their_size() -> None:
    type_ = TensorType((1, 20, 3, 3), "int8").with_layout(ActivationLayout(1, 16))
    assert type_.physical_shape == (1, 2, 3, 3, 1, 16)
    assert (type_.num_elements, type_.size_bytes, type_.is_plain) == (180, 288, False)
    assert str(type_) == "int8[1,20,3,3]:NCHW1n16c"


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((1,), "float64", "element types must be one of"),
        ((1,) * 9, "int8", "tensors must have at most 8 dimensions, not 9"),
        ((1, 0), "int8", r"every dimension must be at least 1, not \[1, 0\]"),
    ],
)
def test_types_refuse(shape: tuple[int, ...], dtype: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        TensorType(shape, dtype)


def test_divisor_indices_map_windows_to_parameter_rows() -> None:
    attrs = {"counts_h": (1, 2), "counts_w": (2, 3), "divisors": (2, 3, 4, 6)}
    np.testing.assert_array_equal(divisor_indices(attrs), [[0, 1], [2, 3]])
