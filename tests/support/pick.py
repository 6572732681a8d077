"""Choices for random layers: shapes, windows, values, parameters; by a generator or hypothesis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from daedal.compiler.graph.graph import AttrValue
from daedal.isa.variant import Variant

__all__ = ["Pick"]

T = TypeVar("T")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pick:
    """Where choices come from: a random generator, or hypothesis.

    Parameters
    ----------
    integer : a number from the first argument to the second, both included.
    rng : for the values of tensors.
    """

    integer: Callable[[int, int], int]
    rng: np.random.Generator

    @classmethod
    def seeded(cls, seed: Sequence[int]) -> "Pick":
        """Choices that follow from `seed` alone."""
        rng = np.random.default_rng(seed)
        return cls(lambda low, high: int(rng.integers(low, high + 1)), rng)

    @classmethod
    def drawn(cls, data: st.DataObject, seed: int) -> "Pick":
        """Choices of hypothesis; the values of tensors follow from `seed`."""
        rng = np.random.default_rng(seed)
        return cls(lambda low, high: data.draw(st.integers(low, high)), rng)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.integer(low, high), self.integer(low, high)

    def int8(self, shape: tuple[int, ...]) -> Array:
        """Any values, or only the extremes."""
        if self.integer(0, 3) == 3:
            return self.rng.choice([-128, 127], shape).astype(np.int8)
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def int16(self, shape: tuple[int, ...]) -> Array:
        """As `int8`."""
        if self.integer(0, 3) == 3:
            return self.rng.choice([-(1 << 15), (1 << 15) - 1], shape).astype(np.int16)
        return self.rng.integers(-(1 << 15), 1 << 15, shape).astype(np.int16)

    def channels(self, variant: Variant) -> int:
        """Fewer than a block, a whole one, or more than one."""
        return self.integer(1, min(2 * variant.block + 3, 40))

    def map_shape(self, variant: Variant) -> tuple[int, ...]:
        return (self.integer(1, 2), self.channels(variant), *self.pair(1, 7))

    def params(
        self,
        variant: Variant,
        rows: int,
        shifts: tuple[int, int],
        multiplier: int | None = None,
        any_bias: bool = False,
    ) -> Array:
        """(rows, 3): bias, multiplier and shift.

        With `any_bias`, for operators whose bias the model gives, it is now and then the largest.
        """
        top = (1 << variant.units.multiplier_bits) - 1
        factors = self.rng.integers(top // 2, top + 1, rows)
        if multiplier is not None:
            factors[:] = multiplier
        bias = self.rng.integers(-3000, 3001, rows)
        if any_bias and self.integer(0, 3) == 3:
            limit = 1 << (variant.array.accumulator_bits - 1)
            bias = self.rng.choice([-limit, limit - 1], rows)
        amounts = self.rng.integers(shifts[0], shifts[1] + 1, rows)
        return np.stack([bias, factors, amounts], axis=-1)

    def bounds(self) -> dict[str, AttrValue]:
        """Zero point and bounds of a result."""
        low, high = sorted(self.pair(-128, 127)) if self.integer(0, 2) == 2 else (-128, 127)
        return {"zero_point": self.integer(-128, 127), "low": low, "high": high}

    def wide_bounds(self) -> dict[str, AttrValue]:
        """Zero point and bounds of a wide result: of these, REQUANTIZE has the upper byte."""
        low, high = sorted(self.pair(-128, 127)) if self.integer(0, 2) == 2 else (-128, 127)
        zero_point = self.one_of((0, self.integer(-3000, 3000)))
        return {"zero_point": zero_point, "low": 256 * low, "high": 256 * high + 255}

    def window(self, dilated: bool) -> tuple[tuple[int, int], dict[str, AttrValue]]:
        """A map (H, W), and a window that fits into it with its pads; pools pad less than that."""
        kernel = self.pair(1, self.one_of((1, 2, 3, 5)))
        dilations = self.pair(1, 2) if dilated else (1, 1)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        widest = [size if dilated else size - 1 for size in reach]
        pads = tuple(self.integer(0, min(widest[side % 2], 3)) for side in range(4))
        least = [max(1, reach[axis] - pads[axis] - pads[axis + 2]) for axis in range(2)]
        height, width = (self.integer(size, size + 6) for size in least)
        attrs: dict[str, AttrValue] = {"kernel": kernel, "strides": self.pair(1, 3), "pads": pads}
        return (height, width), {**attrs, "dilations": dilations} if dilated else attrs
