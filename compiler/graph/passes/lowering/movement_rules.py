"""The lowering rules of `lower_qdq` for operators that move elements within one tensor.

They commute with quantization, which is elementwise, so the integers are moved.
"""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.map_axes import (
    channels_first,
    is_channels_last,
    of_map,
    on_map,
)
from daedal.compiler.graph.passes.lowering.quantized_weights import real_constant
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.compiler.graph.views import add_moved, box_of, source_of
from daedal.isa import numerics

__all__ = ["RULES"]


def _lower_moved(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Reshape and transpose: quantize first, then move."""
    inner = context.builder.fresh_name(f"{node.inputs[0]}.int{16 if q.wide else 8}")
    name = context.lower(node.inputs[0], q, inner)
    if name is None:
        return None
    return context.builder.add(node.op, [name], node.attrs, output=output, name=node.name)


def _lower_slice(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
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
    last = is_channels_last(context, node, [x])
    if last:
        begins, ends, steps = (channels_first(values) for values in (begins, ends, steps))
    attrs: dict[str, AttrValue] = {
        "begins": of_map(begins, 0),
        "ends": of_map(ends, 1),
        "steps": of_map(steps, 1),
        **finish.attrs,
    }
    return on_map(context, node, "q_slice", [x], params, attrs, output, last=last)


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


def _lower_pad(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
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
    last = is_channels_last(context, node, [x])
    if last:
        before, after = channels_first(before), channels_first(after)
    attrs: dict[str, AttrValue] = {
        "pads": of_map(before, 0) + of_map(after, 0),
        "pad_value": int(numerics.quantize(value, x.scale, x.zero_point, np.int8)),
        **finish.attrs,
    }
    return on_map(context, node, "q_pad", [x], params, attrs, output, last=last)


_GRID = 1e-6
"""How far from a whole number of steps a pad value may lie: float32 holds no more."""


def _lower_resize(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Repeat the integers. Images and channels cannot be repeated."""
    factors = _values(node, "factors")
    if len(factors) > MAP_RANK:
        return None
    x = context.source(node.inputs[0], q)
    if x is None:
        return None
    last = is_channels_last(context, node, [x])
    factors = channels_first(factors) if last else factors
    if any(factor != 1 for factor in factors[:2]):
        return None
    params, finish = context.rescale(node, output, x, q)
    attrs: dict[str, AttrValue] = {
        "factors": of_map(factors, 1),
        **finish.attrs,
    }
    return on_map(context, node, "q_resize", [x], params, attrs, output, last=last)


def _values(node: Node, name: str) -> tuple[int, ...]:
    values = node.attrs[name]
    assert isinstance(values, tuple)
    return values


RULES: Mapping[str, Rule] = {
    "pad": _lower_pad,
    "reshape": _lower_moved,
    "resize": _lower_resize,
    "slice": _lower_slice,
    "transpose": _lower_moved,
}
