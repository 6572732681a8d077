"""Lowers a convolution over streams to its schedules and the memory view of its input."""

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.stream_layout import RowStreamLayout, RowStreamWeightLayout
from daedal.compiler.ops.accelerator.conv.builders import operands_of, result_of, with_tail
from daedal.compiler.ops.accelerator.conv.stream import stream_template
from daedal.compiler.ops.accelerator.conv.stream_shape import StreamShape
from daedal.compiler.ops.accelerator.fused_tail import FusedTail
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.conv2d_stream import StreamWindow, conv2d_stream
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["stream_conv2d_template", "stream_view"]


def stream_conv2d_template(
    graph: Graph, node: Node, variant: Variant, others: list[te.Tensor]
) -> tuple[TileTemplate, dict[str, MemoryView]]:
    """The schedules of a convolution over a stream, and the memory view of its parameter ``x``.

    `others` are the operands after map and weights.
    """
    source, weights = (graph.types[name] for name in node.inputs[:2])
    stream, layout = source.layout, weights.layout
    assert isinstance(stream, RowStreamLayout) and isinstance(layout, RowStreamWeightLayout)
    shape, view = stream_view(source.physical_shape, layout.beat, variant, stream.stream.copies)
    operands = [
        te.placeholder(shape, source.dtype, "x"),
        te.placeholder(weights.physical_shape, weights.dtype, "w"),
        *others,
    ]
    _, _, height, width = graph.types[node.output].shape
    window = StreamWindow.of(
        stream.stream,
        layout,
        down=ints(node.attrs, "strides")[0],
        pad_top=ints(node.attrs, "pads")[0],
        extent=(height, width),
    )
    name, bounds = result_of(node)
    x, w, params, table = operands_of(operands, node)
    conv = conv2d_stream(
        x,
        w,
        params,
        window=window,
        parts=layout.block // layout.block_out,
        pad_value=whole(node.attrs, "pad_value"),
        bounds=bounds,
        accumulator=accumulator_dtype(variant),
        name=name,
        table=table,
    )
    y = with_tail(conv, operands, node, variant)
    func = te.create_prim_func(operands, [y], node.output)
    geometry = StreamShape.of(operands[0], operands[1], y, window, FusedTail.of(func))
    return stream_template(func, geometry, variant), {"x": view}


def stream_view(
    shape: tuple[int, ...], beat: int, variant: Variant, copies: int = 1
) -> tuple[tuple[int, ...], MemoryView]:
    """(NB, planes, groups, rows, batch, lanes) of streams (NB, copies * groups, num_rows, ...).

    Plane p begins p * `beat` elements later: at bus word p of the same stream, which has one row
    less for it, or in copy p.
    """
    blocks, streams, num_rows, batch, lanes = shape
    planes, groups = lanes // beat, streams // copies
    pad = scratchpad(variant, Memory.INP)
    row = pad.row_beats(variant)
    assert planes == copies if copies > 1 else planes in (1, row), "a plane begins at a bus word"
    view = MemoryView(
        (
            streams * num_rows * row,
            1 if copies == 1 else groups * num_rows * row,
            num_rows * row,
            row,
        ),
        blocks * streams * num_rows * pad.row_bytes,
    )
    return (blocks, planes, groups, num_rows - (planes > 1), batch, lanes), view
