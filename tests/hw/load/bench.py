"""LOAD with the read master, and a bench that runs instructions on them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from daedal.hw.bus.read_master import ReadMaster
from daedal.hw.interfaces import Activity
from daedal.hw.load.load import Load
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.shared_designs import shared_design
from tests.hw.stream_bench import Bench, plain, source

_INTO_ACC = (LoadMemory.ACC, LoadMemory.ACC_NARROW)
MEMORY_BYTES = 1 << 16
BASES = [0, 0x4000, 0x8000, 0xA000]
REGIONS = [MEMORY_BYTES - base for base in BASES]
"""Bytes behind the bases: all that there are."""


class LoadSystem(Elaboratable):
    """LOAD and the read master, wired as in the machine."""

    def __init__(self, variant: Variant):
        self.load = Load(variant=variant)
        self.master = ReadMaster(variant=variant)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.load, m.submodules.master = self.load, self.master
        connect(m, self.load.request, self.master.request[1])
        connect(m, self.master.data[1], self.load.data)
        return m


class LoadBench(Bench):
    """Runs LOAD instructions; `fills`, `retired` and `errors` hold what came out.

    A pad of INP counts as a fill whose `columns` say which bus words of the row it writes.
    """

    def __init__(
        self,
        variant: Variant,
        instructions: list[Instruction],
        slave: AxiSlave,
        *,
        issue_gap: float = 0.0,
        fill_gap: float = 0.0,
        regions: Sequence[int] = REGIONS,
    ):
        self.system, simulator = shared_design(LoadSystem, variant=variant)
        super().__init__(self.system, simulator)
        dut = self.system.load
        self.fills: list[dict[str, int]] = []
        self.words_at_retirement: list[int] = []
        self.retired: list[dict[str, int]] = []
        self.errors: list[tuple[int, int]] = []
        self.both = 0
        self.cycles_in = dict.fromkeys(Activity, 0)
        self.work = 0
        items = [
            {"instruction": {"opcode": item.opcode, **item.values}, "index": number}
            for number, item in enumerate(instructions)
        ]

        async def watch(ctx: Any) -> None:
            for number, base in enumerate(BASES):
                ctx.set(dut.base_address[number], base // variant.bus_bytes)
                ctx.set(dut.region_words[number], regions[number] // variant.bus_bytes)
            while True:
                (
                    _, _, valid, record, failed, code, index, activity, work,
                    columns, row, pad_word, fill_valid, fill_ready, fill,
                ) = await ctx.tick().sample(
                    dut.retire.valid, dut.retire.payload,
                    dut.error.valid, dut.error.code, dut.error.index, dut.activity, dut.work,
                    dut.pads.enable, dut.pads.row, dut.pads.data,
                    dut.fill.valid, dut.fill.ready, dut.fill.payload,
                )  # fmt: skip
                if columns:
                    self.fills.append(
                        {"memory": LoadMemory.INP, "row": row, "pad": 1, "data": pad_word,
                         "columns": columns}
                    )  # fmt: skip
                    if fill_valid and fill_ready:
                        # The fill of an earlier load may have had to wait.
                        self.both += fill.memory == LoadMemory.INP
                        assert fill.memory != LoadMemory.INP or not columns >> fill.beat & 1
                if valid:
                    self.retired.append(plain(record))
                    self.words_at_retirement.append(words_written(variant, self.fills))
                if failed:
                    self.errors.append((code, index))
                self.cycles_in[Activity(activity)] += 1
                self.work += work

        self.background(
            slave.reads(self.system.master.ar, self.system.master.r),
            watch,
            self._fill_sink(slave.rng, fill_gap),
            source(dut.issue, items, slave.rng, issue_gap),
        )

    def _fill_sink(self, rng: np.random.Generator, gap: float) -> Callable:
        """Take the fills, those of the accumulators after random waits."""
        fill = self.system.load.fill

        async def bench(ctx: Any) -> None:
            waiting = None
            while True:
                into_acc = ctx.get(fill.payload.memory) in _INTO_ACC
                ready = not into_acc or rng.random() >= gap
                ctx.set(fill.ready, ready)
                _, _, valid, payload = await ctx.tick().sample(fill.valid, fill.payload)
                item = plain(payload)
                assert waiting in (None, item), "a fill changed before ready"
                assert valid or waiting is None, "valid fell before ready"
                waiting = item if valid and not ready else None
                if valid:
                    assert item["into_acc"] == (item["memory"] in _INTO_ACC)
                if valid and ready:
                    self.fills.append(item)

        return bench


def words_written(variant: Variant, fills: list[dict[str, int]]) -> int:
    """Bus words of INP and of the accumulators that were written."""
    row = scratchpad(variant, Memory.ACC).row_beats(variant)
    return sum(
        fill["columns"].bit_count() if "columns" in fill else row if fill["pad"] else 1
        for fill in fills
        if fill["memory"] in (LoadMemory.INP, LoadMemory.ACC)
    )
