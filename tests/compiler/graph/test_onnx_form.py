"""Nodes of the graph written as ONNX: ONNX's evaluator computes what the interpreter does."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import get_op, list_ops
from daedal.compiler.graph.types import TensorType

WINDOW = {"kernel": (3, 2), "strides": (2, 1)}
CONV = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2)}
Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def bytes_of(*shape: int, dtype: str = "int8") -> Array:
    return np.random.default_rng(3).integers(0, 120, shape).astype(dtype)


SCALE, ZERO = np.float32(0.1), np.int8(-7)
PER_AXIS = floats(4) ** 2 + np.float32(0.1), np.zeros(4, np.int8)
CASES: list[tuple[str, Sequence[Array], Mapping[str, Any]]] = [
    *((op, [floats(2, 1, 4), floats(3, 4)], {}) for op in ("add", "maximum", "mul", "sub")),
    *((op, [floats(2, 4)], {}) for op in ("relu",)),
    ("leaky_relu", [floats(2, 4)], {"slope": 0.25}),
    ("clip", [floats(2, 4)], {"low": -0.5, "high": float("inf")}),
    *((op, [floats(2, 3, 4)], {"axes": (1,)}) for op in ("softmax", "log_softmax")),
    *((op, [floats(2, 3, 4)], {"axes": (1, 2)}) for op in ("softmax", "log_softmax")),
    (
        "batch_norm",
        [floats(2, 3, 4, 4), *(floats(3) ** 2 + np.float32(n) for n in range(4))],
        {"epsilon": 1e-5},
    ),
    ("conv2d", [floats(1, 4, 9, 8), floats(6, 2, 3, 2), floats(6)], {**CONV, "groups": 2}),
    (
        "conv_transpose2d",
        [floats(1, 4, 5, 4), floats(4, 3, 3, 2)],
        {**CONV, "output_padding": (1, 0)},
    ),
    ("dense", [floats(3, 5), floats(4, 5), floats(4)], {"transposed": 1}),
    ("dense", [floats(2, 3, 5), floats(5, 4), floats(4)], {"transposed": 0}),
    ("dense", [floats(2, 3, 5), floats(4, 5)], {"transposed": 1}),
    ("matmul", [floats(2, 3, 5), floats(5, 4)], {}),
    ("slice", [floats(4, 9)], {"begins": (1, 2), "ends": (3, 9), "steps": (1, 3)}),
    ("pad", [floats(2, 3)], {"pads": (0, 1, 2, 0)}),
    ("pad", [bytes_of(2, 3), np.int8(9)], {"pads": (0, 1, 2, 0)}),
    ("concat", [floats(2, 3), floats(2, 1)], {"axis": 1}),
    ("resize", [floats(1, 2, 3, 4)], {"factors": (1, 1, 2, 3)}),
    ("layer_norm", [floats(2, 6), floats(6), floats(6)], {"epsilon": 1e-5}),
    ("layer_norm", [floats(2, 6), floats(6)], {"epsilon": 1e-3}),
    ("rms_norm", [floats(2, 6), floats(6)], {"epsilon": 1e-5}),
    ("max_pool", [floats(1, 2, 7, 6)], {**WINDOW, "pads": (1, 0, 1, 1)}),
    *(
        (
            "avg_pool",
            [floats(1, 2, 7, 6)],
            {**WINDOW, "pads": (1, 0, 1, 1), "counted_pads": counted},
        )
        for counted in ((1, 0, 1, 1), (0, 0, 0, 0))
    ),
    (
        "avg_pool",
        [floats(1, 2, 6, 6)],
        {**WINDOW, "pads": (1, 0, 2, 0), "counted_pads": (1, 0, 1, 0)},
    ),
    ("quantize", [floats(2, 4), SCALE, ZERO], {"axis": 1}),
    ("quantize", [floats(2, 4), *PER_AXIS], {"axis": 1}),
    ("dequantize", [bytes_of(2, 4), SCALE, ZERO], {"axis": 1}),
    ("dequantize", [bytes_of(4, 2), *PER_AXIS], {"axis": 0}),
    ("flip_sign", [bytes_of(2, 4)], {}),
    ("flip_sign", [bytes_of(2, 4, dtype="uint8")], {}),
    ("reshape", [floats(2, 6)], {"shape": (3, 4)}),
    ("transpose", [floats(2, 3, 4)], {"order": (2, 0, 1)}),
]


def graph_of(op: str, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> Graph:
    builder = GraphBuilder("one")
    names = [f"x{number}" for number in range(len(arrays))]
    for name, array in zip(names, arrays, strict=True):
        builder.input(name, TensorType(array.shape, array.dtype.name))
    return builder.finish([builder.add(op, names, attrs, output="y")])


def evaluated(graph: Graph, feeds: Mapping[str, Array], opset: int) -> Array:
    """The output of the graph by ONNX's evaluator."""
    numbers = iter(range(1000))
    form = OnnxForm(graph, opset, lambda: f"own{next(numbers)}")
    for node in graph.nodes:
        write = get_op(node.op).onnx
        assert write is not None
        write(form, node)
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            form.nodes,
            "g",
            inputs,
            [onnx.helper.make_empty_tensor_value_info("y")],
            [onnx.numpy_helper.from_array(value, name) for name, value in form.constants.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )
    (result,) = evaluator_of(made).run(None, dict(feeds))
    return np.asarray(result)


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize(
    ("op", "arrays", "attrs"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
def test_the_same_result(
    op: str, arrays: Sequence[Array], attrs: Mapping[str, Any], opset: int
) -> None:
    graph = graph_of(op, [np.asarray(array) for array in arrays], attrs)
    feeds = {f"x{number}": np.asarray(array) for number, array in enumerate(arrays)}
    wanted, found = run(graph, feeds)["y"], evaluated(graph, feeds, opset)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_every_operator_has_a_case() -> None:
    """But for ONNX nodes themselves, which are copied."""
    known = {item.name for item in list_ops() if item.onnx is not None}
    assert {op for op, _, _ in CASES} | {"onnx"} == known


def test_a_node_of_onnx_is_copied_once_and_reads_what_the_graph_does() -> None:
    node = onnx.helper.make_node("Split", ["a"], ["p", "q"], axis=1, num_outputs=2)
    builder = GraphBuilder("g")
    builder.input("x0", TensorType((2, 4), "float32"))
    attrs = {
        "dtype": "float32",
        "op_type": "Split",
        "opset": 21,
        "proto": node.SerializeToString(deterministic=True),
        "shape": (2, 2),
    }
    for number, name in enumerate(("p", "other")):
        builder.add("onnx", ["x0"], {**attrs, "output": number}, output=name)
    graph = builder.finish([builder.add("sub", ["p", "other"], {}, output="y")])
    feeds = {"x0": floats(2, 4)}
    np.testing.assert_array_equal(evaluated(graph, feeds, 21), run(graph, feeds)["y"])
    form = OnnxForm(graph, 21, lambda: "unused")
    for item in graph.nodes[:2]:
        write = get_op(item.op).onnx
        assert write is not None
        write(form, item)
    assert [item.op_type for item in form.nodes] == ["Split", "Identity"]
    assert form.nodes[0].input == ["x0"]


def test_results_of_a_node_of_onnx_are_counted_without_omitted_ones() -> None:
    node = onnx.helper.make_node("Split", ["x0"], ["", "q"], axis=1, num_outputs=2)
    attrs = {
        "dtype": "float32",
        "op_type": "Split",
        "opset": 21,
        "output": 0,
        "proto": node.SerializeToString(deterministic=True),
        "shape": (2, 2),
    }
    builder = GraphBuilder("g")
    builder.input("x0", TensorType((2, 4), "float32"))
    graph = builder.finish([builder.add("onnx", ["x0"], attrs, output="q")])
    form = OnnxForm(graph, 21, lambda: "unused")
    write = get_op("onnx").onnx
    assert write is not None
    write(form, graph.nodes[0])
    assert [list(item.output) for item in form.nodes] == [["", "q"]]
