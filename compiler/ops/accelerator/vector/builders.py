"""Builders of the integer operators that only the ALU computes, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.integer_pooling import divisor_indices
from daedal.compiler.graph.ops.movement import pad_margins
from daedal.compiler.graph.ops.permute import vector_order
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.ops.windows import output_extents
from daedal.compiler.graph.views import turned_axes
from daedal.compiler.ops.accelerator.builders import Builder, bounds_of, pair
from daedal.compiler.ops.accelerator.form_space import FormTemplate
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity
from daedal.compiler.ops.accelerator.tiles.template import Template
from daedal.compiler.ops.accelerator.vector.elementwise_builders import ELEMENTWISE
from daedal.compiler.ops.accelerator.vector.pool_by_columns import columns_template
from daedal.compiler.ops.accelerator.vector.row_builders import (
    build_channel_requantize,
    build_norm,
    build_softmax,
)
from daedal.compiler.ops.accelerator.vector.vector import (
    elementwise_template,
    move_template,
    pool_template,
)
from daedal.compiler.ops.movement import concat, pad_map, permute, resize_nearest, slice_map
from daedal.compiler.ops.pooling import avg_pool, max_pool
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["VECTOR_BUILDERS", "build_max_pool", "build_permute"]

VECTOR_BURST_CYCLES = 4
"""Cycles of a burst of one vector: with 16 in flight, a 16th of the memory's latency of 64.

Where the columns between two that a slice keeps take no longer, they are loaded with them."""

MOST_OUTPUTS = 64
"""Outputs of a pool's maps up to which it may be computed by columns."""


def _elementwise(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    y = ELEMENTWISE[node.op](operands, node, variant)
    return elementwise_template(te.create_prim_func(operands, [y], node.output), variant)


def build_max_pool(
    operands: list[te.Tensor], node: Node, variant: Variant, keeps_values: bool = False
) -> Template:
    """The schedules of a maximum; `keeps_values` says that its result needs no REQUANTIZE.

    A maximum by columns is requantized in any case.
    """

    def build(by_columns: bool) -> PrimFunc:
        y = max_pool(
            *operands,
            kernel=pair(node, "kernel"),
            strides=pair(node, "strides"),
            pads=ints(node.attrs, "pads"),
            pad_value=whole(node.attrs, "pad_value"),
            bounds=bounds_of(node) if by_columns or not keeps_values else None,
            accumulator=accumulator_dtype(variant),
        )
        return te.create_prim_func(operands, [y], node.output)

    return _pool(operands[0], build, "max", node, variant)


def _avg_pool(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    def build(_by_columns: bool) -> PrimFunc:
        y = avg_pool(
            *operands,
            kernel=pair(node, "kernel"),
            strides=pair(node, "strides"),
            pads=ints(node.attrs, "pads"),
            pad_value=whole(node.attrs, "pad_value"),
            rows=divisor_indices(node.attrs).tolist(),
            bounds=bounds_of(node),
            accumulator=accumulator_dtype(variant),
        )
        return te.create_prim_func(operands, [y], node.output)

    return _pool(operands[0], build, "add", node, variant)


def _pool(
    x: te.Tensor, build: Callable[[bool], PrimFunc], reduction: str, node: Node, variant: Variant
) -> Template:
    """The schedules of a pool in place (0) and by columns (1).

    `build` makes the function for either. The second form computes one output of a map at a time,
    and is offered if a map has few outputs.
    """
    kernel, strides = pair(node, "kernel"), pair(node, "strides")
    large = _is_large(x, node, variant)
    forms: list[Callable[[], Template]] = [
        lambda: pool_template(build(False), kernel, strides, reduction, variant)
    ]
    outputs = output_extents(x.shape[2:4], kernel, strides, ints(node.attrs, "pads"), (1, 1))
    if large or x.shape[0] * prod(outputs) <= MOST_OUTPUTS:
        forms.append(lambda: columns_template(build(True), kernel, reduction, variant))
    return FormTemplate(
        "by_columns", forms, int(large), lambda other: _is_large(x, node, other) == large
    )


def _is_large(x: te.Tensor, node: Node, variant: Variant) -> bool:
    """Whether a window is the whole map, or does not fit the accumulators with its columns."""
    height, width = pair(node, "kernel")
    top, left, bottom, right = ints(node.attrs, "pads")
    whole_map = (x.shape[2] + top + bottom, x.shape[3] + left + right) == (height, width)
    too_large = x.shape[4] * (height * width + width + 1) > Capacity(variant, 1).acc
    return (whole_map and min(height, width) > 1) or too_large


def _requantize(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    y = ELEMENTWISE[node.op](operands, node, variant)
    return move_template(te.create_prim_func(operands, [y], node.output), variant)


def _slice(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    """The schedules that load only the columns that remain (0), or all between them, too (1)."""
    begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
    block = variant.block
    height, width = (-(-(ends[axis] - begins[axis]) // steps[axis]) for axis in (2, 3))

    def form(load_columns: bool) -> Template:
        y = slice_map(
            *operands,
            begin=(begins[1] // block, begins[2], begins[3]),
            shape=(-(-ends[1] // block) - begins[1] // block, height, width),
            steps=steps[2:],
            bounds=bounds_of(node),
            load_columns=load_columns,
            accumulator=accumulator_dtype(variant),
        )
        func = te.create_prim_func(operands, [y], node.output)
        return move_template(func, variant, column_step=steps[3] if load_columns else 1)

    dense = steps[3] * scratchpad(variant, Memory.OUT).row_beats(variant) <= VECTOR_BURST_CYCLES
    if steps[3] == 1:
        return form(dense)
    forms = [partial(form, load_columns) for load_columns in (False, True)]
    return FormTemplate("load_columns", forms, int(dense))


def _pad(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    x = operands[0]
    block = variant.block
    _, (front, back), *margins = pad_margins(node.attrs)
    blocks = front // block + x.shape[1] + -(-back // block)
    sizes = [x.shape[2 + axis] + sum(margin) for axis, margin in enumerate(margins)]
    y = pad_map(
        *operands,
        before=(front // block, *(margin[0] for margin in margins)),
        shape=(blocks, *sizes),
        pad_value=whole(node.attrs, "pad_value"),
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    return move_template(te.create_prim_func(operands, [y], node.output), variant)


def _resize(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    _, _, *factors = ints(node.attrs, "factors")
    y = resize_nearest(
        *operands,
        factors=factors,
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    func = te.create_prim_func(operands, [y], node.output)
    return move_template(func, variant, factors=(factors[0], factors[1]))


def build_permute(
    operands: list[te.Tensor], node: Node, variant: Variant, shape: tuple[int, ...] = ()
) -> Template:
    """The schedules of a permutation of the vectors of a map of `shape`."""
    x, params = operands
    numbers = vector_order(shape, node.attrs, variant.block)
    found = None if numbers is None else turned_axes(numbers)
    assert found is not None, "views_to_permutes makes only those"
    extents, order = found
    vectors = te.placeholder((*extents, *x.shape[4:]), x.dtype, "x")
    y = permute(
        vectors,
        params,
        order=order,
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    return move_template(te.create_prim_func([vectors, params], [y], node.output), variant)


def _concat(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    *maps, params = operands
    y = concat(
        maps,
        params,
        blocks=[-(-channels // variant.block) for channels in ints(node.attrs, "channels")],
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    # A tile lies within one map, which the loop over blocks determines.
    return move_template(te.create_prim_func(operands, [y], node.output), variant, blocks=1)


VECTOR_BUILDERS: Mapping[str, Builder] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "q_avg_pool": _avg_pool,
    "q_channel_requantize": build_channel_requantize,
    "q_concat": _concat,
    "q_layer_norm": build_norm,
    "q_max_pool": build_max_pool,
    "q_pad": _pad,
    "q_permute": build_permute,
    "q_requantize": _requantize,
    "q_requantize_lookup": _requantize,
    "q_resize": _resize,
    "q_rms_norm": build_norm,
    "q_slice": _slice,
    "q_softmax": build_softmax,
}
"""The builder of each operator."""
