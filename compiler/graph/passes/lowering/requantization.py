"""Converts real scale ratios into the integer parameters of REQUANTIZE, for the lowering rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.isa import numerics

__all__ = [
    "FACTOR_BITS",
    "Quantization",
    "QuantizedTensor",
    "check_sums",
    "make_params",
    "rounds_as_floats",
    "shared_factors",
    "wide_factors",
]

FACTOR_BITS = 15
"""Magnitude bits of the factors of an addition: signed 16-bit immediates of the ALU's multiply."""


_MOST_STEPS = 255
"""The largest distance of an 8-bit integer from its zero point."""

_WIDE_BOUNDS = (-(1 << 15), (1 << 15) - 1)


@dataclass(frozen=True)
class Quantization:
    """The quantization of a result: scale, zero point and bounds of the integer, which has 8 bits
    or is wide (`daedal.compiler.graph.ops.integer`)."""

    scale: float
    zero_point: int
    low: int = -128
    high: int = 127
    wide: bool = False

    @property
    def unbounded(self) -> "Quantization":
        """The same with the bounds of the integer's type."""
        low, high = _WIDE_BOUNDS if self.wide else (-128, 127)
        return replace(self, low=low, high=high)

    def bounded(self, low: float, high: float) -> "Quantization":
        """The quantization that first clips the real value to [low, high].

        Quantization is monotone, so clipping the integer to the quantized bounds is equivalent.

        Raises UnsupportedError for bounds of a wide integer that REQUANTIZE cannot hold.
        """
        first, last = (self._quantize(bound) for bound in (low, high))
        first, last = min(max(self.low, first), self.high), max(min(self.high, last), self.low)
        if self.wide and (first % 256 or last % 256 != 255):
            raise UnsupportedError(
                "bounds of a 16-bit result must be a multiple of 256 and one less than another "
                f"one, not {first} and {last}; clip the tensor where it has 8 bits"
            )
        return replace(self, low=first, high=last)

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """Attributes of an integer operator with this result."""
        return {"zero_point": self.zero_point, "low": self.low, "high": self.high}

    def _quantize(self, real: float) -> int:
        dtype = np.int16 if self.wide else np.int8
        return int(numerics.quantize(real, self.scale, self.zero_point, dtype))


@dataclass(frozen=True)
class QuantizedTensor:
    """An integer tensor of the graph with its meaning: ``real = scale * (q - zero_point)``."""

    name: str
    scale: float
    zero_point: int
    wide: bool = False

    @property
    def quantization(self) -> Quantization:
        """Its quantization, as that of a result with any value."""
        return Quantization(self.scale, self.zero_point, wide=self.wide).unbounded

    @property
    def largest(self) -> int:
        """The largest magnitude of its integers."""
        return 1 << (15 if self.wide else 7)


def rounds_as_floats(x: QuantizedTensor, q: Quantization) -> bool:
    """Whether every 8-bit integer of `x` times the ratio of the scales becomes the integer of `q`
    that QuantizeLinear makes of its float32: a quotient of floats may be a tie where the ratio's
    product is none."""
    integers = np.arange(-128, 128) - x.zero_point
    reals = integers.astype(np.float32) * np.float32(x.scale)
    quotients = np.rint(reals / np.float32(q.scale))
    products = np.rint(integers * (x.scale / q.scale))
    ends = q.low - q.zero_point, q.high - q.zero_point
    return bool(np.array_equal(quotients.clip(*ends), products.clip(*ends)))


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


def shared_factors(
    node: Node, ratios: Sequence[float], *, summed: bool, bits: int = FACTOR_BITS
) -> tuple[tuple[int, ...], int]:
    """Integers `f` and one shift `s` with ``ratio ~ f * 2**-s`` for every one of `ratios`.

    The largest keeps all of its `bits`; powers of two in common are left out, which
    changes no result: factors of 1 multiply nothing.

    Raises
    ------
    UnsupportedError
        For a ratio that is too large, and for ratios too far apart: a product of an 8-bit integer,
        or if `summed` the sum of all, could be off by more than a step of the result.
    """
    try:
        _, shift = numerics.quantize_multiplier(max(ratios), bits)
    except ValueError as error:
        raise UnsupportedError(f"{error} ({node}); quantize the model again") from error
    factors = [round(float(np.ldexp(ratio, shift))) for ratio in ratios]
    errors = _errors(ratios, [float(np.ldexp(factor, -shift)) for factor in factors], summed)
    if (sum(errors) if summed else max(errors)) > 1:
        scales = " and ".join(f"{ratio:.4g}" for ratio in ratios)
        raise UnsupportedError(
            f"factors of a layer must be comparable, not {scales}, which are scales divided by "
            f"that of the result ({node}); quantize the model again"
        )
    while shift and not any(factor % 2 for factor in factors):
        factors, shift = [factor // 2 for factor in factors], shift - 1
    return tuple(factors), shift


def _errors(ratios: Sequence[float], found: Sequence[float], summed: bool) -> list[float]:
    """The largest error of each product of an 8-bit integer with `found` instead of `ratios`, in
    steps of a result that is not clipped. There no product is larger than the result, or in a sum,
    than the result and all other products together."""
    total = sum(ratios) if summed else 0.0
    errors = []
    for ratio, factor in zip(ratios, found, strict=True):
        others = total - ratio if summed else 0.0
        reach = min(1.0, (1.0 + others) / ratio) if ratio else 1.0
        errors.append(abs(ratio - factor) * reach * _MOST_STEPS)
    return errors


def wide_factors(
    node: Node,
    operands: Sequence[QuantizedTensor],
    scale: float,
    multiplier_bits: int,
    accumulator_bits: int,
) -> tuple[tuple[int, int], int, int]:
    """Factors of two operands, a multiplier and a shift, for a sum of 16 bits at `scale`.

    ``operand.scale / scale ~ factor * multiplier * 2**-shift``. The quotient of the factors is the
    best of those with `FACTOR_BITS`, so that each operand is off by half a step of the result at
    most; `shared_factors` would be off by more where values have 16 bits.

    Raises
    ------
    UnsupportedError
        The scales are too far apart, or the sum could leave the accumulators.
    """
    ratios = [item.scale / scale for item in operands]
    large, small = sorted((0, 1), key=lambda number: -ratios[number])
    quotient = ratios[small] / ratios[large]
    best = Fraction(quotient).limit_denominator((1 << FACTOR_BITS) - 1)
    error = abs(quotient - float(best)) * ratios[large] * operands[small].largest
    if error > 1:
        raise UnsupportedError(
            "operands of a 16-bit sum must have comparable scales, not "
            f"{operands[0].scale:.4g} and {operands[1].scale:.4g} for a result of {scale:.4g} "
            f"({node}); quantize the model again"
        )
    factors = {large: best.denominator, small: best.numerator}
    largest = sum(factors[number] * item.largest for number, item in enumerate(operands))
    check_sums(node, largest, accumulator_bits)
    try:
        multiplier, shift = numerics.quantize_multiplier(
            ratios[large] / best.denominator, multiplier_bits
        )
    except ValueError as error_of:
        raise UnsupportedError(f"{error_of} ({node}); quantize the model again") from error_of
    return (factors[0], factors[1]), multiplier, shift
