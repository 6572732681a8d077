"""Transposed convolution: float as imported from ONNX ConvTranspose, and integer."""

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
from daedal.compiler.graph.ops.onnx_form import simple
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    ints,
    require,
    require_float,
    whole,
)
from daedal.compiler.graph.ops.sub_kernels import SubKernel, sub_kernels, transposed_extents
from daedal.compiler.graph.ops.windows import check_window, convolve
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.window_extents import window_span
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["sub_kernels_of"]

_WINDOW = {"strides": "ints", "pads": "ints", "dilations": "ints", "output_padding": "ints"}


def _infer_shape(
    x: TensorType, outs: int, ins: int, kernel: Sequence[int], attrs: Attrs
) -> tuple[int, ...]:
    require(
        x.rank == 4 and x.shape[1] == ins,
        f"a transposed convolution must have a map (N, {ins}, H, W), not {x}; repair the model",
    )
    strides, pads, dilations = (ints(attrs, name) for name in ("strides", "pads", "dilations"))
    check_window(kernel, strides, pads, dilations)
    padding = ints(attrs, "output_padding")
    extents = transposed_extents(x.shape[2:], kernel, strides, pads, dilations, padding)
    require(
        len(padding) == 2 and min(padding) >= 0 and min(extents) >= 1,
        f"a transposed convolution must have a result, not one of {list(extents)}; use smaller "
        "pads",
    )
    return (x.shape[0], outs, *extents)


def _infer_conv_transpose(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    x, w, *bias = operands
    require(w.rank == 4, f"weights must be (I, O, KH, KW), not {w}; repair the model")
    shape = _infer_shape(x, w.shape[1], w.shape[0], w.shape[2:], attrs)
    for item in bias:
        require(
            item.shape == shape[1:2],
            f"the bias must have one value per output channel ({shape[1]}), "
            f"not shape {list(item.shape)}; repair the model",
        )
    return TensorType(shape, "float32")


def _evaluate_conv_transpose(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float transposed convolution, weights (I, O, KH, KW).

    As ONNX defines it: every input adds the kernel, scaled by it, to the outputs."""
    x, w, *bias = arrays
    strides, pads, dilations = (ints(attrs, name) for name in ("strides", "pads", "dilations"))
    *_, height, width = _infer_conv_transpose(types, attrs).shape
    rows, columns = (
        window_span(x.shape[2 + axis], w.shape[2 + axis], strides[axis], dilations[axis])
        for axis in range(2)
    )
    full = np.zeros(
        (len(x), w.shape[1], max(rows, pads[0] + height), max(columns, pads[1] + width))
    )
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            top, left = r * dilations[0], s * dilations[1]
            part = full[
                :, :, top : top + strides[0] * x.shape[2], left : left + strides[1] * x.shape[3]
            ]
            part[:, :, :: strides[0], :: strides[1]] += np.einsum("nihw,io->nohw", x, w[:, :, r, s])
    result = full[:, :, pads[0] : pads[0] + height, pads[1] : pads[1] + width]
    if bias:
        result = result + bias[0].reshape(1, -1, 1, 1)
    return result.astype(np.float32)


def sub_kernels_of(
    kernel: Sequence[int], outputs: Sequence[int], attrs: Attrs
) -> tuple[SubKernel, ...]:
    """The dense convolutions that compute a transposed one with these attributes."""
    return sub_kernels(
        kernel, ints(attrs, "strides"), ints(attrs, "pads"), ints(attrs, "dilations"), outputs
    )


def _infer_q_conv_transpose(operands: Types, attrs: Attrs) -> TensorType:
    x, w, params = operands
    check_activation(x)
    shape = _infer_shape(x, w.shape[0], w.shape[1], w.shape[2:], attrs)
    assert w.dtype == "int8" and w.is_plain == x.is_plain, f"{x} meets weights {w}"
    parts = len(sub_kernels_of(w.shape[2:], shape[2:], attrs))
    check_params(params, parts * shape[1], x, channels=True)
    return result_type(shape, x, attrs)


def _evaluate_q_conv_transpose(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer transposed convolution, weights (O, I, KH, KW); params for each residue of the output
    by the strides.

    Part by part, as the machine does; outside the map, inputs have the pad value."""
    x, kernel, params = arrays
    weights = types[1].layout.unpack(kernel).astype(np.float64)
    *_, height, width = _infer_q_conv_transpose(types, attrs).shape
    parts = sub_kernels_of(weights.shape[2:], (height, width), attrs)
    rows = params.reshape(len(parts), -1, 3)[:, :, None, None, :]
    strides, pad_value = ints(attrs, "strides"), whole(attrs, "pad_value")

    def evaluate(maps: Sequence[Array]) -> Array:
        source = maps[0].astype(np.float64)
        result = np.zeros((len(source), rows.shape[1], height, width), dtype=np.int8)
        for row, part in zip(rows, parts, strict=True):
            acc = _convolve_part(source, weights, part, pad_value)
            at = np.s_[:, :, part[0].phase :: strides[0], part[1].phase :: strides[1]]
            result[at] = requantize(acc.astype(np.int64), row, attrs)
        return result

    return on_padded_maps(evaluate, [x], types[0])


def _convolve_part(x: Array, w: Array, part: SubKernel, pad_value: int) -> Array:
    if not all(axis.taps for axis in part):
        return np.zeros((len(x), len(w), *(axis.extent for axis in part)))
    (top, bottom), (left, right) = (
        axis.pads(size) for axis, size in zip(part, x.shape[2:], strict=True)
    )
    space = [(0, 0), (0, 0), (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
    padded = np.pad(x, space, constant_values=pad_value)
    padded = padded[:, :, max(-top, 0) :, max(-left, 0) :]
    taps = w[:, :, part[0].taps][:, :, :, part[1].taps]
    reach = [axis.extent + axis.dilation * (len(axis.taps) - 1) for axis in part]
    used = padded[:, :, : reach[0], : reach[1]]
    return convolve(
        used, taps, (1, 1), (0, 0, 0, 0), [axis.dilation for axis in part], 1, pad_value
    )


define(
    "conv_transpose2d",
    ("x", "w", "bias"),
    _WINDOW,
    _infer_conv_transpose,
    _evaluate_conv_transpose,
    num_optional=1,
    onnx=simple("ConvTranspose", **{name: name for name in _WINDOW}),
)
define(
    "q_conv_transpose2d",
    ("x", "w", "params"),
    {**_WINDOW, "pad_value": "int", **REQUANTIZE_ATTRS},
    _infer_q_conv_transpose,
    _evaluate_q_conv_transpose,
    targets=(ACCELERATOR,),
)
