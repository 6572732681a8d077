"""The lowering rules of `lower_qdq` for operators that move elements.

They commute with quantization, which is elementwise, so the integers are moved. Tensors of fewer
than four dimensions become maps by adding dimensions of 1: sequences (N, C, L) get height 1, all
others rows and columns.
"""

from dataclasses import replace

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext
from daedal.compiler.graph.passes.lowering.quantized_weights import real_constant
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.compiler.graph.views import add_moved, box_of, has_channels_last, source_of
from daedal.isa import numerics

__all__ = ["lower_concat", "lower_moved", "lower_pad", "lower_resize", "lower_slice"]


def lower_moved(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Reshape and transpose: quantize first, then move."""
    inner = context.builder.fresh_name(f"{node.inputs[0]}.int{16 if q.wide else 8}")
    name = context.lower(node.inputs[0], q, inner)
    if name is None:
        return None
    return context.builder.add(node.op, [name], node.attrs, output=output, name=node.name)


def lower_slice(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Slice the integers. The slice must keep all images, or be of a view of a map and keep all
    images of that."""
    x_type = context.graph.types[node.inputs[0]]
    begins, ends, steps = (_values(node, name) for name in ("begins", "ends", "steps"))
    if x_type.rank > MAP_RANK or (begins[0], ends[0], steps[0]) != (0, x_type.shape[0], 1):
        return _lower_slice_of_view(context, node, q, output)
    x = context.source(node.inputs[0], q)
    if x is None:
        return None
    params, finish = context.rescale(node, output, x, q)
    last = has_channels_last(context.builder, x.name)
    if last:
        begins, ends, steps = (_channels_first(values) for values in (begins, ends, steps))
    attrs: dict[str, AttrValue] = {
        "begins": _of_map(begins, 0),
        "ends": _of_map(ends, 1),
        "steps": _of_map(steps, 1),
        **finish.attrs,
    }
    if not last:
        return _on_map(context, node, "q_slice", [x], params, attrs, output)
    inner = context.builder.fresh_name(f"{output}.map")
    operands = [_first(context, x).name, params]
    context.builder.add("q_slice", operands, attrs, output=inner, name=node.name)
    return context.builder.add("transpose", [inner], {"order": _CHANNELS_LAST}, output=output)


def _lower_slice_of_view(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Slice the map first, and then view the part: queries, keys and values that one projection
    computes are slices of channels, behind a transpose those of the first axis.

    Before::

        v = transpose(reshape(x)) order=2,0,3,1,4         # x: int8[1,96,16,1] as 3 x 2 heads
        k = slice(v) begins=1,0,0,0,0 ends=2,1,2,16,16

    After::

        p = q_slice(x, i) begins=0,32,0,0 ends=1,64,16,1 ...
        k = transpose(reshape(p)) ...
    """
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    builder = context.builder
    root, places = source_of(builder, x.name)
    shape = builder.types[root].shape
    ranges = zip(*(_values(node, name) for name in ("begins", "ends", "steps")), strict=True)
    taken = places()[tuple(slice(*part) for part in ranges)]
    box = box_of(taken, shape) if len(shape) == MAP_RANK else None
    if box is None or box[0] != (0, shape[0]):
        return None
    within: Array = np.full(builder.types[root].num_elements, -1)
    part = tuple(slice(*axis) for axis in box)
    within.reshape(shape)[part] = np.arange(taken.size).reshape([b - a for a, b in box])
    start = builder.mark()
    params, finish = context.rescale(node, output, x, q)
    attrs: dict[str, AttrValue] = {
        "begins": tuple(begin for begin, _ in box),
        "ends": tuple(end for _, end in box),
        "steps": (1,) * MAP_RANK,
        **finish.attrs,
    }
    name = builder.fresh_name(f"{output}.slice")
    builder.add("q_slice", [root, params], attrs, output=name, name=node.name)
    if add_moved(builder, name, within[taken], output):
        return output
    builder.rewind(start)
    return None


def lower_pad(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Pad the integers. If the pad value is not on the operand's grid, the operand is first
    requantized as the result. The batch cannot be padded."""
    x_type = context.graph.types[node.inputs[0]]
    pads = _values(node, "pads")
    before, after = pads[: x_type.rank], pads[x_type.rank :]
    if x_type.rank > MAP_RANK or before[0] or after[0]:
        return None
    value = 0.0
    if len(node.inputs) == 2:
        value = float(real_constant(context.graph, node, node.inputs[1], "pad value").reshape(()))
    x = context.source(node.inputs[0], q)
    if x is not None and (x.scale, x.zero_point) != (q.scale, q.zero_point):
        steps = value / x.scale
        if abs(steps - round(steps)) > _GRID or not -128 <= round(steps) + x.zero_point <= 127:
            inner = context.builder.fresh_name(f"{node.inputs[0]}.int8")
            name = context.lower(node.inputs[0], q.unbounded, inner)
            x = None if name is None else QuantizedTensor(name, q.scale, q.zero_point)
    if x is None:
        return None
    params, finish = context.rescale(node, output, x, q)
    attrs: dict[str, AttrValue] = {
        "pads": _of_map(before, 0) + _of_map(after, 0),
        "pad_value": int(numerics.quantize(value, x.scale, x.zero_point, np.int8)),
        **finish.attrs,
    }
    return _on_map(context, node, "q_pad", [x], params, attrs, output)


_GRID = 1e-6
"""How far from a whole number of steps a pad value may lie: float32 holds no more."""


def lower_resize(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Repeat the integers. Images and channels cannot be repeated."""
    factors = _values(node, "factors")
    if len(factors) > MAP_RANK or any(factor != 1 for factor in factors[:2]):
        return None
    x = context.source(node.inputs[0], q)
    if x is None:
        return None
    params, finish = context.rescale(node, output, x, q)
    attrs: dict[str, AttrValue] = {
        "factors": _of_map(factors, 1),
        **finish.attrs,
    }
    return _on_map(context, node, "q_resize", [x], params, attrs, output)


def lower_concat(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Bring each operand to the scale of the result. Images cannot be concatenated."""
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    shape = context.graph.types[node.output].shape
    if len(shape) > MAP_RANK or axis == 0:
        return None
    found = [context.source(name, q) for name in node.inputs]
    operands = [x for x in found if x is not None]
    if len(operands) < len(found):
        return None
    if axis in (1, 2) and all(has_channels_last(context.builder, x.name) for x in operands):
        maps = [_first(context, x) for x in operands]
        inner = context.builder.fresh_name(f"{output}.map")
        _lower_concat_in_map(context, node, maps, q, inner, _channels_first(shape), axis + 1)
        return context.builder.add("transpose", [inner], {"order": _CHANNELS_LAST}, output=output)
    if axis > 1:
        return _lower_concat_in_map(context, node, operands, q, output, shape, axis)
    params = _rescales(context, node, operands, q, output)
    channels = tuple(context.graph.types[name].shape[1] for name in node.inputs)
    attrs: dict[str, AttrValue] = {"channels": channels, **q.attrs}
    return _on_map(context, node, "q_concat", operands, params, attrs, output)


def _lower_concat_in_map(
    context: LoweringContext,
    node: Node,
    operands: list[QuantizedTensor],
    q: Quantization,
    output: str,
    shape: tuple[int, ...],
    axis: int,
) -> str:
    """Concatenate along `axis`, in height or width, to `shape`: pad each operand with real zeros to
    that, and add them up."""
    open_end = q.unbounded
    place = MAP_RANK - 1 if len(shape) == MAP_RANK - 1 else axis
    begin, total = 0, ""
    for number, x in enumerate(operands):
        extent = context.builder.types[x.name].shape[axis]
        pads = [0] * (2 * MAP_RANK)
        pads[place], pads[MAP_RANK + place] = begin, shape[axis] - begin - extent
        begin += extent
        name = context.builder.fresh_name(f"{output}.part")
        params = _rescales(context, node, [x], q, name)
        attrs: dict[str, AttrValue] = {"pads": tuple(pads), "pad_value": x.zero_point}
        part = _on_map(context, node, "q_pad", [x], params, {**attrs, **open_end.attrs}, name)
        if not number:
            total = part
            continue
        last = number == len(operands) - 1
        name = output if last else context.builder.fresh_name(f"{output}.sum")
        params = context.define_params(name, np.array([[-2 * q.zero_point, 1, 0]], dtype=np.int64))
        ends = q if last else open_end
        factors: dict[str, AttrValue] = {"multiplier_a": 1, "multiplier_b": 1, **ends.attrs}
        total = context.builder.add(
            "q_add", [total, part, params], factors, output=name, name=node.name
        )
    return total


_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders of the axes of a map."""


def _channels_first(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(values[axis] for axis in _CHANNELS_FIRST)


def _first(context: LoweringContext, x: QuantizedTensor) -> QuantizedTensor:
    """The map of a view with channels last."""
    output = context.builder.fresh_name(f"{x.name}.map")
    order: dict[str, AttrValue] = {"order": _CHANNELS_FIRST}
    return replace(x, name=context.builder.add("transpose", [x.name], order, output=output))


def _rescales(
    context: LoweringContext,
    node: Node,
    operands: list[QuantizedTensor],
    q: Quantization,
    output: str,
) -> str:
    """One row of parameters for each operand, which brings it to the scale of `q`."""
    biases = np.array([-x.zero_point for x in operands])
    return context.params(node, output, biases, np.array([x.scale / q.scale for x in operands]))


def _values(node: Node, name: str) -> tuple[int, ...]:
    values = node.attrs[name]
    assert isinstance(values, tuple)
    return values


def _of_map(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """The values of a tensor's dimensions as those of its map, with `fill` for each new one."""
    if len(values) == MAP_RANK - 1:
        return (*values[:2], fill, *values[2:])
    return values + (fill,) * (MAP_RANK - len(values))


def _on_map(
    context: LoweringContext,
    node: Node,
    op: str,
    operands: list[QuantizedTensor],
    params: str,
    attrs: dict[str, AttrValue],
    output: str,
) -> str:
    """Add an operator on maps, between reshapes if its tensors have fewer dimensions.

    Its result is named `output` unless the final reshape needs that name.
    """
    builder = context.builder
    shape = context.graph.types[node.output].shape
    if len(shape) == MAP_RANK:
        names = [x.name for x in operands]
        return builder.add(op, [*names, params], attrs, output=output, name=node.name)
    maps = []
    for x in operands:
        wide = _of_map(builder.types[x.name].shape, 1)
        lifted = builder.fresh_name(f"{x.name}.map")
        maps.append(builder.add("reshape", [x.name], {"shape": wide}, output=lifted))
    inner, outer = output, builder.fresh_name(f"{output}.flat")
    if output in context.graph.outputs:
        inner, outer = builder.fresh_name(f"{output}.map"), output
    builder.add(op, [*maps, params], attrs, output=inner, name=node.name)
    return builder.add("reshape", [inner], {"shape": shape}, output=outer)
