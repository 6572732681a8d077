"""Float pooling over NCHW maps, as imported from MaxPool, AveragePool and GlobalAveragePool."""

from typing import Any

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    ints,
    require,
    require_float,
)
from daedal.compiler.graph.ops.windows import output_extents, sliding_windows
from daedal.compiler.graph.types import TensorType

__all__ = ["infer_pool_shape", "window_counts"]

_NO_DILATION = (1, 1)


def infer_pool_shape(x: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """Logical shape of a pooled map; every window must hold at least one element of it."""
    require(x.rank == 4, f"pooling must have a map (N, C, H, W), not {x}; reshape it first")
    kernel, pads = ints(attrs, "kernel"), ints(attrs, "pads")
    oh, ow = output_extents(x.shape[2:], kernel, ints(attrs, "strides"), pads, _NO_DILATION)
    require(
        all(pads[axis] < kernel[axis % 2] for axis in range(4)),
        f"pads of a pooling must be smaller than its kernel {list(kernel)}, not {list(pads)}; "
        "pad the map by an operator of its own",
    )
    return (x.shape[0], x.shape[1], oh, ow)


def window_counts(x: TensorType, attrs: Attrs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements that count in the average of each output row and each output column.

    Those are the elements of the map and the pads in `counted_pads`.

    The window of output (oh, ow) holds ``rows[oh] * columns[ow]`` elements.
    """
    kernel, strides, pads = ints(attrs, "kernel"), ints(attrs, "strides"), ints(attrs, "pads")
    counted = ints(attrs, "counted_pads")
    oh, ow = output_extents(x.shape[2:], kernel, strides, pads, _NO_DILATION)
    counts = []
    for axis, num_outputs in enumerate((oh, ow)):
        first, last = -counted[axis], x.shape[2 + axis] + counted[axis + 2]
        starts = [index * strides[axis] - pads[axis] for index in range(num_outputs)]
        counts.append(
            tuple(min(start + kernel[axis], last) - max(start, first) for start in starts)
        )
    return counts[0], counts[1]


def _infer_pool(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    return TensorType(infer_pool_shape(operands[0], attrs), operands[0].dtype)


def _windows(x: Array, attrs: Attrs, pad_value: float) -> Array:
    kernel, strides, pads = ints(attrs, "kernel"), ints(attrs, "strides"), ints(attrs, "pads")
    return sliding_windows(x, kernel, strides, pads, _NO_DILATION, pad_value)


def _evaluate_max_pool(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float maximum pool."""
    return np.asarray(_windows(arrays[0], attrs, -np.inf).max(axis=(4, 5)))


def _evaluate_avg_pool(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float average pool; global pooling has the map as its kernel; of the pads, counted_pads count
    as elements."""
    sums = _windows(arrays[0].astype(np.float64), attrs, 0.0).sum(axis=(4, 5))
    rows, columns = window_counts(types[0], attrs)
    return np.asarray(sums / np.outer(rows, columns), dtype=np.float32)


_WINDOW = {"kernel": "ints", "strides": "ints", "pads": "ints"}


def _write_avg_pool(form: OnnxForm, node: Node) -> None:
    """Pads that do not count lie behind those that do: ONNX's ceil_mode."""
    pads, counted = ints(node.attrs, "pads"), ints(node.attrs, "counted_pads")
    attrs: dict[str, Any] = {
        "kernel_shape": ints(node.attrs, "kernel"),
        "strides": ints(node.attrs, "strides"),
    }
    if not any(counted):
        form.write(node, "AveragePool", pads=pads, **attrs)
        return
    assert pads[:2] == counted[:2], f"{node} counts {counted} of {pads}"
    form.write(
        node,
        "AveragePool",
        pads=counted,
        count_include_pad=1,
        ceil_mode=int(pads != counted),
        **attrs,
    )


define(
    "max_pool",
    ("x",),
    _WINDOW,
    _infer_pool,
    _evaluate_max_pool,
    onnx=simple("MaxPool", kernel="kernel_shape", strides="strides", pads="pads"),
)
define(
    "avg_pool",
    ("x",),
    {**_WINDOW, "counted_pads": "ints"},
    _infer_pool,
    _evaluate_avg_pool,
    onnx=_write_avg_pool,
)
