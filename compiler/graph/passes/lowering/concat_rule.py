"""The lowering rule of `lower_qdq` for Concat.

It commutes with quantization, which is elementwise, so the integers are joined.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.map_axes import (
    CHANNELS_LAST,
    as_channels_first,
    channels_first,
    is_channels_last,
    on_map,
)
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.compiler.graph.views import is_in_order, source_of
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["RULES"]


def _lower_concat(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Bring each operand to the scale of the result. Images cannot be concatenated.

    Rows are joined in memory, below each other, and so are the pixels of maps that are read with
    their channels last. Columns are joined row by row. Channels are joined by blocks.
    """
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    shape = context.graph.types[node.output].shape
    if len(shape) > MAP_RANK or axis == 0:
        return None
    found = [context.source(name, q) for name in node.inputs]
    operands = [x for x in found if x is not None]
    if len(operands) < len(found):
        return None
    if is_channels_last(context, node, operands):
        maps = [as_channels_first(context, x) for x in operands]
        inner = context.builder.fresh_name(f"{output}.map")
        place = CHANNELS_LAST[axis]
        _lower_concat_of_maps(context, node, maps, q, inner, channels_first(shape), place)
        return context.builder.add("transpose", [inner], {"order": CHANNELS_LAST}, output=output)
    maps = _maps_with_channels_last(context, operands)
    joined = _joined_axis(context, operands, maps, axis)
    if joined == "channels":
        return _lower_concat_of_channels(context, node, maps, q, output)
    if joined == "pixels":
        return _lower_concat_of_pixels(context, node, maps, q, output)
    return _lower_concat_of_maps(context, node, operands, q, output, shape, axis)


def _lower_concat_of_maps(
    context: LoweringContext,
    node: Node,
    operands: list[QuantizedTensor],
    q: Quantization,
    output: str,
    shape: tuple[int, ...],
    axis: int,
) -> str:
    """Concatenate along `axis` of (N, C, ...), to `shape`."""
    if axis == 1:
        params = _rescales(context, node, operands, q, output)
        channels = tuple(context.builder.types[x.name].shape[1] for x in operands)
        attrs: dict[str, AttrValue] = {"channels": channels, **q.attrs}
        return on_map(context, node, "q_concat", operands, params, attrs, output)
    is_outermost = all(extent == 1 for extent in shape[2:axis])
    if shape[0] > 1 or not is_outermost:
        return _joined_columns(context, node, operands, q, output, shape, axis)
    parts = []
    for x in operands:
        _, channels_of, *extents = context.builder.types[x.name].shape
        rows = (extents[0], extents[1]) if (axis, len(shape)) == (2, MAP_RANK) else (extents[-1], 1)
        parts.append(_rescaled(context, node, x, q, (1, channels_of, *rows)))
    return _joined_rows(context, node, parts, shape, output)


def _lower_concat_of_pixels(
    context: LoweringContext,
    node: Node,
    maps: list[QuantizedTensor],
    q: Quantization,
    output: str,
) -> str:
    """Concatenate the pixels of maps whose views with channels last are the operands.

    Before::

        a = reshape(transpose(x) order=0,2,3,1) shape=1,192,4       # x: int8[1,12,8,8]
        b = reshape(transpose(y) order=0,2,3,1) shape=1,48,4        # y: int8[1,12,4,4]
        c = concat(a, b) axis=1

    After::

        j = rows_view(reshape(x), reshape(y))                       # int8[1,12,80,1]
        c = reshape(transpose(j) order=0,2,3,1) shape=1,240,4
    """
    builder = context.builder
    parts = []
    for x in maps:
        _, channels, *extents = builder.types[x.name].shape
        parts.append(_rescaled(context, node, x, q, (1, channels, prod(extents), 1)))
    inner = builder.add("rows_view", parts, output=builder.fresh_name(f"{output}.map"))
    return _with_channels_last(context, node, inner, output)


def _lower_concat_of_channels(
    context: LoweringContext,
    node: Node,
    maps: list[QuantizedTensor],
    q: Quantization,
    output: str,
) -> str:
    """Concatenate the channels of maps whose views with channels last are the operands."""
    builder = context.builder
    parts, channels = [], []
    for x in maps:
        images, count, *extents = builder.types[x.name].shape
        parts.append(_viewed(builder, x.name, (images, count, prod(extents), 1)))
        channels.append(count)
    params = _rescales(context, node, maps, q, output)
    attrs: dict[str, AttrValue] = {"channels": tuple(channels), **q.attrs}
    inner = builder.fresh_name(f"{output}.map")
    builder.add("q_concat", [*parts, params], attrs, output=inner, name=node.name)
    return _with_channels_last(context, node, inner, output)


def _with_channels_last(context: LoweringContext, node: Node, name: str, output: str) -> str:
    """The view of a map with channels last, in the shape of the result of `node`."""
    last = context.builder.fresh_name(f"{output}.last")
    context.builder.add("transpose", [name], {"order": CHANNELS_LAST}, output=last)
    shape = context.graph.types[node.output].shape
    return context.builder.add("reshape", [last], {"shape": shape}, output=output, name=node.name)


def _maps_with_channels_last(
    context: LoweringContext, operands: list[QuantizedTensor]
) -> list[QuantizedTensor]:
    """The accelerator's maps whose channels are the last to count in all operands, if these are
    views of such maps; else none."""
    builder = context.builder
    maps = []
    for x in operands:
        root, places = source_of(builder, x.name)
        producer, shape = builder.producer(root), builder.types[root].shape
        if producer is None or not runs_on(producer.op, ACCELERATOR) or len(shape) != MAP_RANK:
            return []
        images, channels, *extents = shape
        order = np.arange(prod(shape)).reshape(images, channels, prod(extents)).swapaxes(1, 2)
        if channels == 1 or not np.array_equal(places().ravel(), order.ravel()):
            return []
        maps.append(replace(x, name=root))
    return maps


def _joined_axis(
    context: LoweringContext,
    operands: list[QuantizedTensor],
    maps: list[QuantizedTensor],
    axis: int,
) -> str:
    """What of the `maps` an axis of the operands joins: "channels", if it has them and the pixels
    are as many in all; "pixels", if it is the first to count in maps of one image and equal
    channels; else nothing."""
    types = context.builder.types
    sizes = []
    for x, root in zip(operands, maps, strict=bool(maps)):
        shape, (images, channels, *extents) = types[x.name].shape, types[root.name].shape
        has_channels = shape[-1] == channels
        # The channels of a single pixel are not to be taken for pixels.
        leads = prod(shape[:axis]) == 1 and (prod(extents) > 1 or has_channels)
        last = has_channels and axis == len(shape) - 1
        sizes.append((images, channels, prod(extents), last, leads))
    if not sizes:
        return ""
    columns = [set(column) for column in zip(*sizes, strict=True)]
    one_image, same_channels, same_pixels = (len(column) == 1 for column in columns[:3])
    if one_image and same_pixels and columns[3] == {True}:
        return "channels"
    return "pixels" if one_image and same_channels and columns[4] == {True} else ""


def _rescaled(
    context: LoweringContext,
    node: Node,
    x: QuantizedTensor,
    q: Quantization,
    shape: tuple[int, ...],
) -> str:
    """`x` in the scale of the result, as a map of `shape`.

    The scale changes before the view, so that it becomes a part of the layer that computes `x`.
    """
    builder = context.builder
    root, places = source_of(builder, x.name)
    name = root if len(builder.types[root].shape) == MAP_RANK and is_in_order(places()) else x.name
    same = (x.scale, x.zero_point) == (q.scale, q.zero_point) and q == q.unbounded
    if not same:
        params, finish = context.rescale(node, name, x, q)
        if len(builder.types[name].shape) != MAP_RANK:
            name = _viewed(builder, name, shape)
        rescaled = builder.fresh_name(f"{name}.rescaled")
        name = builder.add("q_requantize", [name, params], finish.attrs, output=rescaled)
    return _viewed(builder, name, shape)


def _viewed(builder: GraphBuilder, name: str, shape: tuple[int, ...]) -> str:
    if builder.types[name].shape == shape:
        return name
    return builder.add(
        "reshape", [name], {"shape": shape}, output=builder.fresh_name(f"{name}.rows")
    )


def _joined_rows(
    context: LoweringContext, node: Node, parts: list[str], shape: tuple[int, ...], output: str
) -> str:
    """The rows of maps of one image below each other, as a tensor of `shape`."""
    builder = context.builder
    first, total = builder.types[parts[0]].shape, sum(builder.types[x].shape[2] for x in parts)
    fits = (*first[:2], total, *first[3:]) == shape
    return _joined(context, node, "rows_view", parts, output, None if fits else shape)


def _joined_columns(
    context: LoweringContext,
    node: Node,
    operands: list[QuantizedTensor],
    q: Quantization,
    output: str,
    shape: tuple[int, ...],
    axis: int,
) -> str:
    """The columns of maps side by side, as a tensor of `shape`; the rows of several images are
    columns of maps of one row."""
    builder = context.builder
    parts = []
    for x in operands:
        extents = builder.types[x.name].shape
        rows = prod(extents[2:axis])
        wide = (*extents[:2], rows, prod(extents[axis:]))
        parts.append(_rescaled(context, node, x, q, wide))
    fits = len(shape) == MAP_RANK == axis + 1
    return _joined(context, node, "columns_view", parts, output, None if fits else shape)


def _joined(
    context: LoweringContext,
    node: Node,
    op: str,
    parts: list[str],
    output: str,
    shape: tuple[int, ...] | None,
) -> str:
    """A view of parts, reshaped if there is a `shape`."""
    builder = context.builder
    if shape is None:
        return builder.add(op, parts, output=output, name=node.name)
    inner = builder.add(op, parts, output=builder.fresh_name(f"{output}.map"))
    return builder.add("reshape", [inner], {"shape": shape}, output=output, name=node.name)


def _rescales(
    context: LoweringContext,
    node: Node,
    operands: list[QuantizedTensor],
    q: Quantization,
    output: str,
) -> str:
    """One row of parameters for each operand, which brings it to the scale of `q`."""
    biases = np.array([-x.zero_point for x in operands])
    ratios = np.array([x.scale / q.scale for x in operands])
    return context.params(node, output, biases, ratios, max(x.largest for x in operands))


RULES: Mapping[str, Rule] = {
    "concat": _lower_concat,
}
