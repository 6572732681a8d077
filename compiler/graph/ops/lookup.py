"""Unary activations: the float ones use their formula, the integer ones a lookup table.

On variants without tables these lookups run on the host; `looked_up` has those of the machine.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.integer import check_activation
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import (
    Array,
    Attrs,
    OpClass,
    OpDef,
    register,
    require_float,
    text,
)
from daedal.compiler.graph.types import TensorType

__all__ = ["ACTIVATION", "ACTIVATIONS", "Q_LOOKUP", "TABLE_SIZE"]

TABLE_SIZE = 256
"""Entries of a table: one for each of -128, ..., 127."""

_erf = np.vectorize(math.erf, otypes=[np.float64])

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    "tanh": np.tanh,
}
"""Formula of every activation, on float64.

Source: ONNX Gelu-20 (approximate none), HardSwish-14, Sigmoid-13, Tanh-13.
"""


def _infer_activation(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    require_float(operands)
    assert text(attrs, "function") in ACTIVATIONS, f"{attrs['function']} is no activation"
    return operands[0]


def _evaluate_activation(
    arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs
) -> Array:
    return ACTIVATIONS[text(attrs, "function")](arrays[0].astype(np.float64)).astype(np.float32)


def _infer_lookup(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x, table = operands
    check_activation(x)
    assert (table.shape, table.dtype) == ((TABLE_SIZE,), "int8"), f"table is {table}"
    return x


def _evaluate_lookup(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
    x, table = arrays
    return np.asarray(table[x.astype(np.int64) + TABLE_SIZE // 2])


_ONNX = {"gelu": "Gelu", "hard_swish": "HardSwish", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def _write_activation(form: OnnxForm, node: Node) -> None:
    form.write(node, _ONNX[text(node.attrs, "function")])


ACTIVATION = register(
    OpDef(
        "activation",
        ("x",),
        {"function": "str"},
        _infer_activation,
        _evaluate_activation,
        op_class=OpClass.INJECTIVE,
        onnx=_write_activation,
        doc=f"float activation `function`: {', '.join(ACTIVATIONS)}",
    )
)
Q_LOOKUP = register(
    OpDef(
        "q_lookup",
        ("x", "table"),
        {},
        _infer_lookup,
        _evaluate_lookup,
        op_class=OpClass.INJECTIVE,
        doc="table[x + 128]",
    )
)
