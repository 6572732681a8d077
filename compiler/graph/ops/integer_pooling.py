"""Integer pooling."""

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
from daedal.compiler.graph.ops.pooling import infer_pool_shape
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints, whole
from daedal.compiler.graph.ops.windows import sliding_windows
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["Q_MAX_POOL", "divisor_indices"]


def divisor_indices(attrs: Attrs) -> Array:
    """Row of `params` that each output (OH, OW) of a q_avg_pool uses."""
    counts = np.outer(ints(attrs, "counts_h"), ints(attrs, "counts_w"))
    divisors = ints(attrs, "divisors")
    return np.array([[divisors.index(int(count)) for count in row] for row in counts])


def _infer_q_max_pool(operands: Types, attrs: Attrs) -> TensorType:
    x, params = operands
    check_activation(x)
    check_params(params, 1, x, channels=False)
    return result_type(infer_pool_shape(x, attrs), x, attrs)


def _infer_q_avg_pool(operands: Types, attrs: Attrs) -> TensorType:
    x, params = operands
    check_activation(x)
    shape = infer_pool_shape(x, attrs)
    check_params(params, len(ints(attrs, "divisors")), x, channels=False)
    counts = (len(ints(attrs, "counts_h")), len(ints(attrs, "counts_w")))
    assert counts == shape[2:], f"counts of {counts} windows for {shape}"
    return result_type(shape, x, attrs)


def _windows(x: Array, attrs: Attrs) -> Array:
    return sliding_windows(
        x.astype(np.int64),
        ints(attrs, "kernel"),
        ints(attrs, "strides"),
        ints(attrs, "pads"),
        (1, 1),
        whole(attrs, "pad_value"),
    )


def _evaluate_q_max_pool(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer maximum over windows of the map padded with pad_value."""
    x, params = arrays

    def evaluate(maps: Sequence[Array]) -> Array:
        largest = _windows(maps[0], attrs).max(axis=(4, 5))
        return requantize(largest, params.reshape(-1, 3)[0], attrs)

    return on_padded_maps(evaluate, [x], types[0])


def _evaluate_q_avg_pool(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer sum over windows; params row d serves windows of divisors[d] elements."""
    x, params = arrays
    per_divisor = params.reshape(len(ints(attrs, "divisors")), -1, 3)[:, 0]

    def evaluate(maps: Sequence[Array]) -> Array:
        sums = _windows(maps[0], attrs).sum(axis=(4, 5))
        return requantize(sums, per_divisor[divisor_indices(attrs)], attrs)

    return on_padded_maps(evaluate, [x], types[0])


_WINDOW = {"kernel": "ints", "strides": "ints", "pads": "ints", "pad_value": "int"}

Q_MAX_POOL = define(
    "q_max_pool",
    ("x", "params"),
    {**_WINDOW, **REQUANTIZE_ATTRS},
    _infer_q_max_pool,
    _evaluate_q_max_pool,
    targets=(ACCELERATOR,),
)
define(
    "q_avg_pool",
    ("x", "params"),
    {
        **_WINDOW,
        "counts_h": "ints",
        "counts_w": "ints",
        "divisors": "ints",
        **REQUANTIZE_ATTRS,
    },
    _infer_q_avg_pool,
    _evaluate_q_avg_pool,
    targets=(ACCELERATOR,),
)
