"""Dot products in every style of multiplier against numpy: all int8 pairs, extremes, latency."""

import dataclasses

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.gemm.product import DotProducts, tap_element
from daedal.isa.numerics import integer_range
from daedal.isa.variant import ArrayConfig, MultiplierStyle

STYLES = [style.value for style in MultiplierStyle]


def array_of(
    style: str, block_in: int, block_out: int, input_bits: int = 8, weight_bits: int = 8
) -> ArrayConfig:
    """A checked array, also one too small for a whole machine."""
    array = ArrayConfig(
        block_in=block_in,
        block_out=block_out,
        input_bits=input_bits,
        output_bits=input_bits,
        weight_bits=weight_bits,
        accumulator_bits=48,
        depthwise_taps=0,
        multiplier_style=style,
    )
    array.check()
    return array


def packed(values: np.ndarray, bits: int) -> list[int]:
    """Each row of elements as one integer, the first element lowest."""
    flat = values.reshape(len(values), -1)
    if bits == 4:
        nibbles = (flat & 15).astype(np.uint8)
        data = nibbles[:, ::2] | (nibbles[:, 1::2] << 4)
    else:
        data = flat.astype(f"<i{bits // 8}").view(np.uint8)
    return [int.from_bytes(row.tobytes(), "little") for row in data]


def totals(
    array: ArrayConfig, inp: np.ndarray, wgt: np.ndarray, slide: np.ndarray | None = None
) -> np.ndarray:
    """What the gateware gives for operands that follow each other cycle by cycle."""
    dut = DotProducts(array=array)
    latency = DotProducts.latency(array)
    words = list(zip(packed(inp, array.input_bits), packed(wgt, array.weight_bits), strict=True))
    width = len(dut.total.as_value()) // array.block_out
    results = []

    async def bench(ctx) -> None:
        for cycle in range(len(words) + latency):
            if cycle < len(words):
                ctx.set(dut.inp, words[cycle][0])
                ctx.set(dut.wgt, words[cycle][1])
                if slide is not None:
                    ctx.set(dut.slide, int(slide[cycle]))
            if cycle >= latency:
                results.append(ctx.get(dut.total.as_value()))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    half = 1 << (width - 1)
    values = [[(word >> (o * width)) & (2 * half - 1) for o in range(array.block_out)]
              for word in results]  # fmt: skip
    signed: np.ndarray = (np.array(values, dtype=np.int64) ^ half) - half
    return signed


def check(array: ArrayConfig, inp: np.ndarray, wgt: np.ndarray) -> None:
    expected = np.einsum("ni,noi->no", inp.astype(np.int64), wgt.astype(np.int64))
    np.testing.assert_array_equal(totals(array, inp, wgt), expected)


@pytest.mark.parametrize(
    "style",
    # Packed products need corrections; for the other styles the random values below do.
    [
        style if style == "packed" else pytest.param(style, marks=pytest.mark.slow)
        for style in STYLES
    ],
)
def test_every_pair_of_int8(style: str) -> None:
    """Element 0 meets every (activation, weight), as lower and as upper of a packed pair."""
    rng = np.random.default_rng(3)
    x, w = (grid.ravel() for grid in np.meshgrid(*[np.arange(-128, 128)] * 2))
    count = len(x)
    inp = np.stack([x, rng.integers(-128, 128, count)], axis=1)
    wgt = rng.integers(-128, 128, (count, 4, 2))
    wgt[:, 0, 0] = wgt[:, 3, 0] = w
    # The partner in the same multiplier: half of the time at an extreme.
    extreme = rng.random((count, 2)) < 0.5
    partners = wgt[:, [1, 2], 0]
    wgt[:, [1, 2], 0] = np.where(extreme, rng.choice([-128, -1, 0, 127], (count, 2)), partners)
    check(array_of(style, 2, 4), inp, wgt)


def test_every_packed_triple_of_int4() -> None:
    """An activation and both weights of a pair, all combinations."""
    grids = np.meshgrid(*[np.arange(-8, 8)] * 3)
    x, v, w = (grid.ravel() for grid in grids)
    zero = np.zeros_like(x)
    check(
        array_of("packed", 16, 2, 4, 4),
        np.stack([x] + [zero] * 15, axis=1),
        np.stack([np.stack([v] + [zero] * 15, axis=1), np.stack([w] + [zero] * 15, axis=1)], 1),
    )


@pytest.mark.parametrize(
    ("style", "input_bits", "weight_bits"),
    [
        *((style, *bits) for style in STYLES for bits in ((8, 8), (4, 4), (8, 4), (4, 8))),
        ("dsp", 16, 16),
        ("lut", 16, 16),
        ("lut", 8, 16),
    ],
)
def test_sums_at_their_extremes(style: str, input_bits: int, weight_bits: int) -> None:
    """Every sum of the largest products, and random ones between, 16 elements each."""
    rng = np.random.default_rng(5)
    ends_x, ends_w = integer_range(input_bits), integer_range(weight_bits)
    count = 200
    inp = rng.integers(ends_x[0], ends_x[1] + 1, (count, 16))
    wgt = rng.integers(ends_w[0], ends_w[1] + 1, (count, 4, 16))
    for number, (x, v, w) in enumerate(
        (x, v, w) for x in ends_x for v in (*ends_w, 0) for w in (*ends_w, 0)
    ):
        inp[number] = x
        wgt[number, ::2] = v
        wgt[number, 1::2] = w
    inp[20:60] = rng.choice(ends_x, (40, 16))
    wgt[20:60] = rng.choice(ends_w, (40, 4, 16))
    check(array_of(style, 16, 4, input_bits, weight_bits), inp, wgt)


@pytest.mark.parametrize(
    ("style", "block", "bits"), [("dsp", 4, 16), ("lut", 8, 4), ("packed", 8, 8), ("packed", 16, 8)]
)
def test_three_rows_slide_past_each_other(style: str, block: int, bits: int) -> None:
    """Any weights: where `slide` says so, two of a row's activations are its own."""
    array = dataclasses.replace(array_of(style, block, block, bits, bits), depthwise_taps=3)
    array.check()
    places = [[tap_element(array, o, tap) for tap in range(3)] for o in range(block)]
    assert all(taps[0] == o and len(set(taps)) == 3 for o, taps in enumerate(places))
    rng = np.random.default_rng(11)
    low, high = integer_range(bits)
    count = 300
    inp = rng.choice([low, high, 0, *rng.integers(low, high + 1, 20)], (count, 3, block))
    wgt = rng.choice([low, high, 0, *rng.integers(low, high + 1, 20)], (count, block, block))
    slide = rng.random(count) < 0.5
    seen = np.repeat(inp[:, :1], block, axis=1)
    pairs = array.outputs_per_activation
    for o, taps in enumerate(places):
        first = o // pairs * pairs
        for tap in (1, 2):
            # Outputs that share activations all see the same.
            seen[slide, first : first + pairs, taps[tap]] = inp[slide, tap, None, o]
    expected = np.einsum("noi,noi->no", seen.astype(np.int64), wgt.astype(np.int64))
    np.testing.assert_array_equal(totals(array, inp, wgt, slide), expected)


@pytest.mark.parametrize("style", STYLES)
def test_latency_by_style(style: str) -> None:
    """The unpacking, and the adders of a multiplier in logic, cost two cycles each."""
    rng = np.random.default_rng(9)
    inp, wgt = rng.integers(-128, 128, (50, 8)), rng.integers(-128, 128, (50, 2, 8))
    array = array_of(style, 8, 2)
    check(array, inp, wgt)
    added = {"dsp": 2, "packed": 4, "lut": 4}[style]
    assert DotProducts.latency(array) == added + 3
