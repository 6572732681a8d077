"""FETCH behind the read master and a random memory."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from daedal.hw.bus.read_master import ReadMaster
from daedal.hw.issue.fetch import Fetch
from daedal.isa.instruction import Instruction, encode
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Opcode, Unit, instruction_bytes
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.stream_bench import Bench, sink

MEMORY_BYTES = 1 << 17
PROGRAM = 0x0FC0  # bursts of the program are cut by a 4 KiB boundary
TINY, VTA = load_variant("tiny"), load_variant("vta")
VARIANTS = {
    "tiny": TINY,
    "one word": VTA.replace("one-word", data_bits=256, block_in=32, block_out=32),
    "128 bits": VTA.replace("bits128", data_bits=128),
}
UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
OPCODES = (Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.STORE)


class FetchSystem(Elaboratable):
    """FETCH and the read master, wired as in the machine."""

    def __init__(self, variant: Variant):
        self.fetch = Fetch(variant=variant)
        self.master = ReadMaster(variant=variant)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.fetch, m.submodules.master = self.fetch, self.master
        connect(m, self.fetch.request, self.master.request[0])
        connect(m, self.master.data[0], self.fetch.data)
        return m


class FetchBench(Bench):
    """Runs programs from memory; `queues`, `done_at`, `errors` and `classes` hold what came out."""

    def __init__(self, slave: AxiSlave, gap: float = 0.0):
        variant = slave.variant
        self.system = FetchSystem(variant)
        super().__init__(self.system)
        self.dut = self.system.fetch
        self.variant = variant
        self.queues: list[list[dict[str, int]]] = [[] for _ in UNITS]
        self.done_at: list[int] = []
        self.errors: list[tuple[int, int]] = []
        self.classes: list[CycleClass] = []
        self.work = 0

        async def watch(ctx: Any) -> None:
            dut = self.dut
            while True:
                _, _, done, failed, code, index, kind, work = await ctx.tick().sample(
                    dut.done, dut.error.valid, dut.error.code, dut.error.index,
                    dut.cycle_class, dut.work,
                )  # fmt: skip
                if done:
                    self.done_at.append(len(self.classes))
                if failed:
                    self.errors.append((code, index))
                self.classes.append(CycleClass(kind))
                self.work += work

        self.background(slave.reads(self.system.master.ar, self.system.master.r), watch)
        for unit in UNITS:
            self.background(sink(self.dut.queue[unit], self.queues[unit], slave.rng, gap))

    async def start(self, ctx: Any, length: int) -> None:
        """Start the program of `length` instructions at `PROGRAM`."""
        ctx.set(self.dut.program_word_address, PROGRAM // self.variant.bus_bytes)
        ctx.set(self.dut.length, length)
        ctx.set(self.dut.start, 1)
        await ctx.tick()
        ctx.set(self.dut.start, 0)
        # What is given with the start need not stay.
        ctx.set(self.dut.program_word_address, 0)
        ctx.set(self.dut.length, 0)


def random_words(variant: Variant, rng: np.random.Generator, count: int) -> list[int]:
    """Instructions whose bits are random but for the opcode; no FINISH."""
    bits = 8 * instruction_bytes(variant)
    return [
        int.from_bytes(rng.bytes(bits // 8), "little") >> 4 << 4 | int(rng.choice(OPCODES))
        for _ in range(count)
    ]


def finish(variant: Variant) -> int:
    return int.from_bytes(encode(variant, Instruction.of(Opcode.FINISH)), "little")


def place(slave: AxiSlave, words: list[int]) -> None:
    size = instruction_bytes(slave.variant)
    raw = b"".join(word.to_bytes(size, "little") for word in words)
    slave.data[PROGRAM : PROGRAM + len(raw)] = np.frombuffer(raw, dtype=np.uint8)


def expected_queues(words: list[int]) -> list[list[dict[str, int]]]:
    queues: list[list[dict[str, int]]] = [[] for _ in UNITS]
    for index, word in enumerate(words):
        queues[OPCODES.index(Opcode(word & 0xF))].append({"instruction": word, "index": index})
    return queues


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("gap", [0.0, 0.6])
def test_each_unit_gets_its_instructions(
    variant: Variant, gap: float, rng: np.random.Generator
) -> None:
    """Two programs one after the other; what lies behind FINISH is not dispatched."""
    slave = AxiSlave(
        variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=8, extra_latency=20,
        stall=gap / 2,
    )  # fmt: skip
    bench = FetchBench(slave, gap)
    programs = [random_words(variant, rng, count) for count in (60, 25)]

    async def scenario(ctx: Any) -> None:
        for words in programs:
            behind = random_words(variant, rng, 30)
            place(slave, [*words, finish(variant), *behind])
            await bench.start(ctx, len(words) + 1 + len(behind))
            await ctx.tick().until(bench.dut.finishing)
            ctx.set(bench.dut.all_quiet, 0)
            await ctx.tick().repeat(120)
            assert not bench.done_at, "done although not all was quiet"
            ctx.set(bench.dut.all_quiet, 1)
            await ctx.tick().until(bench.dut.done)
            await ctx.tick().repeat(3)
            assert bench.queues == expected_queues(words)
            assert len(bench.done_at) == 1
            bench.done_at.clear()
            for queue in bench.queues:
                queue.clear()

    bench.foreground(scenario)
    bench.run()
    assert bench.errors == []
    assert bench.work == sum(map(len, programs))
    assert bench.classes.count(CycleClass.BUSY) == bench.work


def run_to_error(slave: AxiSlave, length: int) -> FetchBench:
    bench = FetchBench(slave)

    async def scenario(ctx: Any) -> None:
        await bench.start(ctx, length)
        while not bench.errors:
            await ctx.tick()
        await ctx.tick().repeat(100)

    bench.foreground(scenario)
    bench.run()
    return bench


@pytest.mark.parametrize("opcode", [0, 6, 15])
def test_unknown_opcodes_are_illegal(opcode: int, rng: np.random.Generator) -> None:
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    words = random_words(TINY, rng, 9)
    words[5] = words[5] >> 4 << 4 | opcode
    place(slave, [*words, finish(TINY)])
    bench = run_to_error(slave, 10)
    assert bench.errors == [(ErrorCode.ILLEGAL_INSTRUCTION, 5)]
    assert bench.work == 5


@pytest.mark.parametrize("length", [0, 1, 9])
def test_a_program_must_end_with_finish(length: int, rng: np.random.Generator) -> None:
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    place(slave, [*random_words(TINY, rng, length), finish(TINY)])
    bench = run_to_error(slave, length)
    assert bench.errors == [(ErrorCode.NO_FINISH, max(0, length - 1))]
    assert bench.work == length
    assert bench.done_at == []


@pytest.mark.parametrize(
    ("response", "code"), [(2, ErrorCode.READ_SLVERR), (3, ErrorCode.READ_DECERR)]
)
def test_bus_errors_name_the_instruction(
    response: int, code: ErrorCode, rng: np.random.Generator
) -> None:
    slave = AxiSlave(
        TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng,
        read_errors={PROGRAM + 3 * instruction_bytes(TINY) + 8: response},
    )  # fmt: skip
    place(slave, [*random_words(TINY, rng, 9), finish(TINY)])
    bench = run_to_error(slave, 10)
    assert bench.errors == [(code, 3)]
    assert bench.work == 3


def test_classes_tell_who_waits(rng: np.random.Generator) -> None:
    """Nothing taken from a queue is WAIT for its unit; before memory answers it is STALL."""
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=64)
    place(slave, [int(Opcode.ALU), finish(TINY)])
    dut = FetchSystem(TINY)
    bench = Bench(dut)
    seen: list[CycleClass] = []

    async def scenario(ctx: Any) -> None:
        fetch = dut.fetch
        ctx.set(fetch.program_word_address, PROGRAM // TINY.bus_bytes)
        ctx.set(fetch.length, 2)
        ctx.set(fetch.start, 1)
        await ctx.tick()
        ctx.set(fetch.start, 0)
        for cycle in range(200):
            ctx.set(fetch.queue[2].ready, cycle >= 150)
            _, _, kind = await ctx.tick().sample(fetch.cycle_class)
            seen.append(CycleClass(kind))

    bench.background(slave.reads(dut.master.ar, dut.master.r))
    bench.foreground(scenario)
    bench.run()
    first = seen.index(CycleClass.WAIT_ALU)
    assert set(seen[:first]) == {CycleClass.STALL} and first >= 64
    assert set(seen[first:150]) == {CycleClass.WAIT_ALU}
    assert seen[150] is CycleClass.BUSY
    assert seen[-1] is CycleClass.IDLE


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_program_streams_at_the_rate_of_the_bus(
    variant: Variant, rng: np.random.Generator
) -> None:
    """With 64 cycles of latency, 150 instructions cost their words, and one latency."""
    slave = AxiSlave(variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=64)
    words = random_words(variant, rng, 150)
    place(slave, [*words, finish(variant)])
    bench = FetchBench(slave)

    async def scenario(ctx: Any) -> None:
        await bench.start(ctx, len(words) + 1)
        await ctx.tick().until(bench.dut.finishing)

    bench.foreground(scenario)
    cycles = bench.run()
    beats = slave.beats_read
    print(f"{len(words)} instructions of {beats // 151} words in {cycles} cycles")
    assert sum(map(len, bench.queues)) == 150
    assert cycles <= beats + 64 + 20
