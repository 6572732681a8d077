"""Accumulators: every port at random against a model, fill forms, and bounded waiting."""

import numpy as np
import pytest

from daedal.hw.memory.accumulators import Accumulators
from daedal.isa.latencies import ACC_READ_CYCLES, PATIENCE_CYCLES
from daedal.isa.numerics import wrap
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import acc_bank, alu_turn, simulate

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "two_banks": TINY.replace(acc_banks=2, accumulator_bits=48, acc_bytes=16384),
    "eight_banks": TINY.replace(acc_banks=8, block_in=16, block_out=16, data_bits=128),
    "int4": TINY.replace(
        input_bits=4, weight_bits=4, output_bits=4, block_in=16, block_out=16, inp_bytes=2048
    ),
}
GEMM_LATENCY = 7
"""Cycles from a product's issue to its read in the bench's stand-in for GEMM."""


def pack(values: np.ndarray, bits: int) -> int:
    """Elements to one integer, the first in the lowest bits."""
    return sum((int(v) & ((1 << bits) - 1)) << (k * bits) for k, v in enumerate(values))


class Model:
    """Rows as arrays of elements."""

    def __init__(self, variant: Variant):
        self.variant = variant
        self.pad = scratchpad(variant, Memory.ACC)
        self.rows = np.zeros((self.pad.depth_rows, self.pad.elements), dtype=np.int64)

    def packed(self, row: int) -> int:
        return pack(self.rows[row], self.pad.element_bits)

    def fill(self, rng: np.random.Generator, row: int) -> dict[str, int]:
        """Apply a random fill of `row`; its payload."""
        narrow, padded = rng.random() < 0.4, rng.random() < 0.3
        bits = self.variant.array.input_bits if narrow else self.pad.memory_bits
        count = self.variant.bus.data_bits // bits
        values = rng.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, count, endpoint=True)
        beat = int(rng.integers(self.pad.elements // count))
        kept = wrap(values, self.pad.element_bits)
        if padded:
            self.rows[row] = np.tile(kept, self.pad.elements // count)
        else:
            self.rows[row, beat * count : (beat + 1) * count] = kept
        memory = LoadMemory.ACC_NARROW if narrow else LoadMemory.ACC
        data = pack(values, bits)
        return {
            "memory": memory,
            "into_acc": 1,
            "row": row,
            "beat": beat,
            "pad": padded,
            "data": data,
        }


@pytest.mark.parametrize("name", VARIANTS)
def test_every_port_at_random(name: str) -> None:
    """Five masters, each on rows of its own, in all banks; every read equals the model."""
    variant = VARIANTS[name]
    rng = np.random.default_rng(12)
    model = Model(variant)
    pad = model.pad
    depth, half = pad.depth_rows, pad.depth_rows // 2
    # A read must not meet a write of its row: each writer has rows that only it reads meanwhile.
    own = [[k + 8 * n + half * t for k in range(8) for t in (0, 1)] for n in range(3)]
    assert max(map(max, own)) < depth
    gemm_rows, alu_rows, fill_rows = own
    dut = Accumulators(variant=variant)
    done = {"gemm": False, "alu": False, "fill": False}

    async def answered(ctx, answer, row: int) -> None:
        # Exactly so many cycles after the acceptance, and only there.
        for _ in range(ACC_READ_CYCLES - 1):
            assert not ctx.get(answer.valid)
            await ctx.tick()
        assert ctx.get(answer.valid), f"no answer {ACC_READ_CYCLES} cycles after the request"
        assert ctx.get(answer.data) == model.packed(row), f"row {row}"

    async def gemm(ctx) -> None:
        for _ in range(300):
            row = int(rng.choice(gemm_rows))
            if rng.random() < 0.3:
                ctx.set(dut.gemm_read.row, row)
                ctx.set(dut.gemm_read.enable, 1)
                await ctx.tick()
                ctx.set(dut.gemm_read.enable, 0)
                await ctx.tick().repeat(ACC_READ_CYCLES)
                assert ctx.get(dut.gemm_read.data) == model.packed(row)
            else:
                model.rows[row] = rng.integers(-(1 << 31), 1 << 31, pad.elements)
                ctx.set(dut.gemm_write.row, row)
                ctx.set(dut.gemm_write.enable, 1)
                await ctx.tick()
                ctx.set(dut.gemm_write.enable, 0)
                await ctx.tick()
                ctx.set(dut.gemm_write.data, model.packed(row))
        done["gemm"] = True

    async def alu(ctx) -> None:
        for _ in range(120):
            row = int(rng.choice(alu_rows))
            group = min(variant.units.alu_lanes, variant.units.requantize_lanes)
            chosen = np.repeat(rng.integers(0, 2, pad.elements // group), group)
            values = rng.integers(-(1 << 31), 1 << 31, pad.elements)
            data = pack(values, pad.element_bits)
            model.rows[row] = np.where(chosen == 1, values, model.rows[row])
            ctx.set(dut.alu_write.payload, {"row": row, "mask": pack(chosen, 1), "data": data})
            await alu_turn(ctx, dut, "alu_write", acc_bank(variant, row))
            # Visible in the very next cycle, on either port.
            readers = ("alu_read", dut.alu_data), ("alu_read2", dut.alu_data2)
            port, answer = readers[int(rng.integers(2))]
            ctx.set(getattr(dut, port).payload, row)
            await alu_turn(ctx, dut, port, acc_bank(variant, row))
            await answered(ctx, answer, row)
        done["alu"] = True

    async def fill_and_store(ctx) -> None:
        for _ in range(150):
            row = int(rng.choice(fill_rows))
            ctx.set(dut.fill.p, model.fill(rng, row))
            ctx.set(dut.fill.valid, 1)
            await ctx.tick().until(dut.fill.ready)
            ctx.set(dut.fill.valid, 0)
            if rng.random() < 0.2:
                ctx.set(dut.fill.p, {"memory": LoadMemory.INP, "row": row, "data": 1})
                ctx.set(dut.fill.valid, 1)
                await ctx.tick().until(dut.fill.ready)
                ctx.set(dut.fill.valid, 0)
            # Visible in the very next cycle.
            ctx.set(dut.store_read.p, row)
            ctx.set(dut.store_read.valid, 1)
            await ctx.tick().until(dut.store_read.ready)
            ctx.set(dut.store_read.valid, 0)
            await answered(ctx, dut.store_data, row)
        done["fill"] = True

    simulate(dut, gemm, alu, fill_and_store)
    assert all(done.values())


@pytest.mark.parametrize("name", VARIANTS)
def test_waiting_is_bounded(name: str) -> None:
    """GEMM on one bank without end, everyone else on that bank too: all get their turns."""
    variant = VARIANTS[name]
    dut = Accumulators(variant=variant)
    row = scratchpad(variant, Memory.ACC).depth_rows - 1
    # The ALU's second read port stands back behind its first by design; leave the first out.
    ports = ("alu_read2", "store_read", "alu_write", "fill")
    # A hold is asked after the patience, its slot arrives after the pipeline; the others of the
    # same port may go before.
    bound = 4 * (PATIENCE_CYCLES + GEMM_LATENCY)
    worst = dict.fromkeys(ports, 0)
    served = dict.fromkeys(ports, 0)
    waited = dict.fromkeys(ports, 0)
    issued = 0

    async def gemm(ctx) -> None:
        nonlocal issued
        pipeline = [False] * GEMM_LATENCY
        hold = 0
        ctx.set(dut.gemm_read.row, row)
        ctx.set(dut.gemm_write.row, row)
        for _ in range(600):
            held = hold >> acc_bank(variant, row) & 1
            hold = ctx.get(dut.gemm_hold)
            assert hold in (0, 1 << acc_bank(variant, row))
            pipeline = [not held, *pipeline[:-1]]
            issued += not held
            ctx.set(dut.gemm_read.enable, pipeline[-1])
            ctx.set(dut.gemm_write.enable, pipeline[-1])
            await ctx.tick()

    def count(name: str, ready: bool) -> None:
        waited[name] = 0 if ready else waited[name] + 1
        served[name] += ready
        worst[name] = max(worst[name], waited[name])

    def stream(name: str, payload):
        async def run(ctx) -> None:
            port = getattr(dut, name)
            ctx.set(port.p, payload)
            ctx.set(port.valid, 1)
            for _ in range(600):
                _, _, ready = await ctx.tick().sample(port.ready)
                count(name, bool(ready))

        return run

    def alu(name: str, number: int, payload):
        closed = dut.write_closed if name == "alu_write" else dut.read_closed

        async def run(ctx) -> None:
            port, opened = getattr(dut, name), True  # as nothing was closed before
            ctx.set(port.payload, payload)
            ctx.set(dut.alu_wants[number : number + 1], ~0)
            for _ in range(600):
                ctx.set(port.valid, opened)
                ctx.set(dut.alu_waits[number], not opened)
                _, _, shut = await ctx.tick().sample(closed)
                count(name, opened)
                opened = not shut >> acc_bank(variant, row) & 1

        return run

    simulate(
        dut,
        gemm,
        alu("alu_read2", 1, row),
        alu("alu_write", 2, {"row": row}),
        stream("store_read", row),
        stream("fill", {"memory": LoadMemory.ACC, "into_acc": 1, "row": row}),
    )
    for name in ports:
        assert served[name] >= 600 // bound, name
        assert worst[name] <= bound, (name, worst[name])
    # GEMM keeps most of its slots.
    assert issued > 0.6 * 600
