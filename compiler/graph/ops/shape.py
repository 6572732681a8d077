"""Operators that rearrange elements without changing their values."""

import math

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints, require
from daedal.compiler.graph.types import TensorType

__all__: list[str] = []


def _infer_reshape(operands: Types, attrs: Attrs) -> TensorType:
    x, shape = operands[0], ints(attrs, "shape")
    require(
        math.prod(shape) == x.num_elements,
        f"a reshape must keep the number of elements: {list(x.shape)} does not fit "
        f"{list(shape)}; repair the model",
    )
    return TensorType(shape, x.dtype)


def _evaluate_reshape(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Row-major reshape; Flatten, Squeeze and Unsqueeze become this."""
    return arrays[0].reshape(ints(attrs, "shape"))


def _infer_transpose(operands: Types, attrs: Attrs) -> TensorType:
    x, order = operands[0], ints(attrs, "order")
    require(
        sorted(order) == list(range(x.rank)),
        f"a transpose must name each of {x.rank} axes once, not {list(order)}; repair the model",
    )
    return TensorType(tuple(x.shape[axis] for axis in order), x.dtype)


def _evaluate_transpose(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Permute axes."""
    return np.ascontiguousarray(arrays[0].transpose(ints(attrs, "order")))


def _write_reshape(form: OnnxForm, node: Node) -> None:
    shape = form.constant(ints(node.attrs, "shape"), "int64")
    form.write(node, "Reshape", [*node.inputs, shape])


define("reshape", ("x",), {"shape": "ints"}, _infer_reshape, _evaluate_reshape, onnx=_write_reshape)
define(
    "transpose",
    ("x",),
    {"order": "ints"},
    _infer_transpose,
    _evaluate_transpose,
    onnx=simple("Transpose", order="perm"),
)
