"""Builders of convolutions on maps, alone or with an elementwise operator fused after them."""

from collections.abc import Sequence
from dataclasses import replace

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.fused import CONV_PREFIX, head_of, tail_of
from daedal.compiler.graph.ops.padding_classes import PaddingClasses
from daedal.compiler.graph.ops.registry import get_op, ints, whole
from daedal.compiler.graph.ops.windows import output_extents
from daedal.compiler.ops.accelerator.builders import bounds_of, pair
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.template import ConvTemplate
from daedal.compiler.ops.accelerator.depthwise.depthwise import schedule_depthwise
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape
from daedal.compiler.ops.accelerator.depthwise.space import DepthwiseSpace
from daedal.compiler.ops.accelerator.fused_tail import CONV, FusedTail
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.elementwise_builders import ELEMENTWISE
from daedal.compiler.ops.conv2d import Gather, conv2d
from daedal.compiler.ops.depthwise import depthwise_conv2d
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["conv2d_template", "depthwise_template", "operands_of", "result_of", "with_tail"]

_CLASS_RANK = 4
"""Of parameters for classes of outputs: (OB, classes, block_out, 3)."""


def result_of(node: Node) -> tuple[str, Bounds]:
    """Name and bounds of a convolution's own result."""
    if tail_of(node.op) is None:
        return "y", bounds_of(node)
    return CONV, bounds_of(node, CONV_PREFIX)


def with_tail(
    result: te.Tensor, operands: list[te.Tensor], node: Node, variant: Variant
) -> te.Tensor:
    """The result of the fused operator applied to `result`, or `result` itself if there is none.
    `operands` are those of the node."""
    tail = tail_of(node.op)
    if tail is None:
        return result
    return ELEMENTWISE[tail]([result, *operands[_num_operands(node) :]], node, variant)


def operands_of(
    operands: list[te.Tensor], node: Node
) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor | None]:
    """Map, weights, parameters and, where it has one, table of a convolution; the other operands
    are the tail's."""
    x, w, *tables, params = operands[: _num_operands(node)]
    return x, w, params, tables[0] if tables else None


def _num_operands(node: Node) -> int:
    return len(get_op(head_of(node.op)).operands)


def _count(params: te.Tensor) -> int:
    """Number of classes of outputs with separate parameters."""
    return params.shape[1] if len(params.shape) == _CLASS_RANK else 1


def _classes(
    x: te.Tensor, kernel: Sequence[int], params: te.Tensor, node: Node
) -> Sequence[Sequence[int]]:
    """The class of each output, if the parameters have classes."""
    if len(params.shape) < _CLASS_RANK:
        return ()
    window = (ints(node.attrs, name) for name in ("strides", "pads", "dilations"))
    outputs = output_extents(x.shape[2:4], kernel, *window)
    return PaddingClasses.of(x.shape[2:4], kernel, outputs, node.attrs).table


def conv2d_template(
    operands: list[te.Tensor],
    node: Node,
    variant: Variant,
    *,
    groups: int = 1,
    narrow: bool = False,
) -> ConvTemplate:
    """The schedules of one dense convolution, or of several independent ones; with `narrow`, of one
    whose weights have 4 bits in memory."""
    x, w, params, table = operands_of(operands, node)
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    pads, pad_value = ints(node.attrs, "pads"), whole(node.attrs, "pad_value")
    name, bounds = result_of(node)
    classes = _classes(x, w.shape[2:4], params, node)

    def build(gather: Gather | None) -> tuple[PrimFunc, ConvShape]:
        conv = conv2d(
            x,
            w,
            params,
            strides=strides,
            pads=pads,
            dilations=dilations,
            pad_value=pad_value,
            bounds=bounds,
            groups=groups,
            classes=classes,
            accumulator=accumulator_dtype(variant),
            gather=gather,
            name=name,
            table=table,
        )
        y = with_tail(conv, operands, node, variant)
        func = te.create_prim_func(operands, [y], node.output)
        tail, count = FusedTail.of(func), _count(params)
        shape = ConvShape.of(x, w, y, strides, dilations, pads, pad_value, tail, count, gather)
        return func, replace(shape, narrow_weights=narrow)

    return ConvTemplate(build, variant)


def depthwise_template(
    operands: list[te.Tensor],
    node: Node,
    variant: Variant,
    *,
    kernel_width: int,
    narrow: bool = False,
) -> TileTemplate:
    """The schedules of a depthwise convolution; with `narrow`, of one whose weights have 4 bits in
    memory."""
    x, w, params, table = operands_of(operands, node)
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    top, left, *_ = pads = ints(node.attrs, "pads")
    pad_value = whole(node.attrs, "pad_value")
    name, bounds = result_of(node)
    conv = depthwise_conv2d(
        x,
        w,
        params,
        kernel_width=kernel_width,
        strides=strides,
        pads=pads,
        dilations=dilations,
        pad_value=pad_value,
        bounds=bounds,
        accumulator=accumulator_dtype(variant),
        name=name,
        table=table,
    )
    y = with_tail(conv, operands, node, variant)
    func = te.create_prim_func(operands, [y], node.output)
    shape = DepthwiseShape.of(
        x,
        w,
        y,
        strides=strides,
        dilations=dilations,
        pads=(top, left),
        tail=FusedTail.of(func),
        skips_padding=pad_value == 0 and any(pads),
    )
    shape = replace(shape, narrow_weights=narrow)

    def build(config: Config) -> Schedule:
        return schedule_depthwise(func, shape, variant, DepthwiseSpace.tile(config))

    return TileTemplate(DepthwiseSpace(shape, variant), build)
