"""Layouts of a convolution over few channels: densely packed pixels, and weights to match.

One product takes `lanes` elements of the stream of a group of rows (`daedal.isa.row_stream`), which
hold several taps of the window. The window of the next output in a row begins `step` elements
later; that of the output below begins in another group. A vector begins at a beat of the bus, or of
a copy of the stream, but a window can begin between beats. Each distance from a beat to a window is
a phase, with its own copy of the weights.
"""

import math
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.layout import Array, Layout
from daedal.isa.row_stream import RowStream

__all__ = ["RowStreamLayout", "RowStreamWeightLayout"]


@dataclass(frozen=True)
class RowStreamLayout(Layout):
    """A map as `RowStream` holds it. There is no `unpack`: `RowStream.unpack` needs the shape."""

    stream: RowStream

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.stream.physical_shape(shape)

    def pack(self, array: Array) -> Array:
        return self.stream.pack(array)

    def __str__(self) -> str:
        stream = self.stream
        copies = f"{stream.copies}x" if stream.copies > 1 else ""
        rows = f"{stream.group_rows}h" + (f"{stream.group_step}d" if stream.group_step else "")
        return f"N{copies}{rows}{stream.channels}c{stream.batch}n{stream.lanes}s"


@dataclass(frozen=True)
class RowStreamWeightLayout(Layout):
    """Logical (O, I, KH, KW) held as (OB, phases, groups, vectors, block_out, lanes).

    Parameters
    ----------
    block_out, lanes : one scratchpad row; O is padded with zeros to a multiple of `block`.
    block : channels of a block of the output in memory.
    channels, group_rows : parameters of the stream that the window slides over.
    stride : columns from one window to the next.
    beat : a vector begins at a multiple of so many elements. It divides `lanes`.
    kernel : (KH, KW).
    """

    block_out: int
    lanes: int
    block: int
    channels: int
    group_rows: int
    stride: int
    beat: int
    kernel: tuple[int, int]

    @property
    def step(self) -> int:
        """Elements from one window to the next."""
        return self.stride * self.group_rows * self.channels

    @property
    def phases(self) -> int:
        """Number of windows after which one begins at a beat again."""
        return self.beat // math.gcd(self.step, self.beat)

    @property
    def period(self) -> int:
        """Number of windows after which one begins at a scratchpad row again."""
        return self.lanes // math.gcd(self.step, self.lanes)

    @property
    def groups(self) -> int:
        """Groups of rows under a window."""
        return -(-self.kernel[0] // self.group_rows)

    @property
    def vectors(self) -> int:
        """Vectors that cover a window in one group, in the worst phase."""
        return max(self.vectors_by_phase)

    @property
    def vectors_by_phase(self) -> tuple[int, ...]:
        """Vectors that cover a window in one group, in each phase."""
        length = self.kernel[1] * self.group_rows * self.channels
        offsets = [phase * self.step % self.beat for phase in range(self.phases)]
        return tuple(-(-(offset + length) // self.lanes) for offset in offsets)

    def stream_rows(self, num_windows: int) -> int:
        """Scratchpad rows that the first `num_windows` windows of a stream read."""
        planes = self.lanes // self.beat
        first = (num_windows - 1) * self.step // self.lanes
        return first + self.vectors + (planes > 1)

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        outs = -(-shape[0] // self.block) * self.block // self.block_out
        return (outs, self.phases, self.groups, self.vectors, self.block_out, self.lanes)

    def pack(self, array: Array) -> Array:
        outs, phases, groups, vectors, block_out, lanes = self.physical_shape(array.shape)
        size = vectors * lanes
        streams = np.zeros((outs * block_out, phases, groups, size), dtype=array.dtype)
        for phase, group, line, first in self._lines():
            taps = array[:, :, group * self.group_rows + line]
            # Columns are one group's rows apart; the channels of each are contiguous.
            for column in range(self.kernel[1]):
                at = first + column * self.group_rows * self.channels
                streams[: len(array), phase, group, at : at + array.shape[1]] = taps[..., column]
        split = streams.reshape(outs, block_out, phases, groups, vectors, lanes)
        return np.ascontiguousarray(split.transpose(0, 2, 3, 4, 1, 5))

    def unpack(self, array: Array) -> Array:
        outs, phases, groups, vectors, block_out, lanes = array.shape
        streams = array.transpose(0, 4, 1, 2, 3, 5).reshape(
            outs * block_out, phases, groups, vectors * lanes
        )
        shape = (outs * block_out, self.channels, *self.kernel)
        logical = np.zeros(shape, dtype=array.dtype)
        for phase, group, line, first in self._lines():
            if phase == 0:
                for column in range(self.kernel[1]):
                    at = first + column * self.group_rows * self.channels
                    run = streams[:, phase, group, at : at + self.channels]
                    logical[:, :, group * self.group_rows + line, column] = run
        return logical

    def _lines(self) -> list[tuple[int, int, int, int]]:
        """(phase, group, row of the group, element of that row's first tap)."""
        return [
            (
                phase,
                row // self.group_rows,
                row % self.group_rows,
                phase * self.step % self.beat + row % self.group_rows * self.channels,
            )
            for phase in range(self.phases)
            for row in range(self.kernel[0])
        ]

    def __str__(self) -> str:
        return f"OHW{self.phases}p{self.block_out}o{self.lanes}s"
