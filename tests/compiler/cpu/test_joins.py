"""A Concat of many tensors copies each; tensors without elements are known and cost nothing."""

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.artifact.code import codes_from_json, codes_json, codes_members
from daedal.artifact.host_code import HostCode, Join
from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def model(nodes: list[onnx.NodeProto], opset: int = 17, **constants: np.ndarray) -> onnx.ModelProto:
    """From x to the last node's first result."""
    graph = helper.make_graph(
        nodes,
        "joins",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def checked(made: onnx.ModelProto) -> HostCode:
    """Compiled and read back from a file, it gives what the evaluator gives, and is not
    interpreted."""
    compiled = build_host_code(made)
    (code,) = codes_from_json(codes_json([compiled]), codes_members([compiled]))
    assert not code.interpreted
    (found,) = HostProgram(code).run({"x": X}).values()
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": X})
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return code


def joining(count: int, axis: int) -> onnx.ModelProto:
    """Concat of x, results of x, a constant and an empty one, each several times."""
    node = helper.make_node
    names = [("x", "a", "b", "c", "none")[number % 5] for number in range(count)]
    return model(
        [
            node("Relu", ["x"], ["a"]),
            node("Neg", ["x"], ["b"]),
            node("Concat", names, ["y"], axis=axis),
            node("Exp", ["b"], ["z"]),
            node("Sin", ["y"], ["w"]),
        ],
        c=X + 100,
        none=np.zeros(
            (0, 2, 3, 4) if axis % 4 == 0 else (1, 0, 3, 4) if axis == 1 else (1, 2, 3, 0),
            np.float32,
        ),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [5, 20, 200])
def test_a_concat_of_any_number(axis: int, count: int) -> None:
    joins = [step for step in checked(joining(count, axis)).steps if isinstance(step, Join)]
    assert len(joins) == (count > 10)


HARM: dict[str, Callable[[Join], Join]] = {
    "another axis": lambda join: Join(2, join.buffers),
    "no such axis": lambda join: Join(4, join.buffers),
    "no parts": lambda join: Join(join.axis, join.buffers[-1:]),
    "too few parts": lambda join: Join(join.axis, join.buffers[1:]),
    "no such buffer": lambda join: Join(join.axis, (999, *join.buffers[1:])),
    "the result as a part": lambda join: Join(join.axis, join.buffers[::-1]),
}


@pytest.mark.parametrize("name", HARM)
def test_damaged_joins_are_refused(name: str) -> None:
    code = build_host_code(joining(20, 1))
    steps = tuple(HARM[name](step) if isinstance(step, Join) else step for step in code.steps)
    harmed = dataclasses.replace(code, steps=steps)
    with pytest.raises((ValueError, LookupError)):
        codes_from_json(codes_json([harmed]), codes_members([harmed]))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [11, 12])
def test_an_empty_roi_is_none(opset: int, mode: str) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    node = helper.make_node("Resize", ["x", "roi", "scales"], ["y"], **attributes)
    checked(model([node], opset, roi=np.zeros(0, np.float32), scales=scales))


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_no_axes_are_all_or_none(op: str, keeps: int) -> None:
    node = helper.make_node(op, ["x", "axes"], ["y"], noop_with_empty_axes=keeps)
    checked(model([node], 18, axes=np.zeros(0, np.int64)))


@pytest.mark.parametrize("sizes", [[0, 2], [2, 0], [0, 1, 0, 1]])
def test_parts_without_elements(sizes: list[int]) -> None:
    """Of a Split, joined again: the empty ones are not computed."""
    parts = [f"p{number}" for number in range(len(sizes))]
    nodes = [
        helper.make_node("Split", ["x", "sizes"], parts, axis=1),
        helper.make_node("Concat", parts[::-1], ["y"], axis=1),
    ]
    checked(model(nodes, sizes=np.array(sizes)))


def test_operands_without_elements_are_not_read() -> None:
    """A product over nothing is 0."""
    nodes = [
        helper.make_node("MatMul", ["left", "right"], ["p"]),
        helper.make_node("Add", ["x", "p"], ["y"]),
    ]
    checked(model(nodes, left=np.zeros((3, 0), np.float32), right=np.zeros((0, 4), np.float32)))


@pytest.mark.parametrize(("op", "count"), [("Sum", 40), ("Mean", 40), ("Min", 70), ("Max", 200)])
def test_hundreds_of_operands(op: str, count: int) -> None:
    node = helper.make_node
    names = [("x", "a", "c")[number % 3] for number in range(count)]
    row = np.arange(4, dtype=np.float32)
    checked(model([node("Sin", ["x"], ["a"]), node(op, names, ["y"])], c=row))


def fire(branches: int, also_read: bool = False) -> onnx.ModelProto:
    """Convolutions of the same map whose results are joined, as SqueezeNet's are."""
    rng = np.random.default_rng(branches)
    nodes, constants = [], {}
    for number in range(branches):
        size = 1 + 2 * (number % 2)
        constants[f"w{number}"] = rng.normal(size=(16 + 16 * number, 16, size, size)).astype(
            np.float32
        )
        nodes += [
            helper.make_node("Conv", ["s", f"w{number}"], [f"c{number}"], pads=[size // 2] * 4),
            helper.make_node("Relu", [f"c{number}"], [f"r{number}"]),
        ]
    first = rng.normal(size=(16, 2, 1, 1)).astype(np.float32)
    last = rng.normal(size=(5, sum(len(w) for w in constants.values()), 1, 1)).astype(np.float32)
    more = [helper.make_node("Conv", ["j", "last"], ["y"])]
    if also_read:  # by another operator than the Concat
        more = [
            helper.make_node("Conv", ["j", "last"], ["z"]),
            helper.make_node("ReduceMean", ["r0"], ["mean"]),
            helper.make_node("Add", ["z", "mean"], ["y"]),
        ]
    return model(
        [
            helper.make_node("Conv", ["x", "first"], ["s"]),
            *nodes,
            helper.make_node("Concat", [f"r{n}" for n in range(branches)], ["j"], axis=1),
            *more,
        ],
        opset=21,
        first=first,
        last=last,
        **constants,
    )


@pytest.mark.parametrize("branches", [2, 3])
def test_kernels_store_where_their_results_are_joined(branches: int) -> None:
    """Nothing is copied."""
    made = fire(branches)
    code = build_host_code(made)
    assert not any(isinstance(step, Join) for step in code.steps)
    (found,) = HostProgram(code).run({"x": X}).values()
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": X})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_others_read_is_copied() -> None:
    made = fire(2, also_read=True)
    code = build_host_code(made)
    assert sum(isinstance(step, Join) for step in code.steps) == 1
    (found,) = HostProgram(code).run({"x": X}).values()
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": X})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
