"""The tables behind REQUANTIZE's lanes: fills, entries of every lane, results that pass."""

import numpy as np
import pytest

from daedal.hw.memory.scratchpad import WRITE_CYCLES
from daedal.hw.memory.table_memory import TableMemory
from daedal.isa.latencies import LOOKUP_CYCLES
from daedal.isa.numerics import integer_range, wrap
from daedal.isa.scratchpad import TABLE_ENTRIES, Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import simulate

TINY = load_variant("tiny")
VARIANTS = {
    "one": TINY.replace("one", tables=1),
    "wide": TINY.replace("wide", tables=4, wide_requantize=True),
    "eight": TINY.replace("eight", tables=8, requantize_lanes=8),
    "bus128": TINY.replace("bus128", tables=2, data_bits=128, block_in=16, block_out=16),
    "bus512": load_variant("vta").replace(
        "bus512", tables=4, data_bits=512, block_in=64, block_out=64, out_bytes=1 << 16
    ),
}


async def fill(ctx, dut: TableMemory, variant: Variant, tables: np.ndarray) -> None:
    """Write all tables, word by word in a random order, between fills for other memories."""
    rng = np.random.default_rng(4)
    pad, size = scratchpad(variant, Memory.TAB), variant.bus_bytes
    raw = tables.astype("<i2").tobytes()
    beats = pad.row_beats(variant)
    ctx.set(dut.fill.valid, 1)
    for number in rng.permutation(len(raw) // size).tolist():
        place = {"row": number // beats, "beat": number % beats}
        word = int.from_bytes(raw[number * size : (number + 1) * size], "little")
        ctx.set(dut.fill.p, {"memory": LoadMemory.TAB, **place, "data": word})
        assert ctx.get(dut.fill.ready)
        await ctx.tick()
        if rng.random() < 0.3:
            ctx.set(dut.fill.p, {"memory": LoadMemory.PAR, **place, "data": ~word & 0xFF})
            await ctx.tick()
    ctx.set(dut.fill.valid, 0)
    await ctx.tick().repeat(WRITE_CYCLES)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_lane_reads_an_entry_of_its_own(name: str) -> None:
    """A group per cycle; without `enable` the results pass, as late as entries."""
    variant = VARIANTS[name]
    lanes, count = variant.units.requantize_lanes, variant.memory.tables
    rng = np.random.default_rng(9)
    tables = rng.integers(-(1 << 15), 1 << 15, (count, TABLE_ENTRIES))
    groups = 600
    bits = variant.result_bits
    low, high = integer_range(bits)
    results = rng.integers(low, high, (groups, lanes), endpoint=True)
    # Every entry of a table through one lane.
    results[:TABLE_ENTRIES, 0] = np.arange(-128, 128)
    table = np.where(np.arange(groups) < TABLE_ENTRIES, 0, rng.integers(0, count, groups))
    enable = (np.arange(groups) < TABLE_ENTRIES) | (rng.random(groups) < 0.7)
    wanted = np.where(enable[:, None], tables[table[:, None], results & 0xFF], results)
    dut = TableMemory(variant=variant)
    found = []

    async def run(ctx) -> None:
        await fill(ctx, dut, variant, tables)
        for number in range(groups + LOOKUP_CYCLES):
            if number >= LOOKUP_CYCLES:
                packed = ctx.get(dut.lookup.values.as_value())
                found.append([packed >> 16 * lane & 0xFFFF for lane in range(lanes)])
            if number < groups:
                group = results[number] & ((1 << bits) - 1)
                word = sum(int(x) << bits * lane for lane, x in enumerate(group))
                ctx.set(dut.lookup.results.as_value(), word)
                ctx.set(dut.lookup.enable, int(enable[number]))
                if count > 1:
                    ctx.set(dut.lookup.table, int(table[number]))
            await ctx.tick()

    simulate(dut, run)
    np.testing.assert_array_equal(wrap(np.array(found), 16), wanted)
