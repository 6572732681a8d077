"""Integer convolution and dense layer."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.layout import ActivationLayout, DepthwiseLayout
from daedal.compiler.graph.ops.convolution import infer_conv2d_shape, infer_dense_shape
from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    dtype_in,
    has_wide_result,
    on_padded_maps,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.padding_classes import PaddingClasses
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints, whole
from daedal.compiler.graph.ops.windows import convolve
from daedal.compiler.graph.stream_layout import RowStreamLayout, RowStreamWeightLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "Q_CONV2D",
]

_WEIGHTS = ("int8", "int16")
"""Types of weights; the wide ones become several int8 ones before they are blocked."""


def _infer_q_conv2d(operands: Types, attrs: Attrs) -> TensorType:
    x, w, params = operands
    check_activation(x)
    shape = infer_conv2d_shape(x, w, attrs)
    assert w.dtype in _WEIGHTS and w.is_plain == x.is_plain, f"{x} meets weights {w}"
    check_params(params, shape[1], x, channels=True)
    if isinstance(w.layout, RowStreamWeightLayout):
        layout = _result_layout(x, w)
        return TensorType(shape, dtype_in(layout, wide=has_wide_result(attrs)), layout)
    return result_type(shape, x, attrs)


def _result_layout(x: TensorType, w: TensorType) -> ActivationLayout:
    """Layout of the result of a convolution over a row stream."""
    assert isinstance(x.layout, RowStreamLayout), f"{x} is not a stream"
    assert isinstance(w.layout, RowStreamWeightLayout), f"{w} are not for a stream"
    return ActivationLayout(x.layout.stream.batch, w.layout.block)


def _evaluate_q_conv2d(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer convolution of the map padded with pad_value; blocked params may have a row for each
    class of outputs by the padding under their windows."""
    x, kernel, params = arrays
    weights = types[1].layout.unpack(kernel).astype(np.float64)
    per_output = _per_output(params, types, attrs)
    groups = whole(attrs, "groups")

    def evaluate(maps: Sequence[Array]) -> Array:
        values = maps[0].astype(np.float64)
        if isinstance(types[1].layout, DepthwiseLayout):
            # The weights are padded to the channels of the map, one group each.
            num_groups = len(weights)
        else:
            num_groups, values = groups, values[:, : groups * weights.shape[1]]
        acc = convolve(
            values,
            weights,
            ints(attrs, "strides"),
            ints(attrs, "pads"),
            ints(attrs, "dilations"),
            num_groups,
            whole(attrs, "pad_value"),
        )
        # The accumulators of padding channels are 0.
        missing = len(per_output) - acc.shape[1]
        acc = np.pad(acc, ((0, 0), (0, missing), (0, 0), (0, 0)))
        return requantize(acc.astype(np.int64), per_output, attrs)

    if not isinstance(types[0].layout, RowStreamLayout):
        return on_padded_maps(evaluate, [x], types[0])
    # Images that only pad the batch are computed like the others.
    _, channels, h, w = types[0].shape
    weights = weights[:, :channels]
    shape = (x.shape[0] * x.shape[3], channels, h, w)
    result = evaluate([types[0].layout.stream.unpack(x, shape)])
    return _result_layout(types[0], types[1]).pack(result)


def _per_output(params: Array, types: Sequence[TensorType], attrs: Attrs) -> Array:
    """(channels, OH, OW, 3); OH and OW are 1 if a channel has only one row of parameters."""
    if params.ndim < 4:
        return params.reshape(-1, 3)[:, None, None, :]
    x, w, _ = types
    outputs = infer_conv2d_shape(x, w, attrs)[2:]
    classes = PaddingClasses.of(x.shape[2:], w.shape[2:], outputs, attrs)
    per_class = params.swapaxes(1, 2).reshape(-1, params.shape[1], 3)
    return np.asarray(per_class[:, classes.table])


def _infer_q_dense(operands: Types, attrs: Attrs) -> TensorType:
    x, w, params = operands
    check_activation(x)
    shape = infer_dense_shape(x, *w.shape)
    assert w.dtype in _WEIGHTS and x.is_plain, f"{x} meets weights {w}"
    check_params(params, shape[-1], x, channels=True)
    return result_type(shape, x, attrs)


def _evaluate_q_dense(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer dense layer of (..., K), weights (O, K)."""
    x, w, params = arrays
    acc = x.astype(np.float64) @ w.astype(np.float64).T
    return requantize(acc.astype(np.int64), params, attrs)


Q_CONV2D = define(
    "q_conv2d",
    ("x", "w", "params"),
    {
        "strides": "ints",
        "pads": "ints",
        "dilations": "ints",
        "groups": "int",
        "pad_value": "int",
        **REQUANTIZE_ATTRS,
    },
    _infer_q_conv2d,
    _evaluate_q_conv2d,
    targets=(ACCELERATOR,),
)
define(
    "q_dense",
    ("x", "w", "params"),
    dict(REQUANTIZE_ATTRS),
    _infer_q_dense,
    _evaluate_q_dense,
    targets=(ACCELERATOR,),
)
