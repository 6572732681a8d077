"""Kernels: what is fused, how it is scheduled, and that the code computes what the formulas say."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.artifact.host_code import HostCode
from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def model(
    nodes: Sequence[Any],
    x: Sequence[int],
    constants: dict[str, np.ndarray],
    outputs: Sequence[str] = ("y",),
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def check(made: ModelProto, **options: Any) -> HostCode:
    """Compile, run and compare; the code, to look at."""
    code = build_host_code(made, **options)
    dims = made.graph.input[0].type.tensor_type.shape.dim
    x = floats(*(dim.dim_value for dim in dims))
    found = HostProgram(code).run({"x": x})
    for one, other in zip(
        found.values(), ReferenceEvaluator(made).run(None, {"x": x}), strict=True
    ):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return code


CONVOLUTIONS = [
    # channels in and out, map, kernel, stride, group
    (3, 16, (9, 11), 3, 1, 1),
    (16, 32, (7, 7), 3, 1, 1),
    (16, 33, (13, 27), 1, 1, 1),
    (8, 20, (10, 10), 3, 2, 1),
    (12, 12, (11, 17), 3, 1, 12),
    (12, 24, (11, 17), 3, 2, 12),
    (8, 12, (9, 9), 5, 1, 4),
    (5, 7, (5, 5), 2, 1, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("levels", [(), ("x86-64-v3",), ("x86-64",)], ids=str)
def test_convolutions(case: tuple[Any, ...], levels: tuple[str, ...]) -> None:
    """Tiles that fit and that do not, depthwise and grouped, for wide and narrow registers."""
    cin, cout, (height, width), kernel, stride, group = case
    nodes = [
        helper.make_node(
            "Conv", ["x", "w", "b"], ["c"], strides=[stride] * 2, group=group,
            pads=[kernel // 2] * 4,
        ),
        helper.make_node("Relu", ["c"], ["y"]),
    ]  # fmt: skip
    constants = {"w": floats(cout, cin // group, kernel, kernel), "b": floats(cout)}
    code = check(model(nodes, (2, cin, height, width), constants), levels=levels)
    assert len(code.calls) == (3 if kernel > 1 else 1), "pads, a copy inside, and the rest in one"


@pytest.mark.parametrize("size", [1, 5, 16, 48, 100, 257])
def test_products_and_sums(size: int) -> None:
    """Lanes along the result, along the sum, and none."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Gemm", ["x", "v", "b"], ["n"], transB=1, alpha=0.5),
        helper.make_node("Add", ["m", "n"], ["s"]),
        helper.make_node("ReduceMean", ["s", "axes"], ["mean"]),
        helper.make_node("Sub", ["s", "mean"], ["y"]),
    ]
    constants = {
        "w": floats(40, size), "v": floats(size, 40), "b": floats(size),
        "axes": np.array([1], np.int64),
    }  # fmt: skip
    check(model(nodes, (3, 40), constants))


def test_a_batch_norm_and_an_activation_belong_to_the_convolution() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
        helper.make_node("Sigmoid", ["n"], ["s"]),
        helper.make_node("Mul", ["n", "s"], ["y"]),
    ]
    constants = {name: floats(8) for name in "gbm"}
    constants |= {"w": floats(8, 4, 1, 1), "v": np.abs(floats(8)) + 1}
    code = check(model(nodes, (1, 4, 6, 6), constants))
    # The norm has two readers, so it is in memory between the kernels: two are right, not four.
    assert len(code.calls) <= 2


def test_what_is_read_twice_is_computed_once() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["a"]),
        helper.make_node("Neg", ["e"], ["b"]),
    ]
    code = check(model(nodes, (4, 5), {}, ("a", "b")))
    assert len(code.calls) == 3


def test_equal_kernels_are_one_function() -> None:
    nodes = []
    for number in range(4):
        given = "x" if not number else f"r{number - 1}"
        nodes.append(helper.make_node("Conv", [given, f"w{number}"], [f"c{number}"]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
    constants = {f"w{number}": floats(8, 8, 1, 1) for number in range(4)}
    code = check(model(nodes, (1, 8, 5, 5), constants, ("r3",)))
    assert len(code.calls) == 4
    assert len({call.symbol for call in code.calls}) == 1


def test_memory_is_shared_by_what_is_never_needed_at_once() -> None:
    nodes = []
    for number in range(12):
        given = "x" if not number else f"m{number - 1}"
        nodes.append(helper.make_node("MatMul", [given, "w"], [f"m{number}"]))
    code = check(model(nodes, (64, 64), {"w": floats(64, 64) / 8}, ("m11",)))
    each = 64 * 64 * 4
    assert code.memory_bytes <= 2 * each + 3 * each, "two constants' forms, and three tensors"


def test_views_and_interpreted_nodes_between_kernels() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["v"]),
        helper.make_node("NonZero", ["v"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["v"], ["t"], perm=[1, 0]),
    ]
    code = check(model(nodes, (4, 6), {"shape": np.array([8, 3])}, ("y", "t")))
    assert [step.op for step in code.interpreted] == ["NonZero", "Cast"]


def test_outputs_that_are_inputs_constants_and_each_other() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Identity", ["k"], ["b"]),
        helper.make_node("Neg", ["x"], ["c"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    check(model(nodes, (3,), {"k": floats(2, 2)}, ("a", "b", "c", "d")))


def test_runs_do_not_depend_on_those_before() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    program = HostProgram(build_host_code(model(nodes, (5,), {})))
    first = program.run({"x": np.ones(5, np.float32)})["y"]
    program.run({"x": -np.ones(5, np.float32)})
    np.testing.assert_array_equal(first, np.ones(5, np.float32))


@pytest.mark.parametrize("levels", [(), ("x86-64-v3",), ("x86-64-v3", "x86-64-v4")], ids=str)
@pytest.mark.parametrize("rows", [50, 16, 9, 61], ids=str)
def test_a_product_with_a_transposed_operand(rows: int, levels: tuple[str, ...]) -> None:
    """Queries times keys: both move along the sum, so a copy of one lies in blocks of lanes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("MatMul", ["x", "k"], ["t"]),
        helper.make_node("Add", ["s", "t"], ["y"]),
    ]
    code = check(model(nodes, (2, rows, 24), {"w": 0.1 * floats(24, 24)}), levels=levels)
    # Three products, of which one adds, and one copy of the keys, which two of them read.
    assert len(code.calls) == 4


def test_one_row_times_a_transposed_operand_is_not_worth_a_copy() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["k"], perm=[1, 0]),
        helper.make_node("MatMul", ["q", "k"], ["y"]),
    ]
    code = check(model(nodes, (40, 64), {"q": 0.1 * floats(1, 64)}))
    assert len(code.calls) == 2


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("shape", [(1, 37, 50), (3, 16, 32), (5, 64, 33), (4, 3, 48)], ids=str)
def test_what_is_turned(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    """Tiles of 16 x 16 elements, whole ones and parts."""
    check(model([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], shape, {}))
    check(model([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], shape, {}), checked=True)


@pytest.mark.parametrize("extent", [4, 12, 40, 48, 64, 197, 320])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceProd", "Softmax"])
def test_sums_in_lanes_of_any_number(op: str, extent: int) -> None:
    """Of one vector, of several, of lanes that are odd in number, and of no lanes."""
    inputs = ["x"] if op == "Softmax" else ["x", "axes"]
    made = model([helper.make_node(op, inputs, ["y"])], [3, extent], {"axes": np.array([1])})
    check(made)


@pytest.mark.parametrize("extent", [12, 64])
def test_a_softmax_of_what_is_no_number(extent: int) -> None:
    made = model([helper.make_node("Softmax", ["x"], ["y"])], [2, extent], {})
    x = floats(2, extent)
    x[1, 5] = np.nan
    y = HostProgram(build_host_code(made)).run({"x": x})["y"]
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()


@pytest.mark.parametrize(
    ("extents", "iterations"), [((64, 1024), 8), ((3, 5, 1009), 3), ((1, 1500), 1), ((4099,), 1)]
)
def test_threads_share_elements_that_lie_side_by_side(
    extents: tuple[int, ...], iterations: int
) -> None:
    """All axes are one; its parts are at most 8,192 elements, and a prime number has none."""
    code = check(model([helper.make_node("Sigmoid", ["x"], ["y"])], extents, {}))
    (call,) = code.calls
    assert call.iterations == iterations
