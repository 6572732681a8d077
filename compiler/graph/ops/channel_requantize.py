"""`q_channel_requantize`: a change of scale and offset for each channel of a map."""

import numpy as np

from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    on_padded_maps,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, require
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["Q_CHANNEL_REQUANTIZE"]


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    x, params = operands
    check_activation(x, wide=True)
    require(
        x.rank == 4,
        f"the operand of a change of scale per channel must be a map (N, C, H, W), not {x}; "
        "reshape it in the model",
    )
    check_params(params, x.shape[1], x, channels=True)
    return result_type(x.shape, x, attrs)


def _evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer change of scale and offset per channel, zero point and bounds."""
    x, params = arrays
    rows = params.reshape(1, -1, 1, 1, 3)
    return on_padded_maps(
        lambda maps: requantize(maps[0].astype(np.int64), rows, attrs), [x], types[0]
    )


Q_CHANNEL_REQUANTIZE = define(
    "q_channel_requantize",
    ("x", "params"),
    dict(REQUANTIZE_ATTRS),
    _infer,
    _evaluate,
    targets=(ACCELERATOR,),
)
