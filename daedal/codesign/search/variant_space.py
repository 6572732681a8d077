"""`VariantSpace`: the variants that a search may choose, as values of parameters.

A parameter is any of `Variant.replace`; a point has one value for each. The rules of `daedal.isa`
say which points are variants: the space does not repeat them.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from daedal.common.errors import VariantError
from daedal.isa.variant import Variant

__all__ = ["DEFAULT_PARAMETERS", "Point", "Value", "VariantSpace"]

Value = int | bool | str
Point = tuple[int, ...]
"""One index into the values of each parameter."""

DEFAULT_PARAMETERS: Mapping[str, Sequence[Value]] = {
    "batch": (1, 2, 4),
    "block_in": (4, 8, 16, 32),
    "block_out": (4, 8, 16, 32),
    "depthwise_taps": (0, 1, 3),
    "multiplier_style": ("packed", "dsp", "lut"),
    "inp_bytes": (2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072),
    "wgt_bytes": (4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144),
    "acc_bytes": (4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144),
    "out_bytes": (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536),
    "par_bytes": (1_024, 2_048, 4_096, 8_192, 16_384, 32_768),
    "gemm_uop_bytes": (1_024, 2_048, 4_096, 8_192, 16_384),
    "alu_uop_bytes": (1_024, 2_048, 4_096, 8_192, 16_384),
    "acc_banks": (2, 4, 8),
    "data_bits": (64, 128),
    "read_bursts": (4, 8, 16),
    "write_bursts": (4, 8, 16),
    "queue_depth": (4, 8, 16),
    "token_bits": (6, 8),
    "alu_lanes": (1, 2, 4, 8, 16, 32),
    "requantize_lanes": (1, 2, 4, 8, 16),
    "counters": (True, False),
    "tables": (0, 1, 2, 4, 8),
    "lane_reductions": (False, True),
    "wide_requantize": (False, True),
    "gemm_reads_out": (False, True),
    "narrow_weights": (False, True),
}
"""What `daedal explore` varies. Widths of numbers stay those of the base, as networks need them."""


@dataclass(frozen=True)
class VariantSpace:
    """All variants that differ from `base` in `parameters` alone.

    Attributes
    ----------
    base : the other parameters' values.
    parameters : the values of each parameter, in an order in which neighbours are similar.
    """

    base: Variant
    parameters: Mapping[str, Sequence[Value]]

    @classmethod
    def around(cls, base: Variant, kept: Collection[str] = ()) -> "VariantSpace":
        """The default space with the base in it: its values are added where they are missing.

        Parameters that are `kept` have the base's value alone.
        """
        found: dict[str, Sequence[Value]] = {}
        for name, values in DEFAULT_PARAMETERS.items():
            own = _value(base, name)
            if name in kept:
                found[name] = (own,)
                continue
            found[name] = values if own in values else sorted([*values, own], key=_order)
        return cls(base, found)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters in the order of a point's indices."""
        return tuple(self.parameters)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of values of each parameter."""
        return tuple(len(values) for values in self.parameters.values())

    @property
    def size(self) -> int:
        """Number of points, those that are no variants included."""
        return math.prod(self.lengths)

    def values(self, point: Point) -> dict[str, Value]:
        """The values of a point by parameter."""
        return {
            name: values[index]
            for (name, values), index in zip(self.parameters.items(), point, strict=True)
        }

    @cached_property
    def _made(self) -> dict[Point, Variant | None]:
        """Variants that were asked for: checking the rules takes milliseconds."""
        return {}

    def variant(self, point: Point) -> Variant | None:
        """The variant of a point, named after its content; None where a rule forbids it."""
        if point not in self._made:
            self._made[point] = self._build(point)
        return self._made[point]

    def _build(self, point: Point) -> Variant | None:
        try:
            made = self.base.replace(None, **self.values(point))
        except VariantError:
            return None
        return made.renamed(f"x{made.fingerprint[:12]}")

    def point(self, variant: Variant) -> Point | None:
        """The point of a variant; None where a value is not in the space."""
        found = []
        for name, values in self.parameters.items():
            value = _value(variant, name)
            if value not in values:
                return None
            found.append(list(values).index(value))
        point = tuple(found)
        # Parameters outside the space have to be those of the base.
        made = self.variant(point)
        return point if made is not None and made.fingerprint == variant.fingerprint else None

    def has(self, point: Point) -> bool:
        """Whether a tuple is a point that is a variant."""
        inside = len(point) == len(self.lengths) and all(
            0 <= index < length for index, length in zip(point, self.lengths, strict=True)
        )
        return inside and self.variant(point) is not None

    def draw(self, rng: np.random.Generator) -> Point:
        """A point that is a variant, uniform over those."""
        while True:
            point = tuple(int(rng.integers(length)) for length in self.lengths)
            if self.variant(point) is not None:
                return point

    def neighbours(self, point: Point) -> list[Point]:
        """The variants one step away in one parameter."""
        found = []
        for axis, (index, length) in enumerate(zip(point, self.lengths, strict=True)):
            for other in (index - 1, index + 1):
                if 0 <= other < length:
                    moved = (*point[:axis], other, *point[axis + 1 :])
                    if self.variant(moved) is not None:
                        found.append(moved)
        return found


def _value(variant: Variant, name: str) -> Value:
    """The value of a parameter, which one section of a variant has."""
    sections = (variant.array, variant.memory, variant.bus, variant.units)
    (value,) = (getattr(part, name) for part in sections if hasattr(part, name))
    found: Value = value
    return found


def _order(value: Value) -> int:
    assert isinstance(value, int), "only numbers are missing from the default space"
    return value
