"""Lets a first layer with few channels compute several taps of its window in one product."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import WeightLayout
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.stream_layout import RowStreamWeightLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.accelerator.conv.stream_shape import StreamShape
from daedal.compiler.ops.accelerator.conv.stream_space import StreamSpace
from daedal.compiler.ops.conv2d_stream import StreamWindow
from daedal.isa.memory_model import MemoryModel
from daedal.isa.row_stream import RowStream
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["chosen_streams", "rewrite_first_layer"]

HOST_GROWTH = (16, 12)
"""What the host may write of an image for each copy of its rows, as a share of its size. Where no
candidate keeps to it (the pads of small images weigh much), the smallest is the limit."""

COPIES = (1, 2, 4)

COPIED_PER_CYCLE = 8
"""Elements of further copies of rows that the host writes in a cycle, as `HostRates` has it by
default."""

LEAST_GAIN, LEAST_CYCLES = 0.06, 2_000
"""What other layouts must gain, as a share of the layer's cycles with the usual ones, and in
cycles: layers behind it, which are interleaved with the usual ones, may lose some, and estimates of
short layers are less exact."""

WORDS = 0.5
"""What a bus word of the layer costs beyond its own cycles, as a share of these: a pool behind it,
which runs at the same time, needs the bus, too."""


def rewrite_first_layer(graph: Graph, variant: Variant, memory: MemoryModel = DDR) -> Graph:
    """Feed convolutions over images from the host with pixel streams instead of blocks. Exact.

    With three channels, 13 of 16 lanes would be zeros. The host omits those lanes when it permutes
    the image, and interleaves rows: those that a stride joins (space to depth), or all rows of a
    window, which then has fewer elements that are not its own, although rows that several windows
    read are written several times. LOAD reads the stream once, or once from every beat, so a window
    begins at a scratchpad row or some elements after it. Each such offset has its own weights. The
    numbers of interleaved rows and of channels are chosen for the fewest cycles with `memory`.

    Before::

        x.blocked = pack(x) batch=1 block=16              # int8[1,3,224,224]:NCHW1n16c
        y = q_conv2d(x.blocked, w.blocked, p.blocked) ...

    After::

        x.stream = pack_stream(x) channels=3 group_rows=2 ...
        y = q_conv2d(x.stream, w.stream, p.blocked) ...

    Convolutions with groups or dilations stay, and so do images with other readers.
    """
    return rewrite(graph, {"q_conv2d": lambda graph, node: _stream(graph, node, variant, memory)})


def _stream(graph: Rewriter, node: Node, variant: Variant, memory: MemoryModel) -> None:
    found = _choose(graph, node, variant, memory)
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
    image_elements: int  # of one copy of each row
    copied_elements: int  # of all others
    at_words: bool  # whether a vector may begin at each bus word

    @property
    def is_usual(self) -> bool:
        """Whether rows are held once, and vectors begin wherever the bus allows it."""
        return not self.stream.group_step and self.at_words

    @property
    def form(self) -> tuple[int, ...]:
        """What candidates that differ only in channels have in common."""
        stream = self.stream
        return (self.weights.beat, stream.copies, stream.group_rows, stream.rows_down)

    @property
    def cost(self) -> tuple[int, int, int]:
        """Cycles, without those of words that tiles load twice, then weights, then instructions. An
        eighth of the overlap is assumed lost. The host's time for further copies counts, too."""
        cycles = max(self.products, self.beats) + min(self.products, self.beats) // 8
        return (cycles + self.host_cycles, self.weights.phases, self.weights.period)

    @property
    def host_cycles(self) -> int:
        """The host's time for further copies."""
        return self.copied_elements // COPIED_PER_CYCLE


def _choose(
    graph: Dataflow, node: Node, variant: Variant, memory: MemoryModel
) -> _Candidate | None:
    """The best layouts for a convolution that reads an image from the host, or None.

    It is the usual one with the least `_Candidate.cost`, unless others are estimated to gain
    `LEAST_GAIN` with the fastest tiles, without more products; then it is the fastest of these. For
    small scratchpads, where tiles leave no space to load the next one meanwhile, such estimates are
    too low.
    """
    if not _applies(graph, node):
        return None
    image = graph.types[graph.producers[node.inputs[0]].inputs[0]]
    plain = _blocked_products(graph, node)
    output = graph.types[node.output]
    pads = scratchpads(variant)
    row_beats = {memory: pad.row_beats(variant) for memory, pad in pads.items()}
    candidates = [
        _candidate(stream, weights, image, output, row_beats)
        for stream, weights in _layouts(graph, node, image, variant)
    ]
    depths = {memory: pad.depth_rows for memory, pad in pads.items()}
    found = [item for item in candidates if item.products < plain and _fits(item, output, depths)]
    sizes = [item.image_elements for item in found if item.is_usual]
    most, least = HOST_GROWTH
    limit = max(image.num_elements * most // least, min(sizes, default=0))
    small = [item for item in found if item.image_elements <= limit]
    small.sort(key=lambda item: item.cost)
    usual = next((item for item in small if item.is_usual), None)
    best: dict[tuple[int, ...], _Candidate] = {}
    for item in small:
        if not item.is_usual:
            best.setdefault(item.form, item)

    if usual is None or not best:
        return usual
    space = _space(usual, node, output, variant)
    before, words = _cycles_and_words(space, memory)
    highest = before + WORDS * words + usual.host_cycles
    chosen, fewest = usual, math.inf
    for item in best.values():
        space = _space(item, node, output, variant)
        if item.products > usual.products or space.share == 1:
            continue
        cycles, words = _cycles_and_words(space, memory)
        total = cycles + WORDS * words + item.host_cycles
        gain = before - cycles
        gains = gain >= max(LEAST_GAIN * before, LEAST_CYCLES) and total < highest
        if gains and cycles + item.host_cycles < fewest:
            chosen, fewest = item, cycles + item.host_cycles
    return chosen


def _cycles_and_words(space: StreamSpace, memory: MemoryModel) -> tuple[float, float]:
    """Estimated cycles of the default tiles, and those of their bus words alone; infinite where
    there are no tiles."""
    try:
        table = space.table([space.default_with(memory)])
    except ScheduleError:
        return math.inf, math.inf
    words = float(space.features(table)["beats"][0]) * MemoryCost.of(memory).word_cycles
    return float(space.cycles_with(table, memory)[0]), words


def _space(item: _Candidate, node: Node, output: TensorType, variant: Variant) -> StreamSpace:
    """The schedules of the layer with a candidate's layouts."""
    blocks, out_blocks, height, width, _, block = output.physical_shape
    stream, weights = item.stream, item.weights
    shape = StreamShape(
        batches=blocks,
        out_blocks=out_blocks,
        out_parts=block // weights.block_out,
        window=StreamWindow.of(
            stream,
            weights,
            down=ints(node.attrs, "strides")[0],
            pad_top=ints(node.attrs, "pads")[0],
            extent=(height, width),
        ),
        planes=weights.lanes // weights.beat,
        lanes=weights.lanes,
        weight_rows=weights.phases * weights.groups * weights.vectors,
        groups=weights.groups,
        vectors=weights.vectors,
    )
    return StreamSpace(shape, variant)


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
    heights = [(rows, rows) for rows in range(1, down + 1) if down % rows == 0]
    if top < kernel[0] > down:
        heights.append((kernel[0], down))
    for (beat, copies), (group_rows, rows_down) in product(_steps(variant), heights):
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
                group_step=rows_down if rows_down < group_rows else 0,
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
    row_beats: Mapping[Memory, int],
) -> _Candidate:
    """The cost of these layouts if every byte of the image is loaded once into every plane."""
    inp, wgt, out = (row_beats[memory] for memory in (Memory.INP, Memory.WGT, Memory.OUT))
    held = stream.physical_shape(image.shape)
    blocks, out_blocks, height, width, _, block = output.physical_shape
    out_vectors = out_blocks * block // weights.block_out
    vectors = blocks * out_vectors * height * width
    window = weights.groups * weights.vectors
    counts = weights.vectors_by_phase
    row = weights.groups * sum(counts[column % len(counts)] for column in range(width))
    planes = weights.lanes // weights.beat
    loads = math.prod(held[:3]) * planes // stream.copies
    elements = math.prod(held)
    once = elements * stream.rows_down // (stream.copies * stream.group_rows)
    return _Candidate(
        stream,
        weights,
        products=vectors // width * row,
        beats=loads * inp + out_vectors * weights.phases * window * wgt + vectors * out,
        image_elements=once,
        copied_elements=elements - once,
        at_words=stream.copies > 1 or weights.beat < weights.lanes or row_beats[Memory.INP] == 1,
    )


def _steps(variant: Variant) -> list[tuple[int, int]]:
    """Elements at a multiple of which a row can begin, and the copies of the stream for that.

    LOAD can begin a row at a bus word, although the stream is then loaded from each; where this is
    a whole row, in each copy elsewhere.
    """
    array, word = variant.array, variant.bus_bytes * 8 // variant.array.input_bits
    lanes = array.block_in
    if array.batch == 1 and word < lanes:
        return [(word, 1), (lanes, 1)]
    return [(lanes // copies, copies) for copies in COPIES if lanes % copies == 0]


def chosen_streams(
    graph: Graph, variant: Variant, memory: MemoryModel = DDR
) -> tuple[RowStream | None, ...]:
    """What `rewrite_first_layer` chooses for each convolution over an image. Of the scratchpads, it
    depends on the rows of INP, of WGT, of PAR, of ACC and of OUT, and on the lanes of the ALU."""
    found = []
    for node in graph.nodes:
        if node.op == "q_conv2d" and _applies(graph, node):
            chosen = _choose(graph, node, variant, memory)
            found.append(None if chosen is None else chosen.stream)
    return tuple(found)


def _rows(weights: RowStreamWeightLayout, output: TensorType) -> tuple[int, int, int]:
    """Rows of one block of outputs and one period of windows: INP, WGT, both ACC and OUT."""
    planes = weights.lanes // weights.beat
    windows = min(weights.period, output.shape[3])
    parts = weights.block // weights.block_out
    rows = planes * weights.groups * weights.stream_rows(windows)
    weight_rows = parts * weights.phases * weights.groups * weights.vectors
    return rows, weight_rows, parts * windows


def _fits(item: _Candidate, output: TensorType, depths: Mapping[Memory, int]) -> bool:
    """Whether one block of outputs and one period of windows fit the scratchpads."""
    rows, weight_rows, result_rows = _rows(item.weights, output)
    return (
        rows <= depths[Memory.INP]
        and weight_rows <= depths[Memory.WGT]
        and result_rows <= min(depths[Memory.ACC], depths[Memory.OUT])
    )
