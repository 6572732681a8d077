"""Converts real scale ratios into the integer parameters of REQUANTIZE, for the lowering rules."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.isa import numerics
from daedal.isa.errors import UnsupportedError

__all__ = [
    "FACTOR_BITS",
    "Quantization",
    "QuantizedTensor",
    "check_sums",
    "make_params",
    "shared_factors",
]

FACTOR_BITS = 15
"""Magnitude bits of the factors of an addition: signed 16-bit immediates of the ALU's multiply."""


@dataclass(frozen=True)
class QuantizedTensor:
    """An int8 tensor of the graph with its meaning: ``real = scale * (q - zero_point)``."""

    name: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Quantization:
    """The quantization of a result: scale, zero point and bounds of the int8 value."""

    scale: float
    zero_point: int
    low: int = -128
    high: int = 127

    def bounded(self, low: float, high: float) -> "Quantization":
        """The quantization that first clips the real value to [low, high].

        Quantization is monotone, so clipping the integer to the quantized bounds is equivalent.
        """
        first, last = (self._quantize(bound) for bound in (low, high))
        return Quantization(
            self.scale,
            self.zero_point,
            min(max(self.low, first), self.high),
            max(min(self.high, last), self.low),
        )

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """Attributes of an integer operator with this result."""
        return {"zero_point": self.zero_point, "low": self.low, "high": self.high}

    def _quantize(self, real: float) -> int:
        return int(numerics.quantize(real, self.scale, self.zero_point, np.int8))


def check_sums(node: Node, largest: int, accumulator_bits: int) -> None:
    """Refuse a layer whose sums of products, up to `largest`, could overflow the accumulators.

    Raises UnsupportedError.
    """
    if largest >= 1 << (accumulator_bits - 1):
        raise UnsupportedError(
            f"sums of products must stay below 2**{accumulator_bits - 1}, but they may reach "
            f"{largest} ({node}); split the layer or use a variant with wider accumulators"
        )


def make_params(
    node: Node,
    biases: Sequence[int] | Array,
    ratios: Sequence[float] | Array,
    multiplier_bits: int,
    accumulator_bits: int,
) -> Array:
    """Rows of [bias, multiplier, shift] for real factors `ratios`; (rows, 3) int64.

    Raises
    ------
    ModelError
        For a factor or a bias that the machine cannot hold.
    """
    low, high = numerics.integer_range(accumulator_bits)
    rows = []
    for bias, ratio in zip(biases, ratios, strict=True):
        if not low <= bias <= high:
            raise UnsupportedError(
                f"biases must fit into {accumulator_bits} bits, not {int(bias)} ({node}); "
                "quantize the model again with larger weight scales"
            )
        try:
            multiplier, shift = numerics.quantize_multiplier(float(ratio), multiplier_bits)
        except ValueError as error:
            raise UnsupportedError(f"{error} ({node}); quantize the model again") from error
        rows.append((int(bias), multiplier, shift))
    return np.array(rows, dtype=np.int64)


def shared_factors(node: Node, ratios: Sequence[float]) -> tuple[tuple[int, ...], int]:
    """Integers `f` and one shift `s` with ``ratio ~ f * 2**-s`` for every one of `ratios`.

    The largest keeps all of its `FACTOR_BITS` bits.

    Raises
    ------
    ModelError
        For a ratio that is too large.
    """
    try:
        _, shift = numerics.quantize_multiplier(max(ratios), FACTOR_BITS)
    except ValueError as error:
        raise UnsupportedError(f"{error} ({node}); quantize the model again") from error
    return tuple(round(float(np.ldexp(ratio, shift))) for ratio in ratios), shift
