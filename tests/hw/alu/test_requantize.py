"""Requantizer and arithmetic helpers against `isa.numerics`."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.alu.requantize import Requantizer
from daedal.hw.parts.arithmetic import (
    adder_tree,
    clamp,
    multiply_wide,
    saturate,
)
from daedal.hw.primitives.multiplier import Operand
from daedal.isa import numerics
from daedal.isa.latencies import adder_tree_cycles, multiply_latency_cycles
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import simulate

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "int4": TINY.replace(
        input_bits=4, weight_bits=4, output_bits=4, block_in=16, block_out=16, multiplier_bits=8
    ),
    "int16": TINY.replace(
        input_bits=16, weight_bits=16, output_bits=16, accumulator_bits=48, multiplier_bits=26
    ),
}
VARIANTS["wide"] = TINY.replace(wide_requantize=True)
CASES = 600


def draw(rng: np.random.Generator, bits: int, *, is_signed: bool, count: int) -> np.ndarray:
    """Integers of every magnitude, extremes and powers of two among them."""
    low, high = numerics.integer_range(bits) if is_signed else (0, (1 << bits) - 1)
    values = rng.integers(low, high, count, endpoint=True) >> rng.integers(0, bits, count)
    special = np.array([low, high, 0, 1, 1 << (bits - 2), (1 << (bits - 2)) + 1])
    return np.where(rng.random(count) < 0.25, rng.choice(special, count), values)


@pytest.mark.parametrize("name", VARIANTS)
def test_requantizer_is_numerics(name: str) -> None:
    """One group per cycle, bounds in either order, ties, shifts from 0 to 63."""
    variant: Variant = VARIANTS[name]
    rng = np.random.default_rng(8)
    array, units = variant.array, variant.units
    lanes = units.requantize_lanes
    shape = (CASES, lanes)
    total = CASES * lanes
    acc = draw(rng, array.accumulator_bits, is_signed=True, count=total).reshape(shape)
    bias = draw(rng, array.accumulator_bits, is_signed=True, count=total).reshape(shape)
    multiplier = draw(rng, units.multiplier_bits, is_signed=False, count=total).reshape(shape)
    shift = rng.integers(0, 64, shape)
    # Half of the cases land near the output range, where rounding shows.
    near = np.floor(np.log2(np.abs((acc + bias).astype(float) * multiplier) + 1))
    near = np.clip(near - rng.integers(0, variant.result_bits + 1, shape), 0, 63).astype(int)
    shift = np.where(rng.random(shape) < 0.5, near, shift)
    zero_point = draw(rng, 18, is_signed=True, count=CASES)
    zero_point = np.where(rng.random(CASES) < 0.7, zero_point >> 11, zero_point)
    low, high = (draw(rng, array.output_bits, is_signed=True, count=CASES) for _ in range(2))
    wide = rng.random(CASES) < 0.6
    limits = numerics.integer_range(array.output_bits)
    low, high = np.where(wide, limits[0], low), np.where(wide, limits[1], high)
    widens = np.zeros(CASES, dtype=bool)
    bounds = [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
    if units.wide_requantize:
        widens = rng.random(CASES) < 0.7
        assert (low > high)[widens].any(), "crossed bounds must occur"
        bounds = [
            numerics.wide_bounds(a, b, array.output_bits) if widened else (a, b)
            for (a, b), widened in zip(bounds, widens, strict=True)
        ]
        limits = numerics.integer_range(variant.result_bits)
    least, most = np.array(bounds).T
    expected = numerics.requantize(
        acc, bias, multiplier, shift, zero_point[:, None], least[:, None], most[:, None]
    )
    # The cases must reach the places where an implementation can go wrong.
    assert (expected == limits[0]).any() and (expected == limits[1]).any()
    assert len(np.unique(expected)) > min(1 << array.output_bits, 800) // 4

    dut = Requantizer(variant=variant)
    latency = Requantizer.latency(variant)
    seen = np.zeros(shape, dtype=np.int64)

    async def run(ctx) -> None:
        for k in range(CASES + latency):
            if k < CASES:
                mask = (1 << array.accumulator_bits) - 1
                packed = sum(
                    (int(v) & mask) << (n * array.accumulator_bits) for n, v in enumerate(acc[k])
                )
                ctx.set(dut.acc, packed)
                for n in range(lanes):
                    ctx.set(dut.parameters[n].bias, int(bias[k, n]))
                    ctx.set(dut.parameters[n].multiplier, int(multiplier[k, n]))
                    ctx.set(dut.parameters[n].shift, int(shift[k, n]))
                ctx.set(dut.zero_point, int(zero_point[k]))
                ctx.set(dut.low, int(low[k]))
                ctx.set(dut.high, int(high[k]))
                if units.wide_requantize:
                    ctx.set(dut.wide, int(widens[k]))
            if k >= latency:
                word = ctx.get(dut.result)
                bits = variant.result_bits
                values = [word >> (n * bits) & ((1 << bits) - 1) for n in range(lanes)]
                seen[k - latency] = numerics.wrap(np.array(values), bits)
            await ctx.tick()

    simulate(dut, run)
    np.testing.assert_array_equal(seen, expected)


class Helpers(wiring.Component):
    """The helpers side by side, on signals."""

    a: In(signed(12))
    b: In(signed(12))
    wide: In(signed(49))
    factor: In(26)
    low: In(signed(12))
    high: In(signed(12))
    saturated: Out(signed(5))
    clamped: Out(signed(12))
    near_clamped: Out(signed(5))
    product: Out(signed(75))
    total: Out(signed(16))

    def elaborate(self, platform) -> Module:
        m = Module()
        terms = [Signal(signed(12), name=f"term{k}") for k in range(5)]
        # The portable form looks at registers alone.
        operands = [Operand(value, value) for value in (self.wide, self.factor)]
        m.d.comb += [
            self.saturated.eq(saturate(self.a, 5)),
            self.clamped.eq(clamp(self.a, self.low, self.high)),
            self.near_clamped.eq(
                clamp(self.a, *(x[:5].as_signed() for x in (self.low, self.high)))
            ),
            *(term.eq(self.a if k % 2 else self.b) for k, term in enumerate(terms)),
            self.product.eq(multiply_wide(m, None, *operands, name="product")),
            self.total.eq(adder_tree(m, terms, name="total")),
        ]
        return m


def test_helpers_are_numerics() -> None:
    """saturate, clamp, multiply_wide and adder_tree against their numpy twins."""
    rng = np.random.default_rng(3)
    dut = Helpers()
    product_latency = multiply_latency_cycles(49, 26)
    total_latency = adder_tree_cycles(5)

    async def run(ctx) -> None:
        for number in range(300):
            a, b = (int(v) for v in draw(rng, 12, is_signed=True, count=2))
            bounds = draw(rng, 5 if number % 2 else 12, is_signed=True, count=2)
            low, high = sorted(int(v) for v in bounds)
            wide = int(draw(rng, 49, is_signed=True, count=1)[0])
            factor = int(draw(rng, 26, is_signed=False, count=1)[0])
            for port, value in ((dut.a, a), (dut.b, b), (dut.wide, wide), (dut.factor, factor)):
                ctx.set(port, value)
            ctx.set(dut.low, low)
            ctx.set(dut.high, high)
            assert ctx.get(dut.saturated) == numerics.saturate(a, 5)
            assert ctx.get(dut.clamped) == np.clip(a, low, high)
            if number % 2:
                assert ctx.get(dut.near_clamped) == np.clip(a, low, high)
            for cycle in range(1, max(product_latency, total_latency) + 1):
                await ctx.tick()
                if cycle == product_latency:
                    assert ctx.get(dut.product) == wide * factor
                if cycle == total_latency:
                    assert ctx.get(dut.total) == 3 * b + 2 * a

    simulate(dut, run)
