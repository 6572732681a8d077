"""SUM_LANES and MAX_LANES, one group per cycle, against sums and maxima of numpy."""

import numpy as np
import pytest

from daedal.hw.alu.lane_reductions import LaneReductions
from daedal.isa.numerics import integer_range, saturate, wrap
from daedal.isa.table import AluOp
from daedal.isa.variant import load_variant
from tests.hw.compute_bench import simulate

TINY = load_variant("tiny").replace("reductions", lane_reductions=True)
VARIANTS = {
    "part_of_a_row": TINY.replace(alu_lanes=2),
    "one_row": TINY.replace(alu_lanes=8),
    "two_rows": TINY.replace(batch=2, alu_lanes=16, acc_bytes=16384),
    "rows_of_four": TINY.replace(batch=4, block_in=4, block_out=4, alu_lanes=8, depthwise_taps=0),
    "48_bits": TINY.replace(
        input_bits=16, weight_bits=16, output_bits=16, accumulator_bits=48, acc_bytes=16384
    ),
}
GROUPS = 200


@pytest.mark.parametrize("name", VARIANTS)
def test_equals_numpy(name: str) -> None:
    """Operations and saturation change from group to group; extremes, and sums that wrap."""
    variant = VARIANTS[name]
    array = variant.array
    bits, lanes = array.accumulator_bits, LaneReductions.row_lanes(variant)
    rng = np.random.default_rng(21)
    limits = integer_range(bits)
    y = rng.integers(*limits, (GROUPS, lanes // array.block_out, array.block_out), endpoint=True)
    small = rng.random(y.shape[:2]) < 0.5
    y[small] >>= bits - 6
    y[:2] = np.array(limits)[:, None, None]
    y = np.where(rng.random(y.shape) < 0.05, rng.choice(limits, y.shape), y)
    sums, clamps = (rng.random(GROUPS) < 0.5 for _ in range(2))
    expected = np.where(sums[:, None], wrap(y.sum(axis=-1), bits), y.max(axis=-1))
    limited = saturate(expected, array.output_bits)
    assert (limited == expected).any() and (limited != expected).any()
    expected = np.where(clamps[:, None], limited, expected)

    dut = LaneReductions(variant=variant)
    latency = LaneReductions.latency(variant)
    mask = (1 << bits) - 1
    seen: list[list[int]] = []

    async def run(ctx) -> None:
        for k in range(-1, GROUPS + latency):
            if k + 1 < GROUPS:
                ctx.set(dut.operation, int(AluOp.SUM_LANES if sums[k + 1] else AluOp.MAX_LANES))
            if 0 <= k < GROUPS:
                group = y[k].reshape(-1).tolist()
                ctx.set(dut.y, sum((v & mask) << (n * bits) for n, v in enumerate(group)))
                ctx.set(dut.saturate, int(clamps[k]))
            if k >= latency:
                word = ctx.get(dut.result)
                seen.append([word >> (n * bits) & mask for n in range(y.shape[1])])
            await ctx.tick()

    simulate(dut, run)
    np.testing.assert_array_equal(wrap(np.array(seen), bits), expected)
