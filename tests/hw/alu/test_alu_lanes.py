"""Ordinary ALU operations, one group per cycle, against `isa.semantics`."""

import numpy as np
import pytest

from daedal.hw.alu.alu_lanes import AluLanes
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import encode_uops
from daedal.isa.numerics import integer_range, wrap
from daedal.isa.semantics import State, execute
from daedal.isa.table import AluOp, Opcode, OutMemory, Unit
from daedal.isa.variant import load_variant
from tests.hw.compute_bench import random_state, simulate

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "int16": TINY.replace(
        input_bits=16, weight_bits=16, output_bits=16, accumulator_bits=48, acc_bytes=16384
    ),
}
OPERATIONS = [op for op in AluOp if op.formula is not None and not op.over_lanes]
PAIRS = 100


def corner_state(name: str, rng: np.random.Generator) -> State:
    """Rows 0.. hold x, rows 128.. hold y: equal values, extremes, every amount of a shift."""
    state = random_state(VARIANTS[name], rng)
    x, y = state.acc[:PAIRS], state.acc[128 : 128 + PAIRS]
    bits = state.variant.array.accumulator_bits
    amounts = np.arange(y.size).reshape(y.shape) % 128
    y[:] = wrap(y & ~0x7F | amounts, bits)
    y[:] = np.where(rng.random(y.shape) < 0.1, x, y)
    # Ties, which round to even, need an odd number above a single bit.
    tie = wrap(rng.integers(-8, 8, x.shape) << 21 | 1 << 20, bits)
    x[:] = np.where(rng.random(x.shape) < 0.2, tie, x)
    y[:] = np.where(rng.random(y.shape) < 0.1, 21, y)
    return state


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_equals_semantics(name: str, operation: AluOp, saturate: int) -> None:
    """Register form over pairs of rows."""
    variant = VARIANTS[name]
    state = corner_state(name, np.random.default_rng(17))
    x, y = state.acc[:PAIRS].reshape(-1), state.acc[128 : 128 + PAIRS].reshape(-1)
    x, y = x.copy(), y.copy()
    amounts = set(wrap(y, 7).tolist())
    assert len(amounts) == 128, "every amount of a shift must occur"
    zeros = np.zeros(PAIRS, dtype=np.int64)
    rows = np.arange(PAIRS)
    state.uops[Unit.ALU][:PAIRS] = encode_uops(
        variant, Unit.ALU, {"dst": rows, "src": rows + 128, "par": zeros}
    )
    instruction = Instruction.of(
        Opcode.ALU, operation=operation, saturate=saturate, destination=OutMemory.ACC,
        uop_end=PAIRS, extent0=1, extent1=1, extent2=1,
    )  # fmt: skip
    execute(state, instruction, np.zeros(0, dtype=np.uint8), [0] * 4, [0] * 4)
    expected = state.acc[:PAIRS].reshape(-1)

    dut = AluLanes(variant=variant)
    lanes, bits = variant.units.alu_lanes, variant.array.accumulator_bits
    mask = (1 << bits) - 1
    groups = len(x) // lanes
    seen: list[int] = []

    def pack(values: np.ndarray) -> int:
        return sum((int(v) & mask) << (k * bits) for k, v in enumerate(values))

    async def run(ctx) -> None:
        for k in range(-1, groups + AluLanes.latency()):
            # Another operation follows the last group: nothing may leak into a neighbour.
            if 0 <= k < groups:
                ctx.set(dut.x, pack(x[k * lanes : (k + 1) * lanes]))
                ctx.set(dut.y, pack(y[k * lanes : (k + 1) * lanes]))
            ctx.set(dut.operation, operation if k + 1 < groups else AluOp.MUL)
            ctx.set(dut.saturate, saturate if 0 <= k < groups else 1 - saturate)
            if k >= AluLanes.latency():
                word = ctx.get(dut.result)
                seen.extend(word >> (n * bits) & mask for n in range(lanes))
            await ctx.tick()

    simulate(dut, run)
    np.testing.assert_array_equal(wrap(np.array(seen), bits), expected)
    if saturate:
        low, high = integer_range(variant.array.output_bits)
        assert expected.min() >= low and expected.max() <= high
