"""`TensorSpec`: a tensor of a program in external memory, and packing it from and to numpy.

The layout is NCHW[n]c: shape (N/batch, C/block, H, W, batch, block), channels padded with zeros to
whole blocks; or a `RowStream`, for an input of few channels. Source: DESIGN, section 4.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.elements import from_memory, to_memory
from daedal.isa.row_stream import RowStream

__all__ = ["Box", "TensorSpec", "pack_tensor", "unpack_tensor"]

Box = tuple[tuple[int, int], ...]
"""A part of an array: of each axis, the first index and the one after the last."""


@dataclass(frozen=True)
class TensorSpec:
    """Address and layout of a tensor: `shape` is the logical (N, C, H, W).

    `base` is the number of a base address register, `offset_bytes` the offset from it. A `stream`
    replaces the blocked layout; `batch` and `block` are then its batch and lanes. With `by_pixel`,
    the batch of a row is consecutive pixels of one image instead of images. With a `pitch`, the map
    is columns of a larger one: its rows lie so many columns apart.
    """

    name: str
    base: int
    offset_bytes: int
    shape: tuple[int, int, int, int]
    element_bits: int
    batch: int
    block: int
    stream: RowStream | None = None
    by_pixel: bool = False
    pitch: int = 0

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """(N/batch, C/block, H, W, batch, block), or the shape of the stream. By pixel: (N,
        C/block, HW/batch, 1, batch, block), where HW is filled up to whole blocks."""
        if self.stream is not None:
            return self.stream.physical_shape(self.shape)
        n, c, h, w = self.shape
        if self.by_pixel:
            pixels = filled_pixels(h * w, self.batch, self.block)
            return (n, -(-c // self.block), pixels // self.batch, 1, self.batch, self.block)
        return (-(-n // self.batch), -(-c // self.block), h, w, self.batch, self.block)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory from the first to the last, padding channels included."""
        *outer, width, batch, block = self.physical_shape
        total = math.prod(self.physical_shape)
        if self.pitch:
            total = ((math.prod(outer) - 1) * self.pitch + width) * batch * block
        return total * self.element_bits // 8

    def element_at(self, index: int) -> tuple[int, int, int, int]:
        """(n, c, h, w) of the element at flat position `index`; outside the tensor for padding."""
        if self.stream is not None:
            return self.stream.element_at(index, self.shape)
        *outer, width, batch, block = self.physical_shape
        place = np.unravel_index(index, (*outer, self.pitch or width, batch, block))
        nb, cb, h, w, image, channel = (int(k) for k in place)
        if self.by_pixel:
            pixel = h * self.batch + image
            return nb, cb * self.block + channel, *divmod(pixel, self.shape[3])
        return nb * self.batch + image, cb * self.block + channel, h, w


def filled_pixels(count: int, batch: int, block: int) -> int:
    """The pixels of an image in a tensor `by_pixel`."""
    return -(-count // max(batch, block)) * max(batch, block)


def pack_tensor(spec: TensorSpec, values: npt.ArrayLike) -> bytes:
    """(N, C, H, W) integers to the bytes of the blocked layout.

    Raises ProgramError for another shape.
    """
    array = np.asarray(values)
    if array.shape != spec.shape:
        raise ProgramError(f"tensor {spec.name!r} must have shape {spec.shape}, not {array.shape}")
    if spec.stream is not None:
        rows = spec.stream.pack(array.astype(np.int64))
    elif spec.by_pixel:
        n, cb, h, _, batch, block = spec.physical_shape
        full = np.zeros((n, cb * block, h * batch), dtype=np.int64)
        full[:, : spec.shape[1], : math.prod(spec.shape[2:])] = array.reshape(*spec.shape[:2], -1)
        rows = full.reshape(n, cb, block, h, batch).transpose(0, 1, 3, 4, 2)
    else:
        nb, cb, h, w, batch, block = spec.physical_shape
        full = np.zeros((nb * batch, cb * block, h, w), dtype=np.int64)
        full[: spec.shape[0], : spec.shape[1]] = array
        rows = full.reshape(nb, batch, cb, block, h, w).transpose(0, 2, 4, 5, 1, 3)
    return to_memory(rows.reshape(-1, spec.batch * spec.block), spec.element_bits).tobytes()


def unpack_tensor(spec: TensorSpec, data: bytes) -> npt.NDArray[np.int64]:
    """Bytes of the blocked layout to (N, C, H, W) integers.

    Raises ProgramError for another size.
    """
    if len(data) != spec.size_bytes:
        raise ProgramError(
            f"tensor {spec.name!r} must have {spec.size_bytes} bytes, not {len(data)}"
        )
    raw = np.frombuffer(data, dtype=np.uint8).reshape(1, -1)
    elements = from_memory(raw, spec.element_bits, signed=True)
    if spec.pitch:
        *outer, width, batch, block = spec.physical_shape
        gap = (spec.pitch - width) * batch * block
        rows = np.pad(elements.reshape(-1), (0, gap))
        elements = rows.reshape(*outer, spec.pitch, batch, block)[..., :width, :, :]
    blocked = elements.reshape(spec.physical_shape)
    if spec.stream is not None:
        return spec.stream.unpack(blocked, spec.shape)
    if spec.by_pixel:
        n, cb, h, _, batch, block = spec.physical_shape
        rows = blocked.transpose(0, 1, 5, 2, 3, 4).reshape(n, cb * block, h * batch)
        return rows[:, : spec.shape[1], : math.prod(spec.shape[2:])].reshape(spec.shape)
    nb, cb, h, w, batch, block = spec.physical_shape
    full = blocked.transpose(0, 4, 1, 5, 2, 3).reshape(nb * batch, cb * block, h, w)
    return full[: spec.shape[0], : spec.shape[1]].copy()
