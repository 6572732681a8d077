"""The accelerator's schedule of a convolution over streams (`daedal.compiler.ops.conv2d_stream`).

Output channels, rows and, if a row is too long, columns are tiled. All weights of a tile's channels
stay on chip while the map is streamed. Windows that begin at the same position of a scratchpad row
(every `period`-th one) form one GEMM instruction.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.fused_tail import (
    NO_TAIL,
    FusedTail,
    cache_params,
    place_tail,
    tensorize_tail,
)
from daedal.compiler.ops.conv2d_stream import StreamWindow
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["StreamShape", "StreamTile", "choose_stream_tile", "schedule_conv2d_stream"]

TILE_CYCLES = 16
"""What a tile costs beyond its work, about: tokens, latencies that do not overlap."""


@dataclass(frozen=True)
class StreamShape:
    """Parameters that determine the choice of tiles.

    Parameters
    ----------
    batches, out_blocks, out_parts : blocks of images and output channels; vectors of a block.
    window : the movement of windows; its extent is the output map.
    planes, lanes : of the stream.
    weight_rows : rows of weights for one output vector.
    groups, vectors : row groups of a window, and vectors in each.
    tail : the fused operator.
    """

    batches: int
    out_blocks: int
    out_parts: int
    window: StreamWindow
    planes: int
    lanes: int
    weight_rows: int
    groups: int
    vectors: int
    tail: FusedTail = NO_TAIL

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        window: StreamWindow,
        tail: FusedTail = NO_TAIL,
    ) -> "StreamShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d_stream`."""
        _, phases, groups, vectors, _, lanes = w.shape
        return cls(
            batches=y.shape[0],
            out_blocks=y.shape[1],
            out_parts=y.shape[4],
            window=window,
            planes=x.shape[1],
            lanes=lanes,
            weight_rows=phases * groups * vectors,
            groups=groups,
            vectors=vectors,
            tail=tail,
        )

    @property
    def period(self) -> int:
        """Number of windows after which one begins at a scratchpad row again."""
        return next(
            count
            for count in range(1, self.lanes + 1)
            if count * self.window.step % self.lanes == 0
        )

    def input_rows(self, height: int, width: int) -> int:
        """Input rows that a tile of the output reads."""
        groups = (height - 1) * self.window.groups_down + self.groups
        reach = ((width - 1) * self.window.step + self.lanes - 1) // self.lanes
        return self.planes * groups * (reach + self.vectors)


@dataclass(frozen=True)
class StreamTile:
    """Blocks of output channels, rows, and columns: all, or a multiple of the period."""

    out_blocks: int
    height: int
    width: int


def choose_stream_tile(shape: StreamShape, variant: Variant) -> StreamTile:
    """The tile with the fewest estimated cycles, of those that fit twice (or once, if none does).

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    for share in (2, 1):
        tiles = list(_fitting(shape, Capacity(variant, share)))
        if tiles:
            return min(tiles, key=lambda tile: _cycles(shape, tile, variant))
    rows = shape.input_rows(1, min(shape.period, shape.window.extent[1]))
    raise ScheduleError(
        f"the window of a convolution over a stream must fit scratchpad 'inp' "
        f"({variant.memory.inp_bytes} bytes) and its weights 'wgt'; the smallest tile takes "
        f"{rows * scratchpads(variant)[Memory.INP].row_bytes} bytes and {shape.weight_rows} rows; "
        "use a variant with larger scratchpads"
    )


def _fitting(shape: StreamShape, capacity: Capacity) -> Iterator[StreamTile]:
    rows, columns = shape.window.extent
    periods = -(-columns // shape.period)
    maps = [(height, columns) for height in tile_sizes(rows)]
    maps += [(1, count * shape.period) for count in tile_sizes(periods)[1:]]
    for out_blocks in tile_sizes(shape.out_blocks):
        vectors = out_blocks * shape.out_parts
        if (
            vectors + shape.tail.requantizes > capacity.par
            or vectors * shape.weight_rows > capacity.wgt
        ):
            continue
        for height, width in maps:
            held = min(capacity.acc // (1 + shape.tail.rows), capacity.out)
            fits = vectors * height * width <= held
            if fits and shape.input_rows(height, width) <= capacity.inp:
                yield StreamTile(out_blocks, height, width)


def _cycles(shape: StreamShape, tile: StreamTile, variant: Variant) -> float:
    """Cycles of the busier of multipliers and bus, plus what does not overlap.

    The bus also carries instructions; a tile has one for each window in a period. Not overlapped
    are the input of a tile before the first product, and its requantization and store after the
    last one.
    """
    pads = scratchpads(variant)
    inp, wgt, out = (
        pads[memory].row_beats(variant) for memory in (Memory.INP, Memory.WGT, Memory.OUT)
    )
    rows, columns = shape.window.extent
    outs = -(-shape.out_blocks // tile.out_blocks)
    tiles = outs * shape.batches * -(-rows // tile.height) * -(-columns // tile.width)
    vectors = shape.batches * rows * columns * shape.out_blocks * shape.out_parts
    products = vectors * shape.groups * shape.vectors
    tile_input = shape.input_rows(tile.height, tile.width) * inp
    instructions = tiles * (min(shape.period, columns) + 3)
    beats = tiles * tile_input + shape.out_blocks * shape.out_parts * shape.weight_rows * wgt
    beats += (
        vectors * (out + shape.tail.loads * inp)
        + instructions * instruction_bytes(variant) // variant.bus_bytes
    )
    finish = shape.tail.vector_cycles(variant)
    last = tile.out_blocks * shape.out_parts * tile.height * tile.width * (finish + out)
    return max(products + tile_input, beats, vectors * finish) + last + TILE_CYCLES * tiles


def schedule_conv2d_stream(func: PrimFunc, shape: StreamShape, variant: Variant) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.conv2d_stream` for the accelerator."""
    tile = choose_stream_tile(shape, variant)
    sch = Schedule(func, accelerator_intrinsics(variant))
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
    sch.set_scope(acc, 0, "acc")
    n, oc, h, w, u, b, o = sch.get_loops(store)
    oc_0, oc_1 = sch.split(oc, [None, tile.out_blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    sch.reorder(oc_0, n, h_0, w_0, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    requantized = place_tail(sch, w_0)
    sch.compute_at(acc, w_0)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = sch.cache_read(acc, "x", "inp")
    all_params = cache_params(sch, y, requantized)
    for params in all_params:
        sch.compute_at(params, oc_0)
    sch.compute_at(weights, oc_0)
    sch.compute_at(inputs, w_0)
    n, oc, h, w, u, b, o, g, j, i = sch.get_loops(acc)[4:]
    w, phase = sch.split(w, [None, shape.period])
    sch.reorder(phase, n, oc, h, w, u, g, j, b, o, i)
    sch.tensorize(b, "gemm")
    tensorize_tail(sch)
    # A LOAD for each phase: products of the first one need not wait for the weights of the others.
    oc, phase = sch.get_loops(weights)[-6:-4]
    sch.reorder(phase, oc)
    for block, dims, intrin in (
        (weights, 5, "load"),
        (inputs, 6, "load"),
        *((params, 3, "load") for params in all_params),
        (store, 6, "store"),
    ):
        sch.tensorize(sch.get_loops(block)[-dims], intrin)
    return sch
