"""Scratchpads and micro-op memories: fills, pads, foreign fills, latency."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from daedal.hw.family import Platform
from daedal.hw.memory.scratchpad import (
    WRITE_CYCLES,
    MicroOpMemory,
    OutScratchpad,
    Scratchpad,
    read_shape,
)
from daedal.hw.memory.sliding_rows import SlidingRows
from daedal.isa.latencies import ACC_READ_CYCLES, RAM_READ_CYCLES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import simulate

TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "one_tap": TINY.replace(depthwise_taps=1),
    "bus128": TINY.replace(data_bits=128, block_in=16, block_out=16, requantize_lanes=4),
}


class WatchedInputs(wiring.Component):
    """INP, and whether a read collides with a write; `three`: the read is of three rows."""

    def __init__(self) -> None:
        super().__init__({"three": wiring.In(1), "collides": Out(1)})
        self.inp = Scratchpad(variant=TINY, memory=Memory.INP)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.inp = self.inp
        m.d.comb += self.collides.eq(self.inp.collides(self.three))
        return m


def test_a_read_of_three_rows_collides_with_a_write_of_any() -> None:
    dut, seen = WatchedInputs(), {}

    async def run(ctx) -> None:
        for three in (0, 1):
            for distance in range(-1, 4):
                fill = {"memory": LoadMemory.INP, "row": 5 + distance, "beat": 0, "data": 1}
                ctx.set(dut.inp.fill.p, fill)
                ctx.set(dut.inp.fill.valid, 1)
                for _ in range(WRITE_CYCLES):
                    await ctx.tick()
                    ctx.set(dut.inp.fill.valid, 0)
                ctx.set(dut.three, three)
                ctx.set(dut.inp.read.row, 5)
                for enable in (0, 1):
                    ctx.set(dut.inp.read.enable, enable)
                    seen[three, distance, enable] = ctx.get(dut.collides)
                await ctx.tick()

    simulate(dut, run)
    assert {key for key, collides in seen.items() if collides} == {
        (0, 0, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1),
    }  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("memory", [Memory.INP, Memory.WGT, Memory.PAR])
def test_fills_and_reads(name: str, memory: Memory) -> None:
    """Words and pads land where they belong, fills for others do not; reads take two cycles."""
    variant: Variant = VARIANTS[name]
    pad = scratchpad(variant, memory)
    bus = variant.bus.data_bits
    beats = pad.row_beats(variant)
    _, width = read_shape(variant, memory)
    rows_per_read = 3 if memory is Memory.INP and variant.array.depthwise_taps == 3 else 1
    slices = pad.row_bits // width
    rng = np.random.default_rng(6)
    # Neighbours, of which every one is the first of three that are read.
    rows = [*range(7), pad.depth_rows // 2, *range(pad.depth_rows - 3, pad.depth_rows)]
    model = {row: [0] * beats for row in rows}
    dut = Scratchpad(variant=variant, memory=memory)
    assert len(dut.read.data) == rows_per_read * width

    def read(row: int, part: int) -> tuple[int, int]:
        """What is to be seen, and a mask that leaves out rows that do not exist or were not set."""
        words, known = [], []
        for number in range(row, row + rows_per_read):
            taken = model.get(number, [0] * beats)[part * beats // slices :][: beats // slices]
            words += taken
            known += [number in model] * len(taken)
        data = sum(word << (k * bus) for k, word in enumerate(words))
        return data, sum(((1 << bus) - 1) << (k * bus) for k, bit in enumerate(known) if bit)

    async def run(ctx) -> None:
        ctx.set(dut.fill.valid, 1)
        for _ in range(150):
            target = LoadMemory[memory.name] if rng.random() < 0.8 else LoadMemory.ACC
            row, beat = int(rng.choice(rows)), int(rng.integers(beats))
            value = int.from_bytes(rng.bytes(bus // 8), "little")
            ctx.set(dut.fill.p, {"memory": target, "row": row, "beat": beat, "data": value})
            if memory is Memory.INP:
                # Pads of the words of another row that the fill leaves free.
                taken = 1 << beat if target.memory is memory else 0
                enable, padded = int(rng.integers(1 << beats)) & ~taken, int(rng.choice(rows))
                pad_word = int.from_bytes(rng.bytes(bus // 8), "little")
                ctx.set(dut.pads.enable, enable)
                ctx.set(dut.pads.row, padded)
                ctx.set(dut.pads.data, pad_word)
                for number in range(beats):
                    if enable >> number & 1:
                        model[padded][number] = pad_word
            assert ctx.get(dut.fill.ready)
            await ctx.tick()
            if target.memory is memory:
                model[row][beat] = value
        ctx.set(dut.fill.valid, 0)
        if memory is Memory.INP:
            ctx.set(dut.pads.enable, 0)
        await ctx.tick().repeat(WRITE_CYCLES)
        order = [(int(rng.choice(rows)), int(rng.integers(slices))) for _ in range(60)]
        ctx.set(dut.read.enable, 1)
        for k in range(len(order) + 2):
            if k < len(order):
                ctx.set(dut.read.row, order[k][0] * slices + order[k][1])
            if k >= 2:
                expected, mask = read(*order[k - 2])
                assert ctx.get(dut.read.data) & mask == expected, f"read {k - 2}"
            await ctx.tick()

    simulate(dut, run)


@pytest.mark.parametrize("data_bits", [64, 128])
def test_words_of_narrow_weights_become_two(data_bits: int) -> None:
    """Between words of wide weights; foreign fills change nothing."""
    shape = {"block_in": 16, "block_out": 16, "requantize_lanes": 4, "wgt_bytes": 4096}
    variant = TINY.replace("narrow", data_bits=data_bits, narrow_weights=True, **shape)
    pad = scratchpad(variant, Memory.WGT)
    rng = np.random.default_rng(7)
    model = np.zeros((pad.depth_rows, pad.elements), dtype=np.int8)
    dut = Scratchpad(variant=variant, memory=Memory.WGT)
    kinds = {LoadMemory.WGT: data_bits // 8, LoadMemory.WGT_NARROW: data_bits // 4,
             LoadMemory.ACC_NARROW: data_bits // 8}  # fmt: skip

    async def run(ctx) -> None:
        ctx.set(dut.fill.valid, 1)
        for number in range(pad.depth_rows * pad.elements * 8 // data_bits + 200):
            # First every word of every row, then any.
            kind, row, beat = LoadMemory.WGT, *divmod(number, pad.elements * 8 // data_bits)
            if row >= pad.depth_rows:
                kind = list(kinds)[int(rng.integers(3))]
                row = int(rng.integers(pad.depth_rows))
                beat = int(rng.integers(pad.elements // kinds[kind]))
            raw = rng.bytes(data_bits // 8)
            data = int.from_bytes(raw, "little")
            ctx.set(dut.fill.p, {"memory": kind, "row": row, "beat": beat, "data": data})
            await ctx.tick()
            weights = [int(x) for x in np.frombuffer(raw, dtype=np.int8)]
            if kind is LoadMemory.WGT_NARROW:
                nibbles = [x >> shift & 15 for x in weights for shift in (0, 4)]
                weights = [x - 16 if x > 7 else x for x in nibbles]
            if kind is not LoadMemory.ACC_NARROW:
                model[row, beat * kinds[kind] : (beat + 1) * kinds[kind]] = weights
        ctx.set(dut.fill.valid, 0)
        await ctx.tick().repeat(WRITE_CYCLES)
        ctx.set(dut.read.enable, 1)
        for row in range(pad.depth_rows):
            ctx.set(dut.read.row, row)
            await ctx.tick().repeat(RAM_READ_CYCLES)
            expected = int.from_bytes(model[row].tobytes(), "little")
            assert ctx.get(dut.read.data) == expected, f"row {row}"

    simulate(dut, run)


def test_only_filled_memories() -> None:
    """OUT has another writer."""
    with pytest.raises(ValueError, match="must be INP, WGT or PAR"):
        Scratchpad(variant=TINY, memory=Memory.OUT)


def test_three_rows_of_one_bank_each() -> None:
    """The smallest depth: all four starts, rows past the end from the front."""
    dut = SlidingRows(depth=4, columns=2, column_bits=8)

    async def run(ctx) -> None:
        ctx.set(dut.write.enable, 0b11)
        for row in range(4):
            ctx.set(dut.write.row, [row, row])
            ctx.set(dut.write.data, 0x2010 + 0x0101 * row)
            await ctx.tick()
        ctx.set(dut.write.enable, 0)
        ctx.set(dut.read.enable, 1)
        for row in range(4):
            ctx.set(dut.read.row, row)
            await ctx.tick().repeat(2)
            expected = [0x2010 + 0x0101 * ((row + k) % 4) for k in range(3)]
            assert ctx.get(dut.read.data) == sum(x << (16 * k) for k, x in enumerate(expected))

    simulate(dut, run)


def test_sliding_rows_have_a_row_in_each_bank() -> None:
    SlidingRows(depth=4, columns=2, column_bits=8)
    with pytest.raises(ValueError, match="a depth of at least 4, not 3"):
        SlidingRows(depth=3, columns=2, column_bits=8)


@pytest.mark.parametrize("name", VARIANTS)
def test_out_masks(name: str) -> None:
    """Groups of lanes are written by their masks, everything else stays."""
    variant = VARIANTS[name]
    pad = scratchpad(variant, Memory.OUT)
    group = min(variant.units.alu_lanes, variant.units.requantize_lanes)
    rng = np.random.default_rng(2)
    rows = [0, 3, pad.depth_rows - 1]
    model = dict.fromkeys(rows, 0)
    dut = OutScratchpad(variant=variant)

    async def run(ctx) -> None:
        for _ in range(80):
            row, enable = int(rng.choice(rows)), bool(rng.random() < 0.8)
            groups = rng.integers(0, 2, pad.elements // group)
            elements = np.repeat(groups, group)
            bits = np.repeat(elements, pad.element_bits)
            data = int.from_bytes(rng.bytes(pad.row_bits // 8), "little")
            mask = sum(int(bit) << k for k, bit in enumerate(bits))
            ctx.set(dut.write.row, row)
            ctx.set(dut.write.enable, enable)
            ctx.set(dut.write.mask, sum(int(bit) << k for k, bit in enumerate(elements)))
            ctx.set(dut.write.data, data)
            await ctx.tick()
            if enable:
                model[row] = model[row] & ~mask | data & mask
        ctx.set(dut.write.enable, 0)
        ctx.set(dut.read.enable, 1)
        for row in rows:
            ctx.set(dut.read.row, row)
            await ctx.tick().repeat(ACC_READ_CYCLES)
            assert ctx.get(dut.read.data) == model[row]

    simulate(dut, run)


@pytest.mark.parametrize("name", VARIANTS)
def test_two_readers_of_out(name: str) -> None:
    """STORE and GEMM read any rows while others are written; GEMM's rows are older."""
    variant = VARIANTS[name].replace(gemm_reads_out=True)
    pad = scratchpad(variant, Memory.OUT)
    group = min(variant.units.alu_lanes, variant.units.requantize_lanes)
    rng = np.random.default_rng(4)
    rows = [0, 1, 6, pad.depth_rows - 1]
    model = dict.fromkeys(rows, 0)
    dut = OutScratchpad(variant=variant)
    # By cycle: rows before the write of that cycle, which row is written, and those that are read.
    states: list[dict[int, int]] = []
    written: list[int | None] = []
    reads: list[tuple[int, int]] = []

    def choose(forbidden: int | None) -> int:
        return int(rng.choice([row for row in rows if row != forbidden]))

    async def run(ctx) -> None:
        ctx.set(dut.read.enable, 1)
        ctx.set(dut.operand.enable, 1)
        for cycle in range(200):
            row, enable = int(rng.choice(rows)), bool(rng.random() < 0.6)
            elements = np.repeat(rng.integers(0, 2, pad.elements // group), group)
            mask = sum(int(bit) << k for k, bit in enumerate(np.repeat(elements, pad.element_bits)))
            data = int.from_bytes(rng.bytes(pad.row_bits // 8), "little")
            ctx.set(dut.write.row, row)
            ctx.set(dut.write.enable, enable)
            ctx.set(dut.write.mask, sum(int(bit) << k for k, bit in enumerate(elements)))
            ctx.set(dut.write.data, data)
            states.append(dict(model))
            written.append(row if enable else None)
            settled = cycle - WRITE_CYCLES
            reads.append((choose(written[-1]), choose(written[settled] if settled >= 0 else None)))
            ctx.set(dut.read.row, reads[-1][0])
            ctx.set(dut.operand.row, reads[-1][1])
            if (asked := cycle - ACC_READ_CYCLES) >= 0:
                assert ctx.get(dut.read.data) == states[asked][reads[asked][0]]
            if (asked := cycle - RAM_READ_CYCLES) >= WRITE_CYCLES:
                found = ctx.get(dut.operand.data)
                assert found == states[asked - WRITE_CYCLES][reads[asked][1]]
            await ctx.tick()
            if enable:
                model[row] = model[row] & ~mask | data & mask

    simulate(dut, run)


class Watched(wiring.Component):
    """OUT, and whether a row of it is read while it is written."""

    meets: Out(1)

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.out = OutScratchpad(variant=variant)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.out = self.out
        m.d.comb += self.meets.eq(self.out.collides())
        return m


@pytest.mark.parametrize(("reader", "copied"), [("read", False), ("read", True), ("operand", True)])
@pytest.mark.parametrize("row", [3, 4])
def test_a_read_of_out_that_meets_a_write_is_seen(reader: str, copied: bool, row: int) -> None:
    """Row 3 is written; GEMM's read takes no registers to the RAM, STORE's as many as a write."""
    top = Watched(TINY.replace(gemm_reads_out=copied))
    read = getattr(top.out, reader)
    late = WRITE_CYCLES if reader == "operand" else 0
    seen: list[tuple[int, int]] = []

    async def run(ctx) -> None:
        ctx.set(read.row, row)
        ctx.set(top.out.write.row, 3)
        ctx.set(top.out.write.mask, 0b11)
        for distance in range(-4, 5):
            for cycle in range(12):
                ctx.set(top.out.write.enable, cycle == 4)
                ctx.set(read.enable, cycle == 4 + distance)
                if ctx.get(top.meets):
                    seen.append((distance, cycle))
                await ctx.tick()

    simulate(top, run)
    assert seen == ([(late, 4 + WRITE_CYCLES)] if row == 3 else [])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("unit", [Unit.GEMM, Unit.ALU])
def test_micro_ops_move_on_advance(name: str, unit: Unit) -> None:
    """The micro-op of two advances ago, however many cycles those took."""
    variant = VARIANTS[name]
    target = LoadMemory.UOP_GEMM if unit is Unit.GEMM else LoadMemory.UOP_ALU
    pad = scratchpad(variant, target.memory)
    rng = np.random.default_rng(1)
    dut = MicroOpMemory(variant=variant, unit=unit)
    used = dut.data.shape().size
    words = rng.integers(0, 1 << 62, 16, dtype=np.uint64).tolist()

    async def run(ctx) -> None:
        ctx.set(dut.fill.valid, 1)
        for row in range(16 // pad.elements):
            data = sum(words[row * pad.elements + k] << (64 * k) for k in range(pad.elements))
            ctx.set(dut.fill.p, {"memory": target, "row": row, "data": data})
            await ctx.tick()
        # A fill for another memory of the same row changes nothing.
        ctx.set(dut.fill.p, {"memory": LoadMemory.PAR, "row": 0, "data": 0})
        await ctx.tick()
        ctx.set(dut.fill.valid, 0)
        await ctx.tick().repeat(WRITE_CYCLES)
        asked: list[int] = []
        for _ in range(100):
            index, advance = int(rng.integers(16)), bool(rng.random() < 0.6)
            ctx.set(dut.index, index)
            ctx.set(dut.advance, advance)
            if len(asked) >= 2:
                expected = words[asked[-2]] & ((1 << used) - 1)
                assert ctx.get(dut.data.as_value()) == expected
            await ctx.tick()
            if advance:
                asked.append(index)

    simulate(dut, run)
