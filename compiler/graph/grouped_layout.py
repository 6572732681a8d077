"""Layout of a grouped convolution's weights: several groups together fill whole blocks."""

import math
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.layout import Array, Layout, WeightLayout

__all__ = ["GroupedWeightLayout"]


@dataclass(frozen=True)
class GroupedWeightLayout(Layout):
    """Logical (O, I/groups, KH, KW) held as (OB, IB, KH, KW, block_out, block_in).

    Groups are joined until they fill whole blocks of input and output channels. They become one
    dense convolution, with zeros between the groups: 32 groups of 4 channels become 8 convolutions
    of 16. OB counts the output vectors of all of these, IB the input vectors of one.

    Parameters
    ----------
    block_out, block_in : one scratchpad row; the larger is a block of channels in memory.
    groups : of the convolution.
    channels : (O, I) of the convolution.
    """

    block_out: int
    block_in: int
    groups: int
    channels: tuple[int, int]

    @property
    def joined(self) -> int:
        """Groups in one dense convolution; all if the last one would not fill its blocks."""
        block = max(self.block_out, self.block_in)
        per_group = [count // self.groups for count in self.channels]
        joined = math.lcm(*(block // math.gcd(count, block) for count in per_group))
        parts = -(-self.groups // joined)
        full = all(
            parts * joined * count // block == -(-self.groups * count // block)
            for count in per_group
        )
        return joined if full else self.groups

    @property
    def parts(self) -> int:
        """Number of dense convolutions."""
        return -(-self.groups // self.joined)

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._dense.physical_shape((*self._dense_channels, *shape[2:]))

    def pack(self, array: Array) -> Array:
        outs = self.channels[0] // self.groups
        ins = array.shape[1]
        dense = np.zeros((*self._dense_channels, *array.shape[2:]), dtype=array.dtype)
        for group in range(self.groups):
            at = group % self.joined * ins
            rows = slice(group * outs, (group + 1) * outs)
            dense[rows, at : at + ins] = array[rows]
        return self._dense.pack(dense)

    def unpack(self, array: Array) -> Array:
        outs, ins = (count // self.groups for count in self.channels)
        dense = self._dense.unpack(array)
        rows = [
            dense[group * outs : (group + 1) * outs, group % self.joined * ins :][:, :ins]
            for group in range(self.groups)
        ]
        return np.concatenate(rows)

    @property
    def _dense(self) -> WeightLayout:
        return WeightLayout(self.block_out, self.block_in)

    @property
    def _dense_channels(self) -> tuple[int, int]:
        """Output channels in all, and input channels of one dense convolution."""
        return self.channels[0], self.channels[1] // self.groups * self.joined

    def __str__(self) -> str:
        return f"{self.parts}gOIHW{self.block_out}o{self.block_in}i"
