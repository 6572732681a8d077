"""The accelerator's schedule of a convolution.

Output channels, rows and, where a row is too long, columns are tiled; input channels are cut where
the tile of the input or of the weights is too large. Weights stay while the map passes, or the map
stays while weights pass, whichever moves fewer bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["ConvShape", "ConvTile", "choose_tile", "schedule_conv2d"]

INSTRUCTION_CYCLES = 16
"""What an instruction costs beyond its work, about: decoding, tokens, the pipeline's fill."""


@dataclass(frozen=True)
class ConvShape:
    """What the choice of tiles depends on: blocks of channels, the output map, the window.

    A block of channels is `in_parts` input rows and `out_parts` accumulator rows per pixel.
    """

    batches: int
    out_blocks: int
    in_blocks: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    in_parts: int = 1
    out_parts: int = 1

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        strides: tuple[int, int],
        dilations: tuple[int, int],
    ) -> "ConvShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d`."""
        batches, out_blocks, height, width, out_parts, _, _ = y.shape
        return cls(
            batches,
            out_blocks,
            x.shape[1],
            height,
            width,
            (w.shape[2], w.shape[3]),
            strides,
            dilations,
            x.shape[4],
            out_parts,
        )

    @property
    def weight_rows(self) -> int:
        """Weight rows that join one block of input channels to one of output channels."""
        return self.kernel[0] * self.kernel[1] * self.in_parts * self.out_parts

    def input_rows(self, height: int, width: int) -> int:
        """Input rows of one block under a tile of the output."""
        reach = [
            (size - 1) * stride + (kernel - 1) * dilation + 1
            for size, stride, kernel, dilation in zip(
                (height, width), self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        return reach[0] * reach[1] * self.in_parts


@dataclass(frozen=True)
class ConvTile:
    """Tile sizes in blocks and pixels; `keep_weights` puts the loop over the map inside."""

    out_blocks: int
    height: int
    width: int
    in_blocks: int
    keep_weights: bool


def choose_tile(shape: ConvShape, variant: Variant) -> ConvTile:
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
    pads = scratchpads(variant)
    need = shape.input_rows(1, 1) * pads[Memory.INP].row_bytes
    raise ScheduleError(
        f"a convolution's window must fit scratchpad 'inp' ({variant.memory.inp_bytes} bytes) and "
        f"its weights 'wgt'; one window of {shape.kernel[0]}x{shape.kernel[1]} takes {need} bytes; "
        "use a variant with larger scratchpads"
    )


def _fitting(shape: ConvShape, capacity: Capacity) -> Iterator[ConvTile]:
    maps = [(height, shape.width) for height in tile_sizes(shape.height)]
    maps += [(1, width) for width in tile_sizes(shape.width)[1:]]
    for height, width in maps:
        for out_blocks in tile_sizes(shape.out_blocks):
            rows = out_blocks * shape.out_parts * height * width
            if rows > min(capacity.acc, capacity.out):
                continue
            if out_blocks * shape.out_parts > capacity.par:
                continue
            for in_blocks in tile_sizes(shape.in_blocks):
                if in_blocks * shape.input_rows(height, width) > capacity.inp:
                    continue
                if in_blocks * out_blocks * shape.weight_rows > capacity.wgt:
                    continue
                for keep_weights in (True, False):
                    yield ConvTile(out_blocks, height, width, in_blocks, keep_weights)


def _cycles(shape: ConvShape, tile: ConvTile, variant: Variant) -> float:
    """The busier of the multipliers and the bus, and the overhead of instructions."""
    pads = scratchpads(variant)
    outs = -(-shape.out_blocks // tile.out_blocks)
    maps = -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches
    steps = -(-shape.in_blocks // tile.in_blocks)
    pixels = shape.height * shape.width * shape.batches
    products = pixels * shape.out_blocks * shape.in_blocks * shape.weight_rows
    once = steps == 1
    input_loads = maps * (1 if once and not tile.keep_weights else outs)
    weight_loads = outs * (1 if once and tile.keep_weights else maps)
    beats = (
        input_loads
        * shape.in_blocks
        * shape.input_rows(tile.height, tile.width)
        * pads[Memory.INP].row_beats(variant)
    )
    beats += (
        weight_loads
        * min(tile.out_blocks, shape.out_blocks)
        * shape.in_blocks
        * shape.weight_rows
        * pads[Memory.WGT].row_beats(variant)
    )
    vectors = pixels * shape.out_blocks * shape.out_parts
    beats += vectors * pads[Memory.OUT].row_beats(variant)
    # What comes before the first product and after the last one overlaps with nothing.
    vector_cycles = variant.array.batch * variant.array.block_out // variant.units.requantize_lanes
    first = beats / (outs * maps * steps)
    last = tile.out_blocks * shape.out_parts * tile.height * tile.width
    last *= vector_cycles + pads[Memory.OUT].row_beats(variant)
    overhead = INSTRUCTION_CYCLES * outs * maps * (3 * steps + 2)
    return max(products, beats) + first + last + overhead


def schedule_conv2d(func: PrimFunc, shape: ConvShape, variant: Variant) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.conv2d` for the accelerator."""
    tile = choose_tile(shape, variant)
    sch = Schedule(func, accelerator_intrinsics(variant))
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
    sch.set_scope(acc, 0, "acc")
    n, oc, h, w, u, b, o = sch.get_loops(store)
    oc_0, oc_1 = sch.split(oc, [None, tile.out_blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    outer = (oc_0, n, h_0, w_0) if tile.keep_weights else (n, h_0, w_0, oc_0)
    sch.reorder(*outer, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, outer[-1])
    sch.compute_at(acc, outer[-1])
    n, oc, h, w, u, b, o, ic, kh, kw, iu, i = sch.get_loops(acc)[len(outer) :]
    ic_0, ic_1 = sch.split(ic, [None, tile.in_blocks])
    sch.reorder(ic_0, n, oc, h, w, u, ic_1, kh, kw, iu, b, o, i)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = sch.cache_read(acc, "x", "inp")
    params = sch.cache_read(y, "params", "par")
    whole = tile.in_blocks >= shape.in_blocks
    sch.compute_at(params, oc_0)
    sch.compute_at(weights, oc_0 if whole and tile.keep_weights else ic_0)
    sch.compute_at(inputs, w_0 if whole and not tile.keep_weights else ic_0)
    sch.tensorize(b, "gemm")
    sch.tensorize(sch.get_loops(y)[-2], "requantize")
    for block, dims, intrin in (
        (weights, 6, "load"),
        (inputs, 7, "load"),
        (params, 3, "load"),
        (store, 6, "store"),
    ):
        sch.tensorize(sch.get_loops(block)[-dims], intrin)
    return sch
