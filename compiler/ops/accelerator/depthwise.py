"""The accelerator's schedule of a depthwise convolution.

Blocks of channels, rows and columns are tiled. Weights and parameters come for several tiles of
channels at once; every tile of the map passes once, with the rows and columns around it that its
windows share with the neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.vectors import num_rows
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["DepthwiseShape", "DepthwiseTile", "choose_depthwise_tile", "schedule_depthwise"]


@dataclass(frozen=True)
class DepthwiseShape:
    """What the choice of tiles depends on: blocks of channels, the output map, the window.

    `window` counts the columns of zero weights that fill up the last product of a row.
    """

    batches: int
    blocks: int
    height: int
    width: int
    window: tuple[int, int]
    taps: int
    strides: tuple[int, int]
    dilations: tuple[int, int]
    input_height: int
    input_width: int

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        strides: tuple[int, int],
        dilations: tuple[int, int],
    ) -> "DepthwiseShape":
        """From the operands and the result of `daedal.compiler.ops.depthwise`."""
        batches, blocks, height, width, *_ = y.shape
        _, kh, groups, taps, _ = w.shape
        window = (kh, groups * taps)
        size = (x.shape[2], x.shape[3])
        return cls(batches, blocks, height, width, window, taps, strides, dilations, *size)

    @property
    def products(self) -> int:
        """Products for each vector of outputs."""
        return prod(self.window) // self.taps

    def input_size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns under a tile of the output, pads included."""
        first, second = (
            (size - 1) * stride + (kernel - 1) * dilation + 1
            for size, stride, kernel, dilation in zip(
                (height, width), self.strides, self.window, self.dilations, strict=True
            )
        )
        return first, second


@dataclass(frozen=True)
class DepthwiseTile:
    """Blocks of channels and pixels of a tile; `groups` tiles of channels share a load of weights."""

    blocks: int
    height: int
    width: int
    groups: int


def schedule_depthwise(
    func: PrimFunc, shape: DepthwiseShape, variant: Variant, tile: DepthwiseTile
) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.depthwise_conv2d` for the accelerator."""
    sch = Schedule(func, accelerator_intrinsics(variant))
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
    sch.set_scope(acc, 0, "acc")
    n, c, h, w, u, b, o = sch.get_loops(store)
    c_0, c_1, c_2 = sch.split(c, [None, tile.groups, tile.blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    sch.reorder(c_0, n, c_1, h_0, w_0, c_2, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    sch.compute_at(acc, w_0)
    n, c, h, w, u, b, o, kh, kg, kt = sch.get_loops(acc)[5:]
    sch.reorder(n, c, h, w, u, kh, kg, b, o, kt)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = sch.cache_read(acc, "x", "inp")
    params = sch.cache_read(y, "params", "par")
    sch.compute_at(params, c_0)
    sch.compute_at(weights, c_0)
    sch.compute_at(inputs, w_0)
    sch.tensorize(b, "gemm_depthwise" if shape.taps == 1 else "gemm_depthwise3")
    sch.tensorize(sch.get_loops(y)[-2], "requantize")
    for block, dims, intrin in (
        (weights, 5, "load"),
        (inputs, 7, "load"),
        (params, 3, "load"),
        (store, 6, "store"),
    ):
        sch.tensorize(sch.get_loops(block)[-dims], intrin)
    return sch
