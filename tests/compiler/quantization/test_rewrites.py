"""The rewrites before planning: the same function, in the form that the quantizer knows."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.quantization.rewrites.fold_affine import fold_affine
from daedal.compiler.quantization.rewrites.hoist_bounds import hoist_bounds
from daedal.compiler.quantization.rewrites.joined_slices import turn_joined_slices
from daedal.compiler.quantization.rewrites.normalize import flatten_rows, normalize
from tests.compiler.quantization.float_networks import evaluate, rewritten_model, simple_model

SHAPE = (1, 4, 6, 5)


def rewritten(
    net: FloatNetwork, rewrite: Callable[[Graph], Graph], *outputs: str
) -> list[onnx.NodeProto]:
    """Nodes after `rewrite`; what they compute is what they computed."""
    model = net.model(*outputs)
    after = rewritten_model(model, rewrite)
    onnx.checker.check_model(after)
    inputs = {
        item.name: net.rng.normal(
            0, 1, [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for item in model.graph.input
    }
    expected = evaluate(model, inputs)
    found = evaluate(after, inputs)
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-4, atol=2e-5)
    return list(after.graph.node)


def ops(nodes: list[onnx.NodeProto]) -> list[str]:
    return [node.op_type for node in nodes]


def test_normalize_absorbs_the_factors_of_gemm(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", (2, 5))
    net.op("Gemm", x, net.normal(5, 7), net.normal(1, 7), alpha=0.5, beta=2.0, output="y")
    net.op("Gemm", x, x, alpha=0.5, transB=1, output="z")
    absorbed, kept = rewritten(net, normalize, "y", "z")
    assert {item.name for item in absorbed.attribute} == {"transB"}
    assert {item.name for item in kept.attribute} == {"alpha", "transB"}


def test_normalize_inverts_constants_and_splits_sums(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    a = net.op("Div", x, net.positive(4, 1, 1))
    b = net.op("Sub", x, net.normal(1))
    c = net.op("Sub", net.normal(1), x)
    d = net.op("Div", x, net.constant(np.zeros(1, np.float32)))
    e = net.op("Div", x, net.constant(np.float32([1e-42])))
    net.op("Sum", a, b, c, x, output="y")
    net.op("Sum", a, output="z")
    net.op("Sign", net.op("Min", d, e), output="d")
    with np.errstate(divide="ignore", over="ignore"):
        nodes = rewritten(net, normalize, "y", "z", "d")
    assert ops(nodes) == [
        *("Mul", "Add", "Sub", "Div", "Div", "Add", "Add", "Add", "Sum", "Min", "Sign"),
    ]
    assert len({node.name for node in nodes}) == len(nodes)


@pytest.mark.parametrize("reverse", [False, True])
def test_normalize_gives_products_their_bias(rng: np.random.Generator, reverse: bool) -> None:
    net = FloatNetwork(rng)
    operands = [net.op("MatMul", net.input("x", (3, 5)), net.normal(5, 7)), net.normal(7)]
    net.op("Add", *(operands[::-1] if reverse else operands), output="y")
    assert ops(rewritten(net, normalize, "y")) == ["Gemm"]


def test_normalize_leaves_other_sums_of_products(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", (3, 5))
    shared = net.op("MatMul", x, net.normal(5, 7))
    net.op("Add", shared, net.normal(7), output="a")
    net.op("Abs", shared, output="b")
    net.op("Add", net.op("MatMul", x, net.normal(5, 7)), net.normal(3, 7), output="c")
    net.op("MatMul", x, net.op("Abs", net.normal(5, 7)), output="d")
    nodes = rewritten(net, normalize, "a", "b", "c", "d")
    assert ops(nodes) == ["Gemm", "Add", "Abs", "Gemm", "Add", "Gemm"]


def test_flatten_rows_of_products_of_tensors_with_matrices(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", (2, 3, 4, 5))
    net.op("MatMul", x, net.normal(5, 7), output="y")
    net.op("Add", net.normal(6), net.op("MatMul", x, net.normal(5, 6)), output="z")
    net.op("MatMul", x, net.normal(2, 3, 5, 4), output="w")
    nodes = rewritten(net, flatten_rows, "y", "z", "w")
    assert ops(nodes) == [*(["Reshape", "Gemm", "Reshape"] * 2), "MatMul"]


def test_normalize_slices_what_is_split(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    sizes = net.constant(np.array([1, 3], np.int64))
    for operands, axis, outputs in (((x, sizes), 1, "ab"), ((x,), -2, "cde")):
        node = onnx.helper.make_node("Split", operands, list(outputs), name=outputs, axis=axis)
        net.nodes.append(node)
    assert ops(rewritten(net, normalize, *"abcde")) == ["Slice"] * 5


@pytest.mark.parametrize("shape", [SHAPE, (3, 5)])
def test_normalize_writes_out_hard_gates(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", shape)
    net.op("HardSigmoid", x, output="y")
    net.op("HardSigmoid", x, alpha=0.3, beta=0.1, output="z")
    net.op("HardSwish", x, output="w")
    nodes = rewritten(net, normalize, "y", "z", "w")
    assert ops(nodes) == [*(["Mul", "Add", "Clip"] * 3), "Mul"]


@pytest.mark.parametrize(
    ("slopes", "expected"),
    [
        ([0.3, 0.1, 1.0, -0.5], ["Mul", "Max"]),
        ([0.25] * 4, ["LeakyRelu"]),
        ([0.3, 0.1, 1.5, 0.5], ["PRelu"]),
    ],
)
def test_normalize_writes_out_slopes_of_channels(
    slopes: list[float], expected: list[str], rng: np.random.Generator
) -> None:
    """Where the larger of both is right: a steeper slope would be the smaller one."""
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    net.op("PRelu", x, net.constant(np.array(slopes, np.float32).reshape(4, 1, 1)), output="y")
    assert ops(rewritten(net, normalize, "y")) == expected


@pytest.mark.parametrize("reverse", [False, True])
def test_normalize_spreads_the_numbers_of_a_written_gate(
    rng: np.random.Generator, reverse: bool
) -> None:
    """To the channels, as those of a HardSigmoid; only between 0 and 1."""
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    for name, high in (("y", 1), ("z", 6)):
        slope, offset, *bounds = (net.constant(np.float32(n)) for n in (0.25, 0.5, 0, high))
        line = net.op("Mul", *((slope, x) if reverse else (x, slope)))
        total = net.op("Add", *((offset, line) if reverse else (line, offset)))
        net.op("Clip", total, *bounds, output=name)
    after = rewritten_model(net.model("y", "z"), normalize).graph
    shapes = {item.name: tuple(item.dims) for item in after.initializer}
    factors = [
        [shapes[name] for name in node.input if name in shapes]
        for node in after.node
        if node.op_type in ("Mul", "Add")
    ]
    assert factors == [[(SHAPE[1], 1, 1)], [(SHAPE[1], 1, 1)], [()], [()]]
    assert ops(rewritten(net, normalize, "y", "z")) == ["Mul", "Add", "Clip"] * 2


def test_hard_gates_are_one_layer_and_a_product(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    net.op("HardSwish", x, output="y")

    assert ops(rewritten(net, lambda graph: fold_affine(normalize(graph)), "y")) == [
        "Conv",
        "Conv",
        "Clip",
        "Mul",
    ]


def layer(net: FloatNetwork, kind: str) -> str:
    x = net.input("x", (3, 6) if kind.startswith("gemm") else SHAPE)
    if kind == "conv":
        return net.conv(x, 4, 6, group=2)
    if kind == "bare":
        return net.op("Conv", x, net.normal(6, 4, 1, 1))
    if kind == "transposed":
        return net.op("ConvTranspose", x, net.normal(4, 6, 2, 2), net.normal(6), strides=[2, 2])
    if kind == "gemm_transposed":
        return net.op("Gemm", x, net.normal(6, 6), net.normal(6), transB=1)
    return net.op("Gemm", x, net.normal(6, 6), net.normal(1))


@pytest.mark.parametrize("kind", ["conv", "bare", "transposed", "gemm", "gemm_transposed"])
def test_fold_affine_scales_the_layer_before(rng: np.random.Generator, kind: str) -> None:
    net = FloatNetwork(rng)
    y = layer(net, kind)
    per_channel = (6,) if kind.startswith("gemm") else (6, 1, 1)
    y = net.op("Mul", net.batch_norm(y, 6), net.normal(*per_channel))
    y = net.op("Add", net.normal(1, *per_channel), y)
    net.op("Mul", y, net.normal(1), output="y")
    (node,) = rewritten(net, fold_affine, "y")
    assert node.output[0] == "y" and len(node.input) == 3


@pytest.mark.parametrize("channels_first", [False, True])
def test_fold_affine_reaches_layers_through_views(
    rng: np.random.Generator, channels_first: bool
) -> None:
    """As in networks whose residual branches have a scale for each channel."""
    net = FloatNetwork(rng)
    x = net.op("Neg", net.input("x", (12, 5)))
    y = net.op("Gemm", x, net.normal(5, 7), net.normal(7))
    y = net.op("Reshape", y, net.constant(np.array([1, 3, 4, 7])))
    if channels_first:
        y = net.op("Transpose", y, perm=[0, 3, 1, 2])
    scale = net.positive(7, 1, 1) if channels_first else net.positive(7)
    net.op("Add", net.op("Mul", y, scale), net.normal(1), output="y")
    views = ["Reshape", "Transpose"] if channels_first else ["Reshape"]
    assert ops(rewritten(net, fold_affine, "y")) == ["Neg", "Gemm", *views]


def test_fold_affine_keeps_scales_of_other_axes(rng: np.random.Generator) -> None:
    """Of rows of tokens, and of a view that others read."""
    net = FloatNetwork(rng)
    x = net.op("Neg", net.input("x", (12, 5)))
    y = net.op("Reshape", net.op("Gemm", x, net.normal(5, 7)), net.constant(np.array([3, 4, 7])))
    net.op("Mul", y, net.positive(3, 1, 1), output="rows")
    net.op("Mul", y, net.positive(7), output="channels")
    found = ops(rewritten(net, fold_affine, "rows", "channels"))
    assert found == ["Neg", "Gemm", "Reshape", "Mul", "Mul"]


@pytest.mark.parametrize("extents", [(1,), (1, 1)])
def test_fold_affine_makes_a_depthwise_layer_where_none_precedes(
    rng: np.random.Generator, extents: tuple[int, ...]
) -> None:
    net = FloatNetwork(rng)
    x = net.op("Relu", net.input("x", SHAPE[: 2 + len(extents)]))
    x = net.op("Add", net.batch_norm(x, 4), net.normal(1, 4, *extents))
    net.op("Relu", x, output="y")
    nodes = rewritten(net, fold_affine, "y")
    assert [op for op in ops(nodes) if op != "Reshape"] == ["Relu", "Conv", "Relu"]
    (conv,) = (node for node in nodes if node.op_type == "Conv")
    (group,) = (item.i for item in conv.attribute if item.name == "group")
    assert group == 4


def test_fold_affine_of_vectors_multiplies_and_adds(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    net.op("Relu", net.batch_norm(net.op("Neg", net.input("x", (3, 4))), 4), output="y")
    net.op("Relu", net.batch_norm(net.op("Neg", net.input("z", (3, 4, 5, 1, 2))), 4), output="w")
    assert ops(rewritten(net, fold_affine, "y", "w")) == ["Neg", "Mul", "Add", "Relu"] * 2


def test_fold_affine_leaves_the_normalization_of_an_image_to_the_host(
    rng: np.random.Generator,
) -> None:
    net = FloatNetwork(rng)
    x = net.op("Add", net.input("x", SHAPE), net.normal(1, 4, 1, 1))
    x = net.batch_norm(net.op("Mul", x, net.normal(1, 4, 1, 1)), 4)
    net.batch_norm(net.conv(x, 4, 4), 4)
    net.op("Relu", net.nodes[-1].output[0], output="y")
    expected = ["Add", "Mul", "BatchNormalization", "Conv", "Relu"]
    assert ops(rewritten(net, fold_affine, "y")) == expected


def test_fold_affine_leaves_results_that_others_read(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    net.op("Relu", net.batch_norm(x, 4), output="y")
    net.op("Neg", x, output="z")
    assert ops(rewritten(net, fold_affine, "y", "z")) == ["Conv", "Conv", "Relu", "Neg"]


def test_fold_affine_leaves_what_is_not_per_channel(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.conv(net.input("x", SHAPE), 4, 4)
    x = net.op("Mul", x, net.normal(6, 5))
    x = net.op("Add", x, net.normal(1))
    x = net.op("Mul", x, net.normal(3, 4, 1, 1))
    net.op("Mul", x, x, output="y")
    assert ops(rewritten(net, fold_affine, "y")) == ["Conv", "Mul", "Add", "Mul", "Mul"]


def test_fold_affine_refuses_negative_variances(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    parameters = [net.normal(4), net.normal(4), net.normal(4)]
    variance = net.constant(np.float32([1, -2, 1, 1]))
    x = net.input("x", SHAPE)
    x = net.op("BatchNormalization", x, *parameters, variance)
    net.op("Relu", x, output="y")
    graph = simple_model(net.model("y")).graph
    with pytest.raises(ModelError, match=r"must be positive, not -2.0 \(node 'batchnorm"):
        fold_affine(graph)


def test_hoist_bounds_moves_them_next_to_layers(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    parts = [net.op("MaxPool", net.conv(x, 4, 4), kernel_shape=[2, 2]) for _ in range(2)]
    y = net.op("Relu", net.op("Concat", *parts, axis=1))
    low, high = (net.constant(np.float32(bound)) for bound in (0.25, 1))
    y = net.op("Transpose", net.op("Clip", y, low, high), perm=[0, 2, 3, 1])
    net.op("Identity", y, output="y")
    branch = ["Conv", "Relu", "Clip", "MaxPool"]
    found = rewritten(net, hoist_bounds, "y")
    assert sorted(ops(found)) == sorted([*branch, *branch, "Concat", "Transpose"])
    producers = {node.output[0]: node for node in found}
    for pool in (node for node in found if node.op_type == "MaxPool"):
        clip = producers[pool.input[0]]
        relu = producers[clip.input[0]]
        assert [clip.op_type, relu.op_type, producers[relu.input[0]].op_type] == [
            "Clip",
            "Relu",
            "Conv",
        ]


def test_hoist_bounds_stays_behind_results_that_others_read(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    pooled = net.op("MaxPool", net.conv(x, 4, 4), kernel_shape=[2, 2])
    net.op("Relu", pooled, output="y")
    net.op("Neg", pooled, output="z")
    shared = net.conv(x, 4, 4)
    net.op("Relu", net.op("Concat", shared, x, axis=1), output="c")
    net.op("Neg", shared, output="d")
    net.op("Relu", net.op("AveragePool", net.conv(x, 4, 4), kernel_shape=[2, 2]), output="e")
    found = rewritten(net, hoist_bounds, "y", "z", "c", "d", "e")
    assert [node.input[0] for node in found if node.op_type == "Relu"] == [
        pooled,
        *(node.output[0] for node in found if node.op_type in ("Concat", "AveragePool")),
    ]


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 4, 6, 10), (2, 3)), ((1, 4, 6, 10), (1, 2)), ((2, 2, 2, 3), (-3, -2))]
)
def test_joined_slices_become_a_transpose(
    rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, int]
) -> None:
    """The merging of patches in Swin, and the first layer of YOLO v5."""
    net = FloatNetwork(rng)
    joined = net.every_second(net.input("x", shape), axes, (0, 0), (1, 0), (0, 1), (1, 1))
    net.op("Neg", joined, output="y")
    found = ops(rewritten(net, turn_joined_slices, "y"))
    assert [op for op in found if op != "Reshape"] == ["Transpose", "Neg"]


@pytest.mark.parametrize(
    "starts",
    [
        [(0, 0), (1, 0), (0, 1), (0, 1)],
        [(1, 1), (1, 0), (0, 1), (0, 0)],
        [(0, 0), (1, 0), (0, 1)],
    ],
)
def test_joined_slices_of_other_places_stay(
    rng: np.random.Generator, starts: list[tuple[int, int]]
) -> None:
    net = FloatNetwork(rng)
    net.op("Neg", net.every_second(net.input("x", (1, 4, 6, 10)), (2, 3), *starts), output="y")
    assert ops(rewritten(net, turn_joined_slices, "y"))[-2:] == ["Concat", "Neg"]


def test_joined_slices_of_several_tensors_stay(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    a, b = (net.input(name, (1, 2, 4)) for name in "ab")
    bounds = [np.array([value]) for value in (0, 2, 2)]
    parts = [net.op("Slice", x, *map(net.constant, bounds)) for x in (a, b)]
    net.op("Concat", *parts, axis=2, output="y")
    net.op("Concat", net.op("Slice", a, *map(net.constant, bounds)), b, axis=2, output="z")
    nodes = rewritten(net, turn_joined_slices, "y", "z")
    assert ops(nodes) == ["Slice", "Slice", "Concat", "Slice", "Concat"]


def test_joined_slices_in_order_are_all() -> None:
    graph = parse_graph(
        """
        graph parts {
          input x: float32[2,6]
          a: float32[2,2] = slice(x) begins=0,0 ends=2,2 steps=1,1
          b: float32[2,4] = slice(x) begins=0,2 ends=2,6 steps=1,1
          y: float32[2,6] = concat(a, b) axis=1
          output y
        }
        """
    )
    (node,) = turn_joined_slices(graph).nodes
    assert node.op == "reshape" and node.inputs == ("x",)


@pytest.mark.parametrize("rows", [1, 2])
def test_joined_slices_of_the_first_elements_stay(rows: int) -> None:
    """Their places count up, but they are not all."""
    graph = parse_graph(
        f"""
        graph first {{
          input x: float32[{rows},3]
          a: float32[{rows},1] = slice(x) begins=0,0 ends={rows},1 steps=1,1
          b: float32[{rows},1] = slice(x) begins=0,1 ends={rows},2 steps=1,1
          y: float32[{rows},2] = concat(a, b) axis=1
          output y
        }}
        """
    )
    assert turn_joined_slices(graph) is graph
