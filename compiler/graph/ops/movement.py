"""Float operators that select, place and repeat elements: slice, pad, concat, nearest resize.

Attributes have one value per axis. ONNX's defaults and negative numbers are resolved already.
"""

from collections.abc import Sequence

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
    whole,
)
from daedal.compiler.graph.types import TensorType

__all__ = [
    "infer_concat_shape",
    "infer_pad_shape",
    "infer_resize_shape",
    "infer_slice_shape",
    "pad_margins",
    "repeat",
]


def infer_slice_shape(x: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """Logical shape of ``x[begin:end:step, ...]``."""
    begins, ends, steps = (ints(attrs, name) for name in ("begins", "ends", "steps"))
    require(
        len(begins) == len(ends) == len(steps) == x.rank
        and all(
            0 <= begin < end <= extent and step >= 1
            for begin, end, step, extent in zip(begins, ends, steps, x.shape, strict=True)
        ),
        f"a slice must keep a part of every axis of {list(x.shape)} and go forwards, not take "
        f"{list(begins)} to {list(ends)} by {list(steps)}; repair the model",
    )
    return tuple(
        -(-(end - begin) // step) for begin, end, step in zip(begins, ends, steps, strict=True)
    )


def pad_margins(attrs: Attrs) -> list[tuple[int, int]]:
    """(before, after) of every axis."""
    pads = ints(attrs, "pads")
    rank = len(pads) // 2
    return list(zip(pads[:rank], pads[rank:], strict=True))


def infer_pad_shape(x: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """Logical shape of a padded tensor."""
    pads = ints(attrs, "pads")
    require(
        len(pads) == 2 * x.rank and all(pad >= 0 for pad in pads),
        f"pads must be two per axis of {list(x.shape)} and not negative, not {list(pads)}; "
        "repair the model",
    )
    return tuple(
        extent + sum(margin) for extent, margin in zip(x.shape, pad_margins(attrs), strict=True)
    )


def infer_concat_shape(operands: Sequence[TensorType], axis: int) -> tuple[int, ...]:
    """Logical shape of tensors joined along `axis`."""
    first = operands[0].shape
    require(
        0 <= axis < len(first)
        and all(
            len(item.shape) == len(first)
            and all(
                index == axis or have == want
                for index, (have, want) in enumerate(zip(item.shape, first, strict=True))
            )
            for item in operands
        ),
        f"joined tensors must agree in every axis but {axis}, not have shapes "
        f"{', '.join(str(list(item.shape)) for item in operands)}; repair the model",
    )
    total = sum(item.shape[axis] for item in operands)
    return (*first[:axis], total, *first[axis + 1 :])


def infer_resize_shape(x: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """Logical shape of a tensor whose elements are repeated."""
    factors = ints(attrs, "factors")
    require(
        len(factors) == x.rank and all(factor >= 1 for factor in factors),
        f"a resize must repeat the elements of each axis of {list(x.shape)}, not by "
        f"{list(factors)}; repair the model",
    )
    return tuple(extent * factor for extent, factor in zip(x.shape, factors, strict=True))


def repeat(x: Array, factors: Sequence[int]) -> Array:
    """Every element ``factors[axis]`` times along each axis."""
    for axis, factor in enumerate(factors):
        x = np.repeat(x, factor, axis=axis)
    return x


def _infer_slice(operands: Types, attrs: Attrs) -> TensorType:
    return TensorType(infer_slice_shape(operands[0], attrs), operands[0].dtype)


def _infer_pad(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    require(
        len(operands) == 1 or (operands[1].num_elements == 1 and operands[1].dtype == x.dtype),
        f"the value of a pad must be one {x.dtype}, not {operands[-1]}; repair the model",
    )
    return TensorType(infer_pad_shape(x, attrs), x.dtype)


def _infer_concat(operands: Types, attrs: Attrs) -> TensorType:
    dtypes = {item.dtype for item in operands}
    require(
        len(dtypes) == 1,
        f"joined tensors must have one element type, not {', '.join(sorted(dtypes))}; "
        "repair the model",
    )
    return TensorType(infer_concat_shape(operands, whole(attrs, "axis")), operands[0].dtype)


def _infer_resize(operands: Types, attrs: Attrs) -> TensorType:
    return TensorType(infer_resize_shape(operands[0], attrs), operands[0].dtype)


def _evaluate_slice(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """x[begin:end:step] in every axis."""
    parts = zip(*(ints(attrs, name) for name in ("begins", "ends", "steps")), strict=True)
    return np.ascontiguousarray(arrays[0][tuple(slice(*part) for part in parts)])


def _evaluate_pad(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """x with `value` (0) around it; pads are those before every axis, then those after."""
    value = arrays[1].reshape(()) if len(arrays) == 2 else 0
    return np.pad(arrays[0], pad_margins(attrs), constant_values=value)


def _evaluate_concat(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Tensors one after the other along `axis`."""
    return np.concatenate(list(arrays), axis=whole(attrs, "axis"))


def _evaluate_resize(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Nearest-neighbour enlargement: every element `factors` times along each axis."""
    return repeat(arrays[0], ints(attrs, "factors"))


def _write_slice(form: OnnxForm, node: Node) -> None:
    begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
    parts = (begins, ends, range(len(begins)), steps)
    given = [form.constant(list(part), "int64") for part in parts]
    form.write(node, "Slice", [*node.inputs, *given])


def _write_pad(form: OnnxForm, node: Node) -> None:
    pads = form.constant(ints(node.attrs, "pads"), "int64")
    form.write(node, "Pad", [node.inputs[0], pads, *node.inputs[1:]])


def _write_resize(form: OnnxForm, node: Node) -> None:
    factors = form.constant(ints(node.attrs, "factors"), "float32")
    form.write(
        node,
        "Resize",
        [*node.inputs, "", factors],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


define(
    "slice",
    ("x",),
    {"begins": "ints", "ends": "ints", "steps": "ints"},
    _infer_slice,
    _evaluate_slice,
    onnx=_write_slice,
)
define(
    "pad",
    ("x", "value"),
    {"pads": "ints"},
    _infer_pad,
    _evaluate_pad,
    num_optional=1,
    onnx=_write_pad,
)
define(
    "concat",
    ("x",),
    {"axis": "int"},
    _infer_concat,
    _evaluate_concat,
    variadic=True,
    onnx=simple("Concat", axis="axis"),
)
define("resize", ("x",), {"factors": "ints"}, _infer_resize, _evaluate_resize, onnx=_write_resize)
