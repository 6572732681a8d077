"""LOAD behind the read master and a random memory, against `isa.semantics`."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from daedal.hw.interfaces import Activity
from daedal.hw.load import Load
from daedal.hw.read_master import ReadMaster
from daedal.isa.elements import from_memory
from daedal.isa.instruction import Instruction, encode
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.transfer import PADDABLE
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.stream_bench import Bench, plain, sink, source

MEMORY_BYTES = 1 << 16
BASES = [0, 0x4000, 0x8000, 0xA000]
TINY, VTA = load_variant("tiny"), load_variant("vta")
VARIANTS = {
    "tiny": TINY,
    "int16": TINY.replace(
        "int16", input_bits=16, output_bits=16, weight_bits=16, accumulator_bits=48
    ),
    "wide": VTA.replace("wide", data_bits=128, block_out=32, depthwise_taps=0, wgt_bytes=32768),
}


class LoadSystem(Elaboratable):
    """LOAD and the read master, wired as in the machine."""

    def __init__(self, variant: Variant):
        self.load = Load(variant=variant)
        self.master = ReadMaster(variant=variant)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.load, m.submodules.master = self.load, self.master
        connect(m, self.load.request, self.master.request1)
        connect(m, self.master.data1, self.load.data)
        return m


class LoadBench(Bench):
    """Runs LOAD instructions; `fills` and `retired` hold what came out."""

    def __init__(
        self, variant: Variant, instructions: list[Instruction], slave: AxiSlave, fill_gap: float = 0
    ):
        self.system = LoadSystem(variant)
        super().__init__(self.system)
        dut = self.system.load
        self.fills: list[dict[str, int]] = []
        self.retired: list[dict[str, int]] = []
        self.fills_at_retirement: list[int] = []
        self.errors: list[dict[str, int]] = []
        self.activities: dict[Activity, int] = dict.fromkeys(Activity, 0)
        self.work = 0
        items = [
            {"instruction": int.from_bytes(encode(variant, item), "little"), "index": number}
            for number, item in enumerate(instructions)
        ]

        async def watch(ctx: Any) -> None:
            for number, base in enumerate(BASES):
                ctx.set(dut.base_address[number], base // variant.bus_bytes)
            while True:
                _, _, retire, error, activity, work = await ctx.tick().sample(
                    dut.retire, dut.error, dut.activity, dut.work
                )
                if retire.valid:
                    self.retired.append(plain(retire.payload))
                    self.fills_at_retirement.append(len(self.fills))
                if error.valid:
                    self.errors.append({"code": error.code, "index": error.index})
                self.activities[Activity(activity)] += 1
                self.work += work

        self.background(
            slave.reads(self.system.master.ar, self.system.master.r),
            watch,
            sink(dut.fill, self.fills, slave.rng, fill_gap),
        )
        self.foreground(source(_raw_issue(dut), items, slave.rng, fill_gap))


class _raw_issue:  # noqa: N801
    """The issue stream, whose instruction is set as one number."""

    def __init__(self, dut: Load):
        self.valid, self.ready = dut.issue.valid, dut.issue.ready
        self.payload = _RawPayload(dut.issue.payload)


class _RawPayload:
    def __init__(self, payload: Any):
        self.payload = payload
