"""Tiles of a convolution: what stays on chip, and the choice with the fewest estimated cycles.

Input: the shape of a convolution and a variant. Output: `ConvTile`, which
`daedal.compiler.ops.accelerator.conv2d` turns into a schedule.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["ConvShape", "ConvTile", "choose_tile", "ranked_tiles"]

TRANSFER_CYCLES = 100
"""From the request of the first row to the first product, and from the last one to the end."""

INSTRUCTION_CYCLES = 4
"""What an instruction costs where units wait for each other: decoding, tokens."""


@dataclass(frozen=True)
class ConvShape:
    """What the choice of tiles depends on: blocks of channels, the output map, the window.

    A block of channels is `in_parts` input rows and `out_parts` accumulator rows per pixel. With
    `groups` the batches are images times groups, and the blocks those of one group.
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
    groups: int = 1

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        strides: tuple[int, int],
        dilations: tuple[int, int],
    ) -> "ConvShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d`.

        Windows one row high leave no rows between them on chip.
        """
        batches, out_blocks, height, width, out_parts, _, _ = y.shape
        return cls(
            batches,
            out_blocks,
            x.shape[1],
            height,
            width,
            (w.shape[2], w.shape[3]),
            (1 if w.shape[2] == 1 else strides[0], strides[1]),
            dilations,
            x.shape[4],
            out_parts,
            w.shape[0] // (out_blocks * out_parts),
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
    """Sizes in blocks and pixels, and what stays while the rest passes.

    Parameters
    ----------
    height, width : of a tile of the output map.
    out_blocks : output blocks that are accumulated at once.
    in_blocks : input blocks of one step of the reduction: one LOAD and one GEMM each.
    group : output blocks whose weights stay on chip while all tiles of the map pass; 0 where
        weights are loaded for each tile anew.
    keep_inputs : whether all input blocks of a tile stay while the output blocks pass.
    threads : virtual threads, each with the next output blocks of one tile. The linker's renaming
        interleaves tiles without them; where it is off, only threads do.
    """

    height: int
    width: int
    out_blocks: int
    in_blocks: int
    group: int
    keep_inputs: bool
    threads: int = 1


def choose_tile(shape: ConvShape, variant: Variant) -> ConvTile:
    """The first of `ranked_tiles`. Raises ScheduleError as that does."""
    return ranked_tiles(shape, variant)[0]


def ranked_tiles(shape: ConvShape, variant: Variant, *, overlap: bool = True) -> list[ConvTile]:
    """Every tile that fits, the one with the fewest estimated cycles first.

    With `overlap` a tile leaves room for the next one to be loaded beside it, unless none does.
    Without, units work one after the other, and a tile may take whole scratchpads.

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    capacity = Capacity(variant, 1)
    tiles = list(_fitting(shape, capacity, 2)) if overlap else []
    tiles = tiles or list(_fitting(shape, capacity, 1))
    if tiles:
        cost = _Cost(shape, variant, overlap)
        return sorted(tiles, key=lambda tile: (cost.cycles(tile), _grain(tile)))
    pads = scratchpads(variant)
    need = shape.input_rows(1, 1) * pads[Memory.INP].row_bytes
    raise ScheduleError(
        f"a convolution's window must fit scratchpad 'inp' ({variant.memory.inp_bytes} bytes) and "
        f"its weights 'wgt'; one window of {shape.kernel[0]}x{shape.kernel[1]} takes {need} bytes; "
        "use a variant with larger scratchpads"
    )


def _grain(tile: ConvTile) -> int:
    """Of tiles that cost the same, the one with the fewest instructions."""
    return -tile.height * tile.width * tile.out_blocks * tile.in_blocks


def _fitting(shape: ConvShape, capacity: Capacity, copies: int) -> Iterator[ConvTile]:
    maps = [(height, shape.width) for height in tile_sizes(shape.height)]
    maps += [(1, width) for width in tile_sizes(shape.width)[1:]]
    for height, width in maps:
        for out_blocks in tile_sizes(shape.out_blocks):
            rows = out_blocks * shape.out_parts * height * width * copies
            if rows > min(capacity.acc, capacity.out):
                continue
            if out_blocks * shape.out_parts * copies > capacity.par:
                continue
            for in_blocks in tile_sizes(shape.in_blocks):
                for group in _groups(shape, out_blocks):
                    for keep_inputs in (True, False):
                        tile = ConvTile(height, width, out_blocks, in_blocks, group, keep_inputs)
                        if _fits(shape, tile, capacity, copies):
                            yield tile


def _groups(shape: ConvShape, out_blocks: int) -> list[int]:
    """Multiples of `out_blocks` whose weights could stay, and 0 for none."""
    steps = -(-shape.out_blocks // out_blocks)
    return [0, *dict.fromkeys(out_blocks * size for size in tile_sizes(steps))]


def _fits(shape: ConvShape, tile: ConvTile, capacity: Capacity, copies: int) -> bool:
    """Whether what is on chip at once fits, with the next of each where there is a next one."""
    counts = _Counts(shape, tile)
    inputs = shape.input_rows(tile.height, tile.width)
    if tile.keep_inputs:
        inputs *= shape.in_blocks * (copies if counts.maps * counts.groups > 1 else 1)
    else:
        inputs *= tile.in_blocks * copies
    if tile.group:
        weights = tile.group * shape.in_blocks * (copies if counts.weights > 1 else 1)
    else:
        weights = tile.out_blocks * tile.in_blocks * copies
    return inputs <= capacity.inp and weights * shape.weight_rows <= capacity.wgt


class _Counts:
    """How often each level of a tile is executed."""

    def __init__(self, shape: ConvShape, tile: ConvTile) -> None:
        self.maps = -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches
        self.groups = -(-shape.out_blocks // tile.group) if tile.group else 1
        self.weights = self.groups * (shape.batches if shape.groups > 1 else 1)
        self.outs = -(-shape.out_blocks // tile.out_blocks)
        self.steps = -(-shape.in_blocks // tile.in_blocks)


class _Cost:
    """Estimated cycles of the tiles of one convolution."""

    def __init__(self, shape: ConvShape, variant: Variant, overlap: bool) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        self._overlap = overlap
        self._inp, self._wgt, self._out = (
            pads[memory].row_beats(variant) for memory in (Memory.INP, Memory.WGT, Memory.OUT)
        )
        lanes = variant.array.batch * variant.array.block_out
        self._vector_cycles = -(-lanes // variant.units.requantize_lanes)
        pixels = shape.height * shape.width * shape.batches
        self._vectors = pixels * shape.out_blocks * shape.out_parts
        self._weight_beats = shape.out_blocks * shape.in_blocks * shape.weight_rows * self._wgt
        self._products = pixels * shape.out_blocks * shape.in_blocks * shape.weight_rows

    def cycles(self, tile: ConvTile) -> float:
        """The busier of multipliers and bus, and what of the other nothing hides.

        What is loaded for the first tile of the map hides behind the products of that tile alone;
        before the first product there is one step's load, behind the last one a tile's
        requantization and store. Without overlap everything adds up.
        """
        shape, counts = self._shape, _Counts(self._shape, tile)
        rows = shape.input_rows(tile.height, tile.width)
        inputs = counts.maps * shape.in_blocks * rows * self._inp
        inputs *= counts.groups if tile.keep_inputs else counts.outs
        reloads = counts.weights // counts.groups if tile.group else counts.maps
        weights = self._weight_beats * reloads
        beats = inputs + weights + self._vectors * self._out
        instructions = counts.maps * counts.outs * (3 * counts.steps + 2)
        if not self._overlap:
            waits = counts.maps * counts.outs * (counts.steps + 2) * TRANSFER_CYCLES
            return beats + self._products + self._vectors * self._vector_cycles + waits
        passes = counts.maps * counts.groups
        first_beats = inputs / passes + weights / (counts.weights if tile.group else passes)
        first_products = self._products / passes
        begin = rows * self._inp + tile.out_blocks * shape.weight_rows * self._wgt
        last = tile.out_blocks * shape.out_parts * tile.height * tile.width
        return (
            tile.in_blocks * begin
            + max(first_products, first_beats)
            + max(self._products - first_products, beats - first_beats, 0)
            + last * (self._vector_cycles + self._out)
            + TRANSFER_CYCLES
            + INSTRUCTION_CYCLES * instructions
        )
