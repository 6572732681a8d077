"""Integer slice, pad, concat and nearest resize of maps, each with a change of scale.

On blocked maps they move whole blocks of channels; `align_channels` rewrites all other moves.
"""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.movement import (
    infer_concat_shape,
    infer_pad_shape,
    infer_resize_shape,
    infer_slice_shape,
    pad_margins,
    repeat,
)
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints, whole
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__: list[str] = []


def _block(x: TensorType) -> int:
    """Channels that move together."""
    return x.layout.block if isinstance(x.layout, ActivationLayout) else 1


def _check(operands: Sequence[TensorType], num_rows: int, *, wide: bool = False) -> None:
    *maps, params = operands
    for x in maps:
        check_activation(x, wide=wide)
        assert x.rank == 4 and x.layout == maps[0].layout, f"{x} is no map"
    check_params(params, num_rows, maps[0], channels=False)


def _rescaled(x: Array, params: Array, attrs: Attrs) -> Array:
    return requantize(x.astype(np.int64), params.reshape(-1, 3)[0], attrs)


def _infer_q_slice(operands: Types, attrs: Attrs) -> TensorType:
    _check(operands, 1, wide=True)
    x = operands[0]
    begins, ends, steps = (ints(attrs, name) for name in ("begins", "ends", "steps"))
    assert (begins[0], ends[0], steps[0]) == (0, x.shape[0], 1), "images stay"
    assert _block(x) == 1 or (begins[1] % _block(x) == 0 and steps[1] == 1), "blocks move whole"
    return result_type(infer_slice_shape(x, attrs), x, attrs)


def _evaluate_q_slice(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Part of a map, all images; blocked: from a whole block of channels on."""
    x, params = arrays
    begins, ends, steps = (ints(attrs, name) for name in ("begins", "ends", "steps"))
    block = _block(types[0])
    channels = slice(begins[1] // block, -(-ends[1] // block), steps[1])
    rows, columns = (slice(begins[axis], ends[axis], steps[axis]) for axis in (2, 3))
    return _rescaled(np.ascontiguousarray(x[:, channels, rows, columns]), params, attrs)


def _infer_q_pad(operands: Types, attrs: Attrs) -> TensorType:
    _check(operands, 1)
    x = operands[0]
    margins, block = pad_margins(attrs), _block(x)
    assert margins[0] == (0, 0), "images stay"
    assert margins[1][0] % block == 0, "blocks move whole"
    assert margins[1][1] == 0 or x.shape[1] % block == 0, "blocks move whole"
    return result_type(infer_pad_shape(x, attrs), x, attrs)


def _evaluate_q_pad(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Map with pad_value around it; blocked: behind whole blocks of channels."""
    x, params = arrays
    margins, block = pad_margins(attrs), _block(types[0])
    margins[1] = (margins[1][0] // block, -(-margins[1][1] // block))
    margins += [(0, 0)] * (x.ndim - 4)
    padded = np.pad(x, margins, constant_values=whole(attrs, "pad_value"))
    return _rescaled(padded, params, attrs)


def _infer_q_concat(operands: Types, attrs: Attrs) -> TensorType:
    _check(operands, len(operands) - 1)
    maps, taken = operands[:-1], ints(attrs, "channels")
    assert len(taken) == len(maps), f"{len(maps)} maps take {taken}"
    for x, channels in zip(maps, taken, strict=True):
        last = x is maps[-1]
        assert x.shape[1] <= channels, f"{x} takes {channels} channels"
        assert last or channels % _block(x) == 0, "blocks move whole"
    n, _, h, w = infer_concat_shape(maps, 1)
    return result_type((n, sum(taken), h, w), maps[0], attrs)


def _evaluate_q_concat(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Maps one after the other, each from a channel that is the sum of `channels` before it; params
    row i serves map i."""
    *maps, params = arrays
    rows = params.reshape(len(maps), -1, 3)
    block = _block(types[0])
    parts = []
    for index, (x, channels) in enumerate(zip(maps, ints(attrs, "channels"), strict=True)):
        missing = -(-channels // block) - x.shape[1]
        margins = [(0, missing) if axis == 1 else (0, 0) for axis in range(x.ndim)]
        parts.append(_rescaled(np.pad(x, margins), rows[index], attrs))
    return np.concatenate(parts, axis=1)


def _infer_q_resize(operands: Types, attrs: Attrs) -> TensorType:
    _check(operands, 1)
    assert ints(attrs, "factors")[:2] == (1, 1), "images and channels stay"
    return result_type(infer_resize_shape(operands[0], attrs), operands[0], attrs)


def _evaluate_q_resize(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Map with every pixel repeated `factors` times in height and width."""
    x, params = arrays
    return _rescaled(repeat(x, ints(attrs, "factors")), params, attrs)


define(
    "q_slice",
    ("x", "params"),
    {"begins": "ints", "ends": "ints", "steps": "ints", **REQUANTIZE_ATTRS},
    _infer_q_slice,
    _evaluate_q_slice,
    targets=(ACCELERATOR,),
)
define(
    "q_pad",
    ("x", "params"),
    {"pads": "ints", "pad_value": "int", **REQUANTIZE_ATTRS},
    _infer_q_pad,
    _evaluate_q_pad,
    targets=(ACCELERATOR,),
)
define(
    "q_concat",
    ("x", "params"),
    {"channels": "ints", **REQUANTIZE_ATTRS},
    _infer_q_concat,
    _evaluate_q_concat,
    variadic=True,
    targets=(ACCELERATOR,),
)
define(
    "q_resize",
    ("x", "params"),
    {"factors": "ints", **REQUANTIZE_ATTRS},
    _infer_q_resize,
    _evaluate_q_resize,
    targets=(ACCELERATOR,),
)
