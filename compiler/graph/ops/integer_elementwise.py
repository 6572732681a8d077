"""Integer addition and requantization."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    on_padded_maps,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.registry import Array, Attrs, OpDef, register, require, whole
from daedal.compiler.graph.types import TensorType

__all__ = ["Q_ADD", "Q_REQUANTIZE"]


def _scalar_params(params: Array) -> Array:
    """The one (bias, multiplier, shift) of an operator without channels; lanes repeat it."""
    return np.asarray(params.reshape(-1, 3)[0])


def _infer_q_add(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    a, b, params = operands
    check_activation(a)
    require(
        a == b,
        f"an integer addition must have operands of one shape, not {a} and {b}; "
        "broadcast the smaller one in the model",
    )
    check_params(params, 1, a, channels=False)
    return result_type(a.shape, a)


def _evaluate_q_add(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
    a, b, params = arrays
    acc = a.astype(np.int64) * whole(attrs, "multiplier_a")
    acc += b.astype(np.int64) * whole(attrs, "multiplier_b")
    return requantize(acc, _scalar_params(params), attrs)


def _infer_q_requantize(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x, params = operands
    check_activation(x)
    check_params(params, 1, x, channels=False)
    return result_type(x.shape, x)


def _evaluate_q_requantize(
    arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs
) -> Array:
    x, params = arrays
    return on_padded_maps(
        lambda maps: requantize(maps[0].astype(np.int64), _scalar_params(params), attrs),
        [x],
        types[0],
    )


Q_ADD = register(
    OpDef(
        "q_add",
        ("a", "b", "params"),
        {"multiplier_a": "int", "multiplier_b": "int", **REQUANTIZE_ATTRS},
        _infer_q_add,
        _evaluate_q_add,
        on_accelerator=True,
        doc="integer sum of multiplier_a * a and multiplier_b * b; params multiply by 1",
    )
)
Q_REQUANTIZE = register(
    OpDef(
        "q_requantize",
        ("x", "params"),
        dict(REQUANTIZE_ATTRS),
        _infer_q_requantize,
        _evaluate_q_requantize,
        on_accelerator=True,
        doc="integer change of scale, zero point and bounds",
    )
)
