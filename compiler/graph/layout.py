"""Memory layouts of graph tensors: how a logical shape becomes the order of elements in memory.

The logical shape of a type does not depend on its layout; `Layout.physical_shape` is the shape of
the array that holds it. Blocked layouts exist for the accelerator: one scratchpad row is one
innermost (batch x block) or (block_out x block_in) tile, so a tile of a tensor is one strided load.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
    "SplitLayout",
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


class SplitLayout(Layout):
    """Splits axes into factors, one letter each, and reorders these.

    Attributes
    ----------
    axes : factors of each axis of a logical array, which is filled up to their product with zeros;
        none for an axis of one element that is left out.
    order : the axes of `physical_shape`.
    """

    axes: ClassVar[tuple[str, ...]]
    order: ClassVar[str]

    def pack(self, array: Array) -> Array:
        shape = self.physical_shape(array.shape)
        factors = "".join(self.axes)
        whole = self._whole(shape)
        padded = np.pad(array, [(0, b - a) for a, b in zip(array.shape, whole, strict=True)])
        split = padded.reshape([shape[self.order.index(factor)] for factor in factors])
        return np.ascontiguousarray(split.transpose([*map(factors.index, self.order)]))

    def unpack(self, array: Array) -> Array:
        split = array.transpose([*map(self.order.index, "".join(self.axes))])
        return split.reshape(self._whole(array.shape))

    def _whole(self, shape: Sequence[int]) -> tuple[int, ...]:
        extents = dict(zip(self.order, shape, strict=True))
        return tuple(math.prod(extents[factor] for factor in axis) for axis in self.axes)


@dataclass(frozen=True)
class ActivationLayout(SplitLayout):
    """Logical (N, C, H, W) held as (N/batch, C/block, H, W, batch, block).

    `block` is max(block_in, block_out) of the variant, so that the output of one operator is the
    input of the next without a copy.
    """

    axes: ClassVar = ("Nn", "Cc", "H", "W")
    order: ClassVar = "NCHWnc"

    batch: int
    block: int

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n, c, h, w = shape
        return (-(-n // self.batch), -(-c // self.block), h, w, self.batch, self.block)

    def __str__(self) -> str:
        return f"NCHW{self.batch}n{self.block}c"


@dataclass(frozen=True)
class PixelLayout(ActivationLayout):
    """Logical (N, C, P, 1) held as (N, C/block, P/batch, 1, batch, block): consecutive pixels of
    an image share a row. P is filled up to whole blocks."""

    axes: ClassVar = ("N", "Cc", "Pn", "1")
    order: ClassVar = "NCP1nc"

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n, c, h, w = shape
        pixels = filled_pixels(h * w, self.batch, self.block)
        return (n, -(-c // self.block), pixels // self.batch, 1, self.batch, self.block)

    def __str__(self) -> str:
        return f"NCP{self.batch}p{self.block}c"


@dataclass(frozen=True)
class WeightLayout(SplitLayout):
    """Logical (O, I, KH, KW) held as (OB, IB, KH, KW, block_out, block_in).

    O and I are both padded with zeros to a multiple of max(block_in, block_out), the block of the
    activations on either side; then OB = padded O / block_out and IB = padded I / block_in.
    """

    axes: ClassVar = ("Oo", "Ii", "H", "W")
    order: ClassVar = "OIHWoi"

    block_out: int
    block_in: int

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        o, i, kh, kw = shape
        block = max(self.block_out, self.block_in)
        outs, ins = -(-o // block) * block, -(-i // block) * block
        bo, bi = self.block_out, self.block_in
        return (outs // bo, ins // bi, kh, kw, bo, bi)

    def __str__(self) -> str:
        return f"OIHW{self.block_out}o{self.block_in}i"


@dataclass(frozen=True)
class DepthwiseLayout(SplitLayout):
    """Logical (C, 1, KH, KW) held as (C/block, KH, KW/taps, taps, block).

    The `taps` channel vectors that one product of the depthwise mode takes are adjacent. C is
    padded with zeros to a multiple of `block`, KW to one of `taps`.
    """

    axes: ClassVar = ("Cc", "", "H", "Tt")
    order: ClassVar = "CHTtc"

    kernel: tuple[int, int]
    block: int
    taps: int = 1

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        c, _, kh, kw = shape
        assert (kh, kw) == self.kernel, "the layout was made for another kernel"
        return (-(-c // self.block), kh, -(-kw // self.taps), self.taps, self.block)

    def unpack(self, array: Array) -> Array:
        return super().unpack(array)[..., : self.kernel[1]]

    def __str__(self) -> str:
        return f"CHW{self.taps}t{self.block}c"
