"""Memory layouts of graph tensors: how a logical shape becomes the order of elements in memory.

The logical shape of a type does not depend on its layout; `Layout.physical_shape` is the shape of
the array that holds it. Blocked layouts exist for the accelerator: one scratchpad row is one
innermost (batch x block) or (block_out x block_in) tile, so a tile of a tensor is one strided load.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.isa.tensor import filled_pixels

__all__ = [
    "MAP_RANK",
    "PLAIN",
    "ActivationLayout",
    "DepthwiseLayout",
    "Layout",
    "PixelLayout",
    "PlainLayout",
    "WeightLayout",
]

Array = npt.NDArray[Any]

MAP_RANK = 4
"""Axes of a map: images, channels, height, width."""


class Layout:
    """The arrangement in memory of the elements of a tensor."""

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the array that holds a tensor of logical `shape`."""
        raise NotImplementedError

    def pack(self, array: Array) -> Array:
        """Rearrange a logical array into this layout; padding elements are zero."""
        raise NotImplementedError

    def unpack(self, array: Array) -> Array:
        """Inverse of `pack`, with the padded extents kept: the caller crops to the shape."""
        raise NotImplementedError


@dataclass(frozen=True)
class PlainLayout(Layout):
    """Row-major in the order of the logical shape."""

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def pack(self, array: Array) -> Array:
        return array

    def unpack(self, array: Array) -> Array:
        return array

    def __str__(self) -> str:
        return "plain"


PLAIN = PlainLayout()


@dataclass(frozen=True)
class ActivationLayout(Layout):
    """Logical (N, C, H, W) held as (N/batch, C/block, H, W, batch, block).

    `block` is max(block_in, block_out) of the variant, so that the output of one operator is the
    input of the next without a copy.
    """

    batch: int
    block: int

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n, c, h, w = shape
        return (-(-n // self.batch), -(-c // self.block), h, w, self.batch, self.block)

    def pack(self, array: Array) -> Array:
        nb, cb, h, w, batch, block = self.physical_shape(array.shape)
        padded = _pad_to(array, (nb * batch, cb * block, h, w))
        split = padded.reshape(nb, batch, cb, block, h, w)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))

    def unpack(self, array: Array) -> Array:
        nb, cb, h, w, batch, block = array.shape
        return array.transpose(0, 4, 1, 5, 2, 3).reshape(nb * batch, cb * block, h, w)

    def __str__(self) -> str:
        return f"NCHW{self.batch}n{self.block}c"


@dataclass(frozen=True)
class PixelLayout(ActivationLayout):
    """Logical (N, C, P, 1) held as (N, C/block, P/batch, 1, batch, block): consecutive pixels of
    an image share a row. P is filled up to whole blocks."""

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n, c, h, w = shape
        pixels = filled_pixels(h * w, self.batch, self.block)
        return (n, -(-c // self.block), pixels // self.batch, 1, self.batch, self.block)

    def pack(self, array: Array) -> Array:
        n, cb, rows, _, batch, block = self.physical_shape(array.shape)
        padded = _pad_to(array, (n, cb * block, rows * batch, 1))
        split = padded.reshape(n, cb, block, rows, 1, batch)
        return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 5, 2))

    def unpack(self, array: Array) -> Array:
        n, cb, rows, _, batch, block = array.shape
        return array.transpose(0, 1, 5, 2, 4, 3).reshape(n, cb * block, rows * batch, 1)

    def __str__(self) -> str:
        return f"NCP{self.batch}p{self.block}c"


@dataclass(frozen=True)
class WeightLayout(Layout):
    """Logical (O, I, KH, KW) held as (OB, IB, KH, KW, block_out, block_in).

    O and I are both padded with zeros to a multiple of max(block_in, block_out), the block of the
    activations on either side; then OB = padded O / block_out and IB = padded I / block_in.
    """

    block_out: int
    block_in: int

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        o, i, kh, kw = shape
        block = max(self.block_out, self.block_in)
        outs, ins = -(-o // block) * block, -(-i // block) * block
        bo, bi = self.block_out, self.block_in
        return (outs // bo, ins // bi, kh, kw, bo, bi)

    def pack(self, array: Array) -> Array:
        ob, ib, kh, kw, bo, bi = self.physical_shape(array.shape)
        padded = _pad_to(array, (ob * bo, ib * bi, kh, kw))
        split = padded.reshape(ob, bo, ib, bi, kh, kw)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))

    def unpack(self, array: Array) -> Array:
        ob, ib, kh, kw, bo, bi = array.shape
        return array.transpose(0, 4, 1, 5, 2, 3).reshape(ob * bo, ib * bi, kh, kw)

    def __str__(self) -> str:
        return f"OIHW{self.block_out}o{self.block_in}i"


@dataclass(frozen=True)
class DepthwiseLayout(Layout):
    """Logical (C, 1, KH, KW) held as (C/block, KH, KW/taps, taps, block).

    The `taps` channel vectors that one product of the depthwise mode takes are adjacent. C is
    padded with zeros to a multiple of `block`, KW to one of `taps`.
    """

    kernel: tuple[int, int]
    block: int
    taps: int = 1

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        c, _, kh, kw = shape
        assert (kh, kw) == self.kernel, "the layout was made for another kernel"
        return (-(-c // self.block), kh, -(-kw // self.taps), self.taps, self.block)

    def pack(self, array: Array) -> Array:
        cb, kh, groups, taps, block = self.physical_shape(array.shape)
        padded = _pad_to(array[:, 0], (cb * block, kh, groups * taps))
        split = padded.reshape(cb, block, kh, groups, taps)
        return np.ascontiguousarray(split.transpose(0, 2, 3, 4, 1))

    def unpack(self, array: Array) -> Array:
        cb, kh, groups, taps, block = array.shape
        rows = array.transpose(0, 4, 1, 2, 3).reshape(cb * block, 1, kh, groups * taps)
        return rows[..., : self.kernel[1]]

    def __str__(self) -> str:
        return f"CHW{self.taps}t{self.block}c"


def _pad_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Append zeros to every axis up to `shape`."""
    return np.pad(array, [(0, want - have) for have, want in zip(array.shape, shape, strict=True)])
