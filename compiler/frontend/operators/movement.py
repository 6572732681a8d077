"""Slice, Gather, Split, Pad and Concat."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.record import ACCELERATOR, ImportedOperator
from daedal.compiler.graph.views import is_in_order, turned_axes

__all__ = ["OPERATORS"]


def import_slice(context: ImportContext, node: OnnxNode) -> None:
    """Slice-1 (ranges as attributes) to -13 (as constant operands); steps must be positive."""
    x = context.operand_type(node, 0)
    starts, ends, axes, steps = _slice_ranges(context, node)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.damaged("starts, ends, axes and steps must be as many")
    ranges = {axis: (0, extent, 1) for axis, extent in enumerate(x.shape)}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -x.rank <= axis < x.rank:
            raise node.damaged(f"axes must lie in {x.rank} dimensions, not {axis}")
        if step < 1:
            raise node.refuse(f"steps must be positive, not {step}", "reverse the data before")
        first, last, _ = slice(start, end).indices(x.shape[axis])
        ranges[axis % x.rank] = (first, max(first, last), step)
    begins, stops, strides = zip(*ranges.values(), strict=True)
    operand = context.operand(node, 0)
    context.emit(node, "slice", [operand], begins=begins, ends=stops, steps=strides)


def _slice_ranges(
    context: ImportContext, node: OnnxNode
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Starts, ends, axes and steps.

    Source: ONNX Slice-1 and Slice-10.
    """
    if context.opset < 10:
        starts, ends = node.integers("starts", None), node.integers("ends", None)
        if starts is None or ends is None:
            raise node.damaged("starts and ends must be given")
        axes = node.integers("axes", tuple(range(len(starts))))
        assert axes is not None
        return starts, ends, axes, (1,) * len(starts)
    starts, ends = (_whole_numbers(context, node, index) for index in (1, 2))
    axes, steps = tuple(range(len(starts))), (1,) * len(starts)
    if node.input(3) is not None:
        axes = _whole_numbers(context, node, 3)
    if node.input(4) is not None:
        steps = _whole_numbers(context, node, 4)
    return starts, ends, axes, steps


def import_gather(context: ImportContext, node: OnnxNode) -> None:
    """Gather-1 to -13 of constant indices that count up: a slice of the axis, whose elements may
    form several axes in any order, or none."""
    x = context.operand_type(node, 0)
    axis = node.integer("axis", 0)
    if not -x.rank <= axis < x.rank:
        raise node.damaged(f"axis must lie in {x.rank} dimensions, not {axis}")
    axis %= x.rank
    shape = context.required_constant(node, 1).shape
    extent, indices = x.shape[axis], _whole_numbers(context, node, 1)
    if not indices or not all(-extent <= index < extent for index in indices):
        raise node.damaged(f"indices must lie in {extent} elements, not be {list(indices)}")
    places = np.array([index % extent for index in indices]).reshape(shape)
    _take(context, node, context.operand(node, 0), axis, places)


def import_gather_nd(context: ImportContext, node: OnnxNode) -> None:
    """GatherND-11 to -13 of constant indices that count up, over the first axes joined."""
    x, given = context.operand_type(node, 0), context.required_constant(node, 1)
    if node.integer("batch_dims", 0):
        raise node.refuse("indices must be those of a whole tensor", "take batch_dims away")
    depth = given.shape[-1] if given.ndim else 0
    indices = _whole_numbers(context, node, 1)
    if not 1 <= depth <= x.rank or not indices:
        raise node.damaged(f"indices must be 1 to {x.rank} for each slice, not {depth}")
    joined, behind = x.shape[:depth], x.shape[depth:]
    rows = np.array(indices).reshape(-1, depth)
    extents = np.array(joined)
    if not ((rows >= -extents) & (rows < extents)).all():
        raise node.damaged(f"indices must lie in {list(joined)} elements")
    places = np.ravel_multi_index(tuple((rows % extents).T), joined).reshape(given.shape[:-1])
    view = {"shape": (math.prod(joined), *behind)}
    base = f"{node.outputs[0]}.joined"
    flat = context.builder.add_fresh("reshape", [context.operand(node, 0)], view, base=base)
    _take(context, node, flat, 0, places)


def _take(
    context: ImportContext,
    node: OnnxNode,
    operand: str,
    axis: int,
    places: npt.NDArray[np.int64],
) -> None:
    """Emit what is at these places of an axis: a slice, whose elements may be in the order of a
    transpose."""
    first, last = int(places.min()), int(places.max())
    step = max((last - first) // max(places.size - 1, 1), 1)
    counted = (places - first) // step
    found = turned_axes(counted)
    if found is None or not np.array_equal(first + step * counted, places):
        raise node.refuse("indices must count up by equal steps", "slice and concatenate")
    builder, base, whole = context.builder, node.outputs[0], context.builder.types[operand].shape
    begins, ends, steps = [0] * len(whole), list(whole), [1] * len(whole)
    begins[axis], ends[axis], steps[axis] = first, last + 1, step
    attrs = {"begins": tuple(begins), "ends": tuple(ends), "steps": tuple(steps)}
    if places.ndim == 1 and is_in_order(counted):
        context.emit(node, "slice", [operand], **attrs)
        return
    part = builder.add_fresh("slice", [operand], attrs, base=f"{base}.slice", name=node.name)
    before, behind = whole[:axis], whole[axis + 1 :]
    if not is_in_order(counted):
        split, order = found
        shape = (*before, *split, *behind)
        part = builder.add_fresh("reshape", [part], {"shape": shape}, base=f"{base}.split")
        moved = (*range(axis), *(axis + place for place in order))
        attrs = {"order": (*moved, *range(len(moved), len(shape)))}
        part = builder.add_fresh("transpose", [part], attrs, base=f"{base}.turned")
    context.emit(node, "reshape", [part], shape=(*before, *places.shape, *behind))


def import_split(context: ImportContext, node: OnnxNode) -> None:
    """Split-2 (sizes as attribute) to -18 (as constant operand): a slice for each result."""
    x = context.operand_type(node, 0)
    axis = node.integer("axis", 0)
    if not -x.rank <= axis < x.rank:
        raise node.damaged(f"axis must lie in {x.rank} dimensions, not {axis}")
    axis %= x.rank
    sizes = _split_sizes(context, node, x.shape[axis])
    node.finish()
    if min(sizes, default=-1) < 0 or sum(sizes) != x.shape[axis] or len(sizes) != len(node.outputs):
        raise node.damaged(
            f"{len(node.outputs)} parts must fill {x.shape[axis]} indices, not {list(sizes)}"
        )
    begins, ends = [0] * x.rank, list(x.shape)
    operand = context.operand(node, 0)
    for name, size in zip(node.outputs, sizes, strict=True):
        ends[axis] = begins[axis] + size
        attrs = {"begins": tuple(begins), "ends": tuple(ends), "steps": (1,) * x.rank}
        if name and size:
            context.builder.add("slice", [operand], attrs, output=name, name=node.name)
        elif name:
            shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
            context.define_constant(name, np.zeros(shape, x.dtype))
        begins[axis] = ends[axis]


def _split_sizes(context: ImportContext, node: OnnxNode, extent: int) -> tuple[int, ...]:
    """Sizes as given; else equal ones, of which the last may be smaller.

    Source: ONNX Split-2, -13 and -18, attribute num_outputs.
    """
    given = node.integers("split", None)
    if node.input(1) is not None:
        given = _whole_numbers(context, node, 1)
    count = node.integer("num_outputs", len(node.outputs))
    if given is not None:
        return given
    size = -(-extent // max(count, 1))
    return (*(size,) * (count - 1), extent - size * (count - 1))


def import_pad(context: ImportContext, node: OnnxNode) -> None:
    """Pad-2 (pads as attributes) to -21 (as constant operands), mode constant, none negative."""
    x = context.operand_type(node, 0)
    node.expect(mode="constant")
    given, value = _pad_values(context, node)
    axes = tuple(range(x.rank))
    if node.input(3) is not None:
        axes = _whole_numbers(context, node, 3)
    if len(given) != 2 * len(axes) or any(not -x.rank <= axis < x.rank for axis in axes):
        raise node.damaged(f"pads must be two for each of {len(axes)} axes, not {list(given)}")
    pads = [0] * (2 * x.rank)
    for index, axis in enumerate(axes):
        pads[axis % x.rank] = given[index]
        pads[x.rank + axis % x.rank] = given[len(axes) + index]
    if min(pads, default=0) < 0:
        raise node.refuse(f"pads must not be negative, not {pads}", "use Slice to crop")
    operands = [context.operand(node, 0), *([] if value is None else [value])]
    context.emit(node, "pad", operands, pads=tuple(pads))


def _pad_values(context: ImportContext, node: OnnxNode) -> tuple[tuple[int, ...], str | None]:
    """The pads as given, and the tensor of the value, None for 0.

    Source: ONNX Pad-2 and Pad-11.
    """
    if context.opset < 11:
        given = node.integers("pads", None)
        if given is None:
            raise node.damaged("pads must be given")
        real = np.array(node.real("value", 0.0), context.operand_type(node, 0).dtype)
        return given, context.add_constant(f"{node.outputs[0]}.value", real) if real else None
    value = None if node.input(2) is None else context.operand(node, 2)
    return _whole_numbers(context, node, 1), value


def import_concat(context: ImportContext, node: OnnxNode) -> None:
    """Concat-4 to -13. Operands without elements add nothing."""
    places = [index for index, name in enumerate(node.inputs) if not context.is_empty(name)]
    rank = context.operand_type(node, places[0] if places else 0).rank
    axis = node.integer("axis", 1)
    if not -rank <= axis < rank:
        raise node.damaged(f"axis must lie in {rank} dimensions, not {axis}")
    operands = [context.operand(node, index) for index in places]
    if len(operands) == 1 < len(node.inputs):
        node.finish()
        context.alias(node.outputs[0], operands[0])
        return
    context.emit(node, "concat", operands, axis=axis % rank)


def _whole_numbers(context: ImportContext, node: OnnxNode, index: int) -> tuple[int, ...]:
    """Values of a constant operand."""
    values = context.required_constant(node, index)
    if values.dtype.kind not in "iu":
        raise node.damaged(f"operand {index} must hold integers, not {values.dtype}")
    return tuple(int(value) for value in values.reshape(-1))


_BODY = "up to four dimensions, not along the first"
_PART = f"{_BODY}, or of a view of such a map"

OPERATORS: Mapping[str, ImportedOperator] = {
    "Concat": ImportedOperator(import_concat, ACCELERATOR, _BODY),
    "Gather": ImportedOperator(
        import_gather, ACCELERATOR, f"constant indices that count up; {_PART}"
    ),
    "GatherND": ImportedOperator(
        import_gather_nd, ACCELERATOR, f"constant indices that count up, no batch_dims; {_PART}"
    ),
    "Pad": ImportedOperator(
        import_pad,
        ACCELERATOR,
        f"with a constant, no negative pads; {_BODY}",
    ),
    "Slice": ImportedOperator(
        import_slice,
        ACCELERATOR,
        f"positive steps; {_PART}",
    ),
    "Split": ImportedOperator(import_split, ACCELERATOR, _PART),
}
