"""Integer sums, product, leaky ReLU and requantization, and the larger of a map and its
requantization."""

import numpy as np

from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    is_wide,
    on_padded_maps,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, require, whole
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "ELEMENTWISE",
    "Q_ADD",
    "Q_LEAKY_RELU",
    "Q_MAXIMUM",
    "Q_MAX_REQUANTIZED",
    "Q_MUL",
    "Q_REQUANTIZE",
    "Q_SUM",
    "UNARY",
    "scalar_params",
]

UNARY = ("q_leaky_relu", "q_max_requantized", "q_requantize", "q_requantize_lookup")
"""Integer operators that compute each element from the one at the same place of their operand."""

ELEMENTWISE = ("q_add", "q_maximum", "q_mul", "q_sum", *UNARY)
"""Integer operators that compute each element from those at the same place of their operands."""


def scalar_params(params: Array) -> Array:
    """The one (bias, multiplier, shift) of an operator without channels; lanes repeat it."""
    return np.asarray(params.reshape(-1, 3)[0])


def _infer_q_add(operands: Types, attrs: Attrs) -> TensorType:
    return _infer_broadcast(operands, attrs, wide=True)


def _infer_narrow_pair(operands: Types, attrs: Attrs) -> TensorType:
    return _infer_broadcast(operands, attrs, wide=False)


def _infer_broadcast(operands: Types, attrs: Attrs, *, wide: bool) -> TensorType:
    a, b, params = operands
    check_activation(a, wide=wide)
    check_activation(b, wide=wide)
    _check_broadcast(a, b)
    check_params(params, 1, a, channels=False)
    return result_type(a.shape, a, attrs)


def _infer_q_sum(operands: Types, attrs: Attrs) -> TensorType:
    a, b = operands
    require(is_wide(a) and is_wide(b), f"an exact sum needs operands of 16 bits, not {a} and {b}")
    _check_broadcast(a, b)
    return a


def _check_broadcast(a: TensorType, b: TensorType) -> None:
    require(
        a.layout == b.layout
        and a.rank == b.rank
        and a.shape[:2] == b.shape[:2]
        and all(have in (1, want) for have, want in zip(b.shape, a.shape, strict=True)),
        "the second operand of an integer operator must have the shape of the first, or extent 1 "
        f"in height and width, not {a} and {b}; broadcast it in the model",
    )


def _evaluate_q_add(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer sum of multiplier_a * a and multiplier_b * b; params multiply by 1, unless an operand
    or the result is wide."""
    a, b, params = arrays
    acc = a.astype(np.int64) * whole(attrs, "multiplier_a")
    acc += b.astype(np.int64) * whole(attrs, "multiplier_b")
    return requantize(acc, scalar_params(params), attrs)


def _evaluate_q_sum(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer sum of two wide tensors that is known to have 16 bits: from low to high."""
    a, b = arrays
    return np.asarray(a + b)


def _evaluate_q_mul(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer product of a - zero_point_a and b - zero_point_b."""
    a, b, params = arrays
    acc = a.astype(np.int64) - whole(attrs, "zero_point_a")
    acc = acc * (b.astype(np.int64) - whole(attrs, "zero_point_b"))
    return requantize(acc, scalar_params(params), attrs)


def _evaluate_q_maximum(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer larger one of multiplier_a * (a - zero_point_a) and multiplier_b * (b -
    zero_point_b)."""
    *operands, params = arrays
    a, b = (
        (x.astype(np.int64) - whole(attrs, f"zero_point_{role}"))
        * whole(attrs, f"multiplier_{role}")
        for x, role in zip(operands, "ab", strict=True)
    )
    return requantize(np.maximum(a, b), scalar_params(params), attrs)


def _evaluate_q_leaky_relu(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer x - zero_point_x times one of two factors, by its sign; params multiply by 1."""
    x, params = arrays
    centred = x.astype(np.int64) - whole(attrs, "zero_point_x")
    factors = (whole(attrs, f"multiplier_{sign}") for sign in ("positive", "negative"))
    positive, negative = (centred * factor for factor in factors)
    acc = np.where(centred < 0, negative, positive)
    return requantize(acc, scalar_params(params), attrs)


def _infer_q_requantize(operands: Types, attrs: Attrs) -> TensorType:
    return _infer_by_element(operands, attrs, wide=True)


def _infer_narrow(operands: Types, attrs: Attrs) -> TensorType:
    return _infer_by_element(operands, attrs, wide=False)


def _infer_by_element(operands: Types, attrs: Attrs, *, wide: bool) -> TensorType:
    x, params = operands
    check_activation(x, wide=wide)
    check_params(params, 1, x, channels=False)
    return result_type(x.shape, x, attrs)


def _evaluate_q_requantize(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer change of scale, zero point and bounds."""
    x, params = arrays
    return on_padded_maps(
        lambda maps: requantize(maps[0].astype(np.int64), scalar_params(params), attrs),
        [x],
        types[0],
    )


def _evaluate_q_max_requantized(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer larger one of x and its requantization."""
    x, params = arrays
    return np.maximum(x, requantize(x.astype(np.int64), scalar_params(params), attrs))


Q_ADD = define(
    "q_add",
    ("a", "b", "params"),
    {"multiplier_a": "int", "multiplier_b": "int", **REQUANTIZE_ATTRS},
    _infer_q_add,
    _evaluate_q_add,
    targets=(ACCELERATOR,),
)
Q_SUM = define(
    "q_sum",
    ("a", "b"),
    {"low": "int", "high": "int"},
    _infer_q_sum,
    _evaluate_q_sum,
    targets=(ACCELERATOR,),
)
Q_MUL = define(
    "q_mul",
    ("a", "b", "params"),
    {"zero_point_a": "int", "zero_point_b": "int", **REQUANTIZE_ATTRS},
    _infer_narrow_pair,
    _evaluate_q_mul,
    targets=(ACCELERATOR,),
)
Q_MAXIMUM = define(
    "q_maximum",
    ("a", "b", "params"),
    {
        "zero_point_a": "int",
        "zero_point_b": "int",
        "multiplier_a": "int",
        "multiplier_b": "int",
        **REQUANTIZE_ATTRS,
    },
    _infer_narrow_pair,
    _evaluate_q_maximum,
    targets=(ACCELERATOR,),
)
Q_LEAKY_RELU = define(
    "q_leaky_relu",
    ("x", "params"),
    {
        "zero_point_x": "int",
        "multiplier_positive": "int",
        "multiplier_negative": "int",
        **REQUANTIZE_ATTRS,
    },
    _infer_narrow,
    _evaluate_q_leaky_relu,
    targets=(ACCELERATOR,),
)
Q_MAX_REQUANTIZED = define(
    "q_max_requantized",
    ("x", "params"),
    dict(REQUANTIZE_ATTRS),
    _infer_narrow,
    _evaluate_q_max_requantized,
    targets=(ACCELERATOR,),
)
Q_REQUANTIZE = define(
    "q_requantize",
    ("x", "params"),
    dict(REQUANTIZE_ATTRS),
    _infer_q_requantize,
    _evaluate_q_requantize,
    targets=(ACCELERATOR,),
)
