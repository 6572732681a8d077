"""Operators that rearrange elements without changing their values."""

import math
from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import Array, Attrs, OpClass, OpDef, ints, register, require
from daedal.compiler.graph.types import TensorType

__all__ = ["RESHAPE", "TRANSPOSE"]


def _infer_reshape(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x, shape = operands[0], ints(attrs, "shape")
    require(
        math.prod(shape) == x.num_elements,
        f"a reshape must keep the number of elements: {list(x.shape)} does not fit "
        f"{list(shape)}; repair the model",
    )
    return TensorType(shape, x.dtype)


def _evaluate_reshape(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
    return arrays[0].reshape(ints(attrs, "shape"))


def _infer_transpose(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x, order = operands[0], ints(attrs, "order")
    require(
        sorted(order) == list(range(x.rank)),
        f"a transpose must name each of {x.rank} axes once, not {list(order)}; repair the model",
    )
    return TensorType(tuple(x.shape[axis] for axis in order), x.dtype)


def _evaluate_transpose(
    arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs
) -> Array:
    return np.ascontiguousarray(arrays[0].transpose(ints(attrs, "order")))


def _write_reshape(form: OnnxForm, node: Node) -> None:
    shape = form.constant(ints(node.attrs, "shape"), "int64")
    form.write(node, "Reshape", [*node.inputs, shape])


RESHAPE = register(
    OpDef(
        "reshape",
        ("x",),
        {"shape": "ints"},
        _infer_reshape,
        _evaluate_reshape,
        op_class=OpClass.INJECTIVE,
        onnx=_write_reshape,
        doc="row-major reshape; Flatten, Squeeze and Unsqueeze become this",
    )
)
TRANSPOSE = register(
    OpDef(
        "transpose",
        ("x",),
        {"order": "ints"},
        _infer_transpose,
        _evaluate_transpose,
        op_class=OpClass.INJECTIVE,
        onnx=simple("Transpose", order="perm"),
        doc="permute axes",
    )
)
