"""A transposed convolution: its dense convolutions, each of which stores to rows of its own."""

import math
from collections.abc import Iterator

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.ops.sub_kernels import SubKernel
from daedal.compiler.graph.sub_kernel_layout import SubKernelLayout
from daedal.compiler.ops.accelerator.conv2d import schedule_conv2d
from daedal.compiler.ops.accelerator.conv_shape import ConvShape
from daedal.compiler.ops.conv2d import conv2d
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["lower_transposed_conv2d"]


def lower_transposed_conv2d(
    graph: Graph, node: Node, variant: Variant, x_shape: tuple[int, ...], bounds: Bounds
) -> Iterator[tuple[Schedule, dict[str, MemoryView]]]:
    """The schedule of each dense convolution, and how its parameters lie in the node's tensors.

    Parameters
    ----------
    x_shape : (NB, CB, H, W, U, batch, block_in) of the input.

    Raises
    ------
    ScheduleError
        No tile of one fits the scratchpads.
    """
    x_type, w_type, params_type = (graph.types[name] for name in node.inputs)
    layout = w_type.layout
    assert isinstance(layout, SubKernelLayout)
    pads = scratchpads(variant)
    weight_row, params_row = (pads[memory] for memory in (Memory.WGT, Memory.PAR))
    rows = params_type.shape[0] // len(layout.parts)
    for number, (part, w_shape) in enumerate(zip(layout.parts, layout.part_shapes, strict=True)):
        x = te.placeholder(x_shape, x_type.dtype, "x")
        w = te.placeholder(w_shape, w_type.dtype, "w")
        params = te.placeholder((rows, *params_type.shape[1:]), params_type.dtype, "params")
        (top, bottom), (left, right) = (
            axis.pads(size) for axis, size in zip(part, x_type.shape[2:], strict=True)
        )
        dilations = (part[0].dilation, part[1].dilation)
        window, pad_value = (top, left, bottom, right), whole(node.attrs, "pad_value")
        y = conv2d(
            x,
            w,
            params,
            strides=(1, 1),
            pads=window,
            dilations=dilations,
            pad_value=pad_value,
            bounds=bounds,
            accumulator=accumulator_dtype(variant),
        )
        func = te.create_prim_func([x, w, params], [y], f"{node.output}.{number}")
        geometry = ConvShape.of(x, w, y, (1, 1), dilations, window, pad_value)
        weights_row = layout.first_rows[number] * weight_row.row_beats(variant)
        yield (
            schedule_conv2d(func, geometry, variant),
            {
                "w": _dense(
                    w_shape[:-2],
                    weight_row.row_beats(variant),
                    weights_row,
                    layout.first_rows[-1] * weight_row.row_bytes,
                ),
                "params": _dense(
                    (rows,),
                    params_row.row_beats(variant),
                    number * rows * params_row.row_beats(variant),
                    params_type.shape[0] * params_row.row_bytes,
                ),
                "y": _interleaved(graph, node, part, y.shape, variant),
            },
        )


def _dense(shape: tuple[int, ...], row_beats: int, first_beat: int, size_bytes: int) -> MemoryView:
    """A part of a tensor whose rows follow each other."""
    strides = tuple(row_beats * math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return MemoryView(strides, size_bytes, first_beat)


def _interleaved(
    graph: Graph, node: Node, part: SubKernel, shape: tuple[int, ...], variant: Variant
) -> MemoryView:
    """Every so many rows and columns of the result."""
    pad = scratchpads(variant)[Memory.OUT]
    images, blocks, _, _, vectors, _, _ = shape
    _, _, height, width = graph.types[node.output].shape
    down, right = ints(node.attrs, "strides")
    pixel = vectors * pad.row_beats(variant)
    line, plane = width * pixel, height * width * pixel
    strides = (blocks * plane, plane, down * line, right * pixel, pad.row_beats(variant))
    offset = part[0].phase * line + part[1].phase * pixel
    size = images * blocks * height * width * vectors * pad.row_bytes
    return MemoryView(strides, size, offset)
