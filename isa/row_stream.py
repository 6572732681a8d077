"""`RowStream`: a dense layout in external memory for maps with few channels and sliding windows.

A blocked layout gives every pixel its own scratchpad row, most of it empty for a map of three
channels. Here pixels are stored without gaps, so that one row holds several.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["RowStream"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RowStream:
    """Layout of a map (N, C, H, W) as (N/batch, copies * groups, num_rows, batch, lanes).

    A group is `group_rows` rows of the image, the next one begins `group_step` rows below. Its
    stream is ordered by column, then by row of the group, then by channel. Everything outside the
    image is `pad_value`. All streams are stored `copies` times, each copy from `lanes / copies`
    elements later on. So a row can begin at any multiple of these, even where the bus reads whole
    rows only.

    Parameters
    ----------
    batch, lanes : shape of a scratchpad row: images, and elements of a stream.
    channels : elements per pixel; those beyond C are padding.
    group_rows : image rows in a group.
    pad_top : padding rows at the top of the first group, fewer than `group_rows`.
    pad_left : padding columns at the start of every stream.
    num_rows : scratchpad rows of a stream; columns beyond them are cut off.
    pad_value : the value of padding.
    copies : divides `lanes`.
    group_step : at most `group_rows`; fewer: the rows of a group are in the next one, too. 0: as
        many as `group_rows`.
    """

    batch: int
    lanes: int
    channels: int
    group_rows: int
    pad_top: int
    pad_left: int
    num_rows: int
    pad_value: int
    copies: int = 1
    group_step: int = 0

    @property
    def rows_down(self) -> int:
        """Image rows from one group to the next."""
        return self.group_step or self.group_rows

    @property
    def shift(self) -> int:
        """Elements by which each copy begins later than the one before."""
        return self.lanes // self.copies

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """(N/batch, copies * groups, num_rows, batch, lanes) for a logical (N, C, H, W)."""
        n, _, h, _ = shape
        groups = self.copies * self._groups(h)
        return (-(-n // self.batch), groups, self.num_rows, self.batch, self.lanes)

    def _groups(self, height: int) -> int:
        """Groups of one copy."""
        return -(-(self.pad_top + height) // self.rows_down)

    def _height(self, groups: int) -> int:
        """Image rows, and rows of padding, that groups cover."""
        return (groups - 1) * self.rows_down + self.group_rows

    def pack(self, array: Array) -> Array:
        """(N, C, H, W) to the physical shape."""
        n, c, h, w = array.shape
        blocks, _, num_rows, batch, lanes = self.physical_shape(array.shape)
        groups, copies = self._groups(h), self.copies
        columns = self._columns
        full = np.full(
            (blocks * batch, self._height(groups), columns, self.channels),
            self.pad_value,
            dtype=array.dtype,
        )
        left = self.pad_left
        width = max(0, min(w, columns - left))
        image = array.transpose(0, 2, 3, 1)[:, :, :width]
        full[:n, self.pad_top : self.pad_top + h, left : left + width, :c] = image
        split = sliding_window_view(full, self.group_rows, axis=1)[:, :: self.rows_down]
        streams = split.transpose(0, 1, 2, 4, 3).reshape(blocks, batch, groups, -1)
        size = num_rows * lanes
        last = (copies - 1) * self.shift + size
        after = [(0, 0)] * 3 + [(0, max(0, last - streams.shape[-1]))]
        filled = np.pad(streams, after, constant_values=self.pad_value)
        begins = [copy * self.shift for copy in range(copies)]
        held = np.concatenate([filled[..., begin : begin + size] for begin in begins], axis=2)
        rows = held.reshape(blocks, batch, copies * groups, num_rows, lanes)
        return np.ascontiguousarray(rows.transpose(0, 2, 3, 1, 4))

    def unpack(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Inverse of `pack` for maps of logical `shape`; columns that were cut off are padding."""
        n, c, h, w = shape
        blocks, _, num_rows, batch, lanes = array.shape
        groups = self._groups(h)
        array = array[:, :groups]  # the first copy
        columns, left = self._columns, self.pad_left
        size = columns * self.group_rows * self.channels
        streams = np.full((blocks * batch, groups, size), self.pad_value, dtype=array.dtype)
        kept = array.transpose(0, 3, 1, 2, 4).reshape(blocks * batch, groups, num_rows * lanes)
        streams[..., : num_rows * lanes] = kept[..., :size]
        split = streams.reshape(-1, groups, columns, self.group_rows, self.channels)
        full = np.empty(
            (blocks * batch, self.channels, self._height(groups), columns), dtype=array.dtype
        )
        for row in range(self.group_rows):
            rows = slice(row, self._height(groups), self.rows_down)
            full[:, :, rows][:, :, :groups] = split[:, :, :, row].transpose(0, 3, 1, 2)
        image = full[:n, :c, self.pad_top : self.pad_top + h, left : left + w]
        missing = w - image.shape[3]
        space = [(0, 0), (0, 0), (0, 0), (0, missing)]
        return np.pad(image, space, constant_values=self.pad_value)

    def element_at(self, index: int, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """(n, c, h, w) of the element at flat position `index` of a packed map of `shape`.

        Padding has coordinates outside the map.
        """
        place = np.unravel_index(index, self.physical_shape(shape))
        block, stream, row, image, lane = (int(k) for k in place)
        copy, group = divmod(stream, self._groups(shape[2]))
        element = copy * self.shift + row * self.lanes + lane
        pixel, channel = divmod(element, self.channels)
        column, line = divmod(pixel, self.group_rows)
        height = group * self.rows_down + line - self.pad_top
        return block * self.batch + image, channel, height, column - self.pad_left

    @property
    def _columns(self) -> int:
        """Columns that a stream covers, the last one possibly in part."""
        return -(-self.num_rows * self.lanes // (self.group_rows * self.channels))
