"""Lets a first layer with few channels compute several taps of its window in one product."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import WeightLayout
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.stream_layout import RowStreamWeightLayout
from daedal.compiler.graph.types import TensorType
from daedal.isa.row_stream import RowStream
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["rewrite_first_layer", "rows_for_streams"]

HOST_GROWTH = (16, 12)
"""What the host may write of an image for each copy, as a share of its size. Where no candidate
keeps to it (the pads of small images weigh much), the smallest is the limit."""

COPIES = (1, 2, 4)

COPIED_PER_CYCLE = 8
"""Elements of further copies that the host writes in a cycle, as `HostRates` has it by default."""


def rewrite_first_layer(graph: Graph, variant: Variant) -> Graph:
    """Feed convolutions over images from the host with pixel streams instead of blocks. Exact.

    With three channels, 13 of 16 lanes would be zeros. The host omits those lanes when it permutes
    the image, and interleaves the rows that a stride joins (space to depth). LOAD reads the stream
    once from every beat, so a window begins at a scratchpad row or a few elements after it. Each
    such offset has its own weights. The numbers of interleaved rows and of channels are chosen for
    the fewest cycles, of the multipliers or of the transfers, whichever is more.

    Before::

        x.blocked = pack(x) batch=1 block=16              # int8[1,3,224,224]:NCHW1n16c
        y = q_conv2d(x.blocked, w.blocked, p.blocked) ...

    After::

        x.stream = pack_stream(x) channels=3 group_rows=2 ...
        y = q_conv2d(x.stream, w.stream, p.blocked) ...

    Convolutions with groups or dilations stay, and so do images with other readers.
    """
    return rewrite(graph, {"q_conv2d": lambda graph, node: _stream(graph, node, variant)})


def _stream(graph: Rewriter, node: Node, variant: Variant) -> None:
    found = _choose(graph, node, variant)
    if found is None:
        return
    x, w, params = node.inputs
    (image,) = graph.producers[x].inputs
    attrs = asdict(found.stream)
    stream = graph.add_fresh("pack_stream", [image], attrs, base=f"{image}.stream")
    kind = graph.types[w]
    outs, ins = kind.shape[:2]
    logical = kind.layout.unpack(graph.constant(w))[:outs, :ins]
    base, layout = f"{w.removesuffix('.blocked')}.stream", found.weights
    weights = graph.fresh_constant(base, layout.pack(logical), kind.with_layout(layout))
    graph.replace(node, [stream, weights, params])


@dataclass(frozen=True)
class _Candidate:
    """A layout of image and weights, and its cost."""

    stream: RowStream
    weights: RowStreamWeightLayout
    products: int
    beats: int
    image_elements: int  # of one copy

    @property
    def cost(self) -> tuple[int, int, int]:
        """Cycles, then weights, then instructions. An eighth of the overlap is assumed lost. The
        host's time for further copies counts, too."""
        cycles = max(self.products, self.beats) + min(self.products, self.beats) // 8
        cycles += (self.stream.copies - 1) * self.image_elements // COPIED_PER_CYCLE
        return (cycles, self.weights.phases, self.weights.period)


def _choose(graph: Dataflow, node: Node, variant: Variant) -> _Candidate | None:
    """The best layouts for a convolution that reads an image from the host, or None."""
    if not _applies(graph, node):
        return None
    image = graph.types[graph.producers[node.inputs[0]].inputs[0]]
    plain = _blocked_products(graph, node)
    output = graph.types[node.output]
    candidates = [
        _candidate(stream, weights, image, output, variant)
        for stream, weights in _layouts(graph, node, image, variant)
    ]
    found = [item for item in candidates if _fits(item, output, variant) and item.products < plain]
    sizes = [item.image_elements for item in found]
    most, least = HOST_GROWTH
    limit = max(image.num_elements * most // least, min(sizes, default=0))
    small = [item for item in found if item.image_elements <= limit]
    return min(small, key=lambda item: item.cost, default=None)


def _applies(graph: Dataflow, node: Node) -> bool:
    x, w, _ = node.inputs
    return (
        sole_producer(graph, x, ("pack",)) is not None
        and isinstance(graph.types[w].layout, WeightLayout)
        and whole(node.attrs, "groups") == 1
        and ints(node.attrs, "dilations") == (1, 1)
    )


def _blocked_products(graph: Dataflow, node: Node) -> int:
    """Products of the layer before the rewrite: a block of channels for every tap."""
    outs, ins, kh, kw, _, _ = graph.types[node.inputs[1]].physical_shape
    n, _, height, width, _, _ = graph.types[node.output].physical_shape
    return n * height * width * outs * ins * kh * kw


def _layouts(
    graph: Dataflow, node: Node, image: TensorType, variant: Variant
) -> Iterator[tuple[RowStream, RowStreamWeightLayout]]:
    """All possible layouts of the image and the weights of a convolution."""
    array = variant.array
    top, left, _, _ = ints(node.attrs, "pads")
    down, stride = ints(node.attrs, "strides")
    kernel = graph.types[node.inputs[1]].shape[2:]
    *_, width, _, block = graph.types[node.output].physical_shape
    heights = [rows for rows in range(1, down + 1) if down % rows == 0]
    for (beat, copies), group_rows in product(_steps(variant), heights):
        for channels in range(image.shape[1], array.block_in + 1):
            weights = RowStreamWeightLayout(
                block_out=array.block_out,
                lanes=array.block_in,
                block=block,
                channels=channels,
                group_rows=group_rows,
                stride=stride,
                beat=beat,
                kernel=(kernel[0], kernel[1]),
            )
            stream = RowStream(
                batch=array.batch,
                lanes=array.block_in,
                channels=channels,
                group_rows=group_rows,
                pad_top=top % group_rows,
                pad_left=left,
                num_rows=weights.stream_rows(width),
                pad_value=whole(node.attrs, "pad_value"),
                copies=copies,
            )
            yield stream, weights


def _candidate(
    stream: RowStream,
    weights: RowStreamWeightLayout,
    image: TensorType,
    output: TensorType,
    variant: Variant,
) -> _Candidate:
    """The cost of these layouts if every byte of the image is loaded once into every plane."""
    pads = scratchpads(variant)
    inp, wgt, out = (
        pads[memory].row_beats(variant) for memory in (Memory.INP, Memory.WGT, Memory.OUT)
    )
    held = stream.physical_shape(image.shape)
    blocks, out_blocks, height, width, _, block = output.physical_shape
    out_vectors = out_blocks * block // weights.block_out
    vectors = blocks * out_vectors * height * width
    window = weights.groups * weights.vectors
    planes = weights.lanes // weights.beat
    loads = math.prod(held[:3]) * planes // stream.copies
    return _Candidate(
        stream,
        weights,
        products=vectors * window,
        beats=loads * inp + out_vectors * weights.phases * window * wgt + vectors * out,
        image_elements=math.prod(held) // stream.copies,
    )


def _steps(variant: Variant) -> list[tuple[int, int]]:
    """Elements at a multiple of which a row can begin, and the copies of the stream for that.

    LOAD can begin a row at a bus word; where this is a whole row, in each copy elsewhere.
    """
    array, word = variant.array, variant.bus_bytes * 8 // variant.array.input_bits
    if array.batch == 1 and word < array.block_in:
        return [(word, 1)]
    lanes = array.block_in
    return [(lanes // copies, copies) for copies in COPIES if lanes % copies == 0]


def rows_for_streams(graph: Graph, variant: Variant) -> list[tuple[int, int, int]]:
    """Rows that each candidate of `rewrite_first_layer` needs: of INP, of WGT, and of both ACC and
    OUT; it depends on no other size of a scratchpad."""
    found = []
    for node in graph.nodes:
        if node.op == "q_conv2d" and _applies(graph, node):
            image = graph.types[graph.producers[node.inputs[0]].inputs[0]]
            output = graph.types[node.output]
            for _, weights in _layouts(graph, node, image, variant):
                found.append(_rows(weights, output))
    return found


def _rows(weights: RowStreamWeightLayout, output: TensorType) -> tuple[int, int, int]:
    """Rows of one block of outputs and one period of windows: INP, WGT, both ACC and OUT."""
    planes = weights.lanes // weights.beat
    windows = min(weights.period, output.shape[3])
    parts = weights.block // weights.block_out
    rows = planes * weights.groups * weights.stream_rows(windows)
    weight_rows = parts * weights.phases * weights.groups * weights.vectors
    return rows, weight_rows, parts * windows


def _fits(item: _Candidate, output: TensorType, variant: Variant) -> bool:
    """Whether one block of outputs and one period of windows fit the scratchpads."""
    pads = scratchpads(variant)
    rows, weight_rows, result_rows = _rows(item.weights, output)
    return (
        rows <= pads[Memory.INP].depth_rows
        and weight_rows <= pads[Memory.WGT].depth_rows
        and result_rows <= min(pads[Memory.ACC].depth_rows, pads[Memory.OUT].depth_rows)
    )
