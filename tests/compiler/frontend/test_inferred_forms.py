"""Operators whose shapes ONNX's inference gets wrong or does not find have the shapes and values
of onnxruntime."""

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ModelWarning
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.runtime.host_code import HostProgram

Case = tuple[str, int, tuple[int, ...], dict[str, Any]]

POOLS: list[Case] = [
    ("MaxPool", 11, (17,), {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}),
    ("MaxPool", 12, (9, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", 17, (8, 6), {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [1, 0, 0, 2],
                             "dilations": [1, 2]}),
    ("MaxPool", 13, (6, 6), {"kernel_shape": [2, 1], "strides": [1, 3], "auto_pad": "VALID"}),
    ("MaxPool", 18, (6, 5), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("AveragePool", 11, (4, 5), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 19, (5, 3, 4), {"kernel_shape": [2, 1, 2], "strides": [3, 2, 2],
                                    "pads": [0, 0, 0, 1, 0, 1], "count_include_pad": 1}),
    ("AveragePool", 17, (7, 3), {"kernel_shape": [2, 1], "strides": [3, 3], "auto_pad": "VALID"}),
    ("AveragePool", 22, (4, 6), {"kernel_shape": [3, 3], "strides": [2, 2],
                                 "auto_pad": "SAME_UPPER"}),
    ("LpPool", 18, (7, 4), {"kernel_shape": [2, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}),
    ("LpPool", 18, (1, 4), {"kernel_shape": [3, 2], "strides": [3, 2]}),
]  # fmt: skip

TRANSPOSED: list[Case] = [
    ("ConvTranspose", 11, (5,), {"strides": [2], "auto_pad": "SAME_UPPER", "output_padding": [1]}),
    ("ConvTranspose", 17, (5, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER", "group": 2,
                                   "output_padding": [1, 0]}),
    ("ConvTranspose", 22, (3, 3), {"strides": [3, 4], "auto_pad": "SAME_UPPER",
                                   "output_padding": [2, 0]}),
    ("ConvTranspose", 17, (3, 2, 2), {"strides": [2, 1, 2], "auto_pad": "SAME_UPPER",
                                      "dilations": [1, 2, 1], "output_padding": [0, 0, 1]}),
    ("ConvTranspose", 13, (3, 6), {"strides": [2, 1], "output_shape": [7, 5], "group": 2}),
]  # fmt: skip

NORMS: list[Case] = [
    ("GroupNormalization", 21, (4, 3), {"num_groups": 2}),
    ("MeanVarianceNormalization", 13, (4, 3), {}),
]


def made(case: Case) -> onnx.ModelProto:
    """Relu, the operator, Relu, with shapes that the model does not state."""
    op_type, opset, extents, attributes = case
    constants = []
    if op_type == "ConvTranspose":
        values = np.random.default_rng(1).normal(size=(2, 2, *[3] * len(extents)))
        constants.append(numpy_helper.from_array(values.astype(np.float32), "w"))
    elif op_type == "GroupNormalization":
        constants += [numpy_helper.from_array(np.ones(2, np.float32), name) for name in ("s", "t")]
    elif op_type == "MeanVarianceNormalization":
        pass
    elif op_type != "MaxPool" or "ceil_mode" not in attributes:
        attributes = {**attributes, "ceil_mode": 1}
    operands = ["a", *(item.name for item in constants)]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(op_type, operands, ["b"], **attributes),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, *extents])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * (len(extents) + 2))
    graph = helper.make_graph(nodes, "window", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def name_of(case: Case) -> str:
    return f"{case[0]}-{case[1]}-{'x'.join(map(str, case[2]))}-{case[3].get('auto_pad', '')}"


@pytest.mark.parametrize("case", [*POOLS, *TRANSPOSED, *NORMS], ids=name_of)
def test_shapes_and_values_are_those_of_onnxruntime(case: Case) -> None:
    model = made(case)
    x = np.random.default_rng(2).normal(size=(1, 2, *case[2])).astype(np.float32)
    (wanted,) = open_session(model)({"x": x})
    dims = tensor_types(model)["b"].type.tensor_type.shape.dim
    assert tuple(dim.dim_value for dim in dims) == wanted.shape
    code = build_host_code(model)
    assert not code.interpreted
    np.testing.assert_allclose(HostProgram(code).run({"x": x})["y"], wanted, atol=1e-5)


def quantized(op_type: str, opset: int, extents: tuple[int, ...], **attributes: Any) -> bytes:
    """A pool between convolutions, all quantized; the model states the shapes that are inferred."""
    maker, rng, rank = QdqModel(opset), np.random.default_rng(3), len(extents)
    x = maker.requantized(maker.input("x", (1, 8, *extents)), 0.05, 0)
    shape = (8, 8, *[1] * rank)
    for number, scale in enumerate((0.1, 0.1, 0.2)):
        if number == 1:
            x = maker.op(op_type, x, ceil_mode=1, **attributes)
        else:
            weights = rng.integers(-127, 128, shape).astype(np.int8)
            x = maker.op("Conv", x, maker.weights(weights, 0.01))
        x = maker.requantized(x, scale, 0)
    maker.op("Identity", x, output="y")
    return bytes(maker.model("y").SerializeToString())


@pytest.mark.filterwarnings("ignore:the model states")
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("opset", "extents", "attributes"),
    [
        (13, (7, 9), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (17, (9,), {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}),
        (17, (7, 6), {"kernel_shape": [2, 2], "strides": [3, 2], "auto_pad": "VALID"}),
        (13, (6, 5), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ],
)
def test_quantized_pools_run_in_one_launch(
    op_type: str, opset: int, extents: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    model = quantized(op_type, opset, extents, **attributes)
    feeds = {"x": np.random.default_rng(4).normal(size=(1, 8, *extents)).astype(np.float32)}
    artifact = daedal.compile(model, "tiny")
    assert len(artifact.launches) == 1
    assert daedal.check_layers(artifact, model, feeds).passed
    (found,) = daedal.simulate(artifact, feeds).outputs.values()
    (wanted,) = open_session(onnx.ModelProto.FromString(model))(feeds)
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= 0.2 * 1.01


def test_the_shape_that_a_model_states_is_not_believed() -> None:
    """Neither that of its output, nor of a tensor inside."""
    model = made(POOLS[1])
    dims = model.graph.output[0].type.tensor_type.shape.dim
    for dim, extent in zip(dims, (1, 2, 6, 5), strict=True):
        dim.dim_value = extent
    inside = helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [1, 2, 6, 5])
    model.graph.value_info.append(inside)
    x = np.random.default_rng(2).normal(size=(1, 2, 9, 7)).astype(np.float32)
    with pytest.warns(ModelWarning, match=r"states that '[by]' has shape \[1, 2, 6, 5\], and its"):
        code = build_host_code(model)
    assert HostProgram(code).run({"x": x})["y"].shape == (1, 2, 5, 4)


def test_right_models_are_inferred_as_they_are() -> None:
    model = made(("MaxPool", 13, (8, 8), {"kernel_shape": [2, 2], "ceil_mode": 0}))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 2, 7, 7])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tensor_types(model)) == 4
