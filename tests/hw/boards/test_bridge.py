"""The bridge between frames and a machine's registers and memory, against a model in Python."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect

from daedal.common.bridge import (
    MAX_PAYLOAD_BYTES,
    Answer,
    Identity,
    MemoryTest,
    Op,
    Status,
    parse_answer,
    request_frame,
)
from daedal.hw.boards.block_memory import BANK_WORDS
from daedal.hw.boards.bridge import RESET_CYCLES, Bridge
from daedal.hw.boards.frame_receiver import FrameReceiver
from daedal.hw.boards.frame_sender import FrameSender
from daedal.hw.boards.memory_slave import MemorySlave
from daedal.hw.boards.register_master import RegisterMaster
from daedal.isa.variant import load_variant
from tests.hw.stream_bench import Bench, sink

TINY = load_variant("tiny")
MEMORY_BYTES = BANK_WORDS * TINY.bus_bytes
CLOCK_HZ = 83_333_333
SILENCE = 64


class Board:
    """All blocks but the serial port and the machine; `registers` answers for the latter."""

    def __init__(self, rng: np.random.Generator, stall: float = 0.3) -> None:
        self.rng, self.stall = rng, stall
        self.registers: dict[int, int] = {}
        self.accesses: list[tuple[str, int]] = []
        self.resets = 0
        m = Module()
        m.submodules.receiver = self.receiver = FrameReceiver(silence_cycles=SILENCE)
        m.submodules.sender = self.sender = FrameSender()
        m.submodules.bridge = self.bridge = Bridge(
            variant=TINY, num_words=BANK_WORDS, clock_hz=CLOCK_HZ
        )
        m.submodules.memory = memory = MemorySlave(variant=TINY, num_words=BANK_WORDS)
        m.submodules.master = self.master = RegisterMaster()
        connect(m, self.receiver.request, self.bridge.request)
        connect(m, self.bridge.answer, self.sender.answer)
        connect(m, self.bridge.answer_payload, self.sender.payload)
        connect(m, self.bridge.memory, memory.host)
        connect(m, self.bridge.registers, self.master.access)
        m.d.comb += [
            self.receiver.payload_address.eq(self.bridge.payload_address),
            self.bridge.payload_data.eq(self.receiver.payload_data),
            self.bridge.memory_test.eq(MemoryTest.FAILED),
            self.bridge.failing_address.eq(0x1234_5678),
        ]
        self._module = m
        self._sent: list[int] = []

    def talk(self, scenario: Any, cap_cycles: int = 100_000) -> None:
        """Run `scenario(ask)`, where ``await ask(bytes)`` gives the answers that come of them."""

        async def drive(ctx) -> None:
            async def ask(burst: bytes, num_answers: int = 1) -> list[Answer]:
                for byte in burst:
                    ctx.set(self.receiver.i.payload, {"data": byte, "broken": 0})
                    ctx.set(self.receiver.i.valid, 1)
                    await ctx.tick()
                    ctx.set(self.receiver.i.valid, 0)
                    for _ in range(int(self.rng.integers(3, 7))):
                        await ctx.tick()
                answers: list[Answer] = []
                while len(answers) < num_answers:
                    await ctx.tick()
                    answer, used = parse_answer(bytes(self._sent))
                    if answer is not None:
                        assert used == len(answer.payload) + 9, "bytes that are no answer's"
                        del self._sent[:used]
                        answers.append(answer)
                for _ in range(3):
                    await ctx.tick()
                assert not self._sent
                return answers

            await scenario(ask)

        bench = Bench(self._module)
        bench.foreground(drive)
        bench.background(
            sink(self.sender.o, self._sent, self.rng, self.stall), self._serve, self._count_resets
        )
        bench.run(cap_cycles)

    async def _count_resets(self, ctx) -> None:
        while True:
            self.resets += ctx.get(self.bridge.machine_reset)
            await ctx.tick()

    async def _serve(self, ctx) -> None:
        """An AXI4-Lite slave whose channels move as they like; reading 0x000 counts up."""
        bus = self.master.bus
        address = word = None
        while True:
            ready = {c: self.rng.random() >= self.stall for c in ("aw", "w", "ar")}
            taken = {}
            for channel in ready:
                ctx.set(getattr(bus, f"{channel}ready"), ready[channel])
                taken[channel] = ready[channel] and ctx.get(getattr(bus, f"{channel}valid"))
            awaddr, wdata, araddr = ctx.get(bus.awaddr), ctx.get(bus.wdata), ctx.get(bus.araddr)
            assert not taken["w"] or ctx.get(bus.wstrb) == 15
            await ctx.tick()
            for channel in ready:
                ctx.set(getattr(bus, f"{channel}ready"), 0)
            address = awaddr if taken["aw"] else address
            word = wdata if taken["w"] else word
            if address is not None and word is not None:
                self.accesses.append(("write", address))
                self.registers[address] = word
                address = word = None
                await self._respond(ctx, bus.bvalid, bus.bready)
            if taken["ar"]:
                self.accesses.append(("read", araddr))
                ctx.set(bus.rdata, self.registers.get(araddr, 0))
                if araddr == 0:
                    self.registers[0] = self.registers.get(0, 0) + 1
                await self._respond(ctx, bus.rvalid, bus.rready)
                ctx.set(bus.rdata, 0xDEADBEEF)

    async def _respond(self, ctx, valid, ready) -> None:
        while self.rng.random() < self.stall:
            await ctx.tick()
        ctx.set(valid, 1)
        while not ctx.get(ready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(valid, 0)


@pytest.fixture
def board(rng: np.random.Generator) -> Board:
    return Board(rng)


def ok(tag: int, payload: bytes = b"") -> list[Answer]:
    return [Answer(tag, Status.OK, payload)]


def test_a_board_says_what_it_is(board: Board) -> None:
    async def scenario(ask) -> None:
        (answer,) = await ask(request_frame(Op.IDENTIFY, 7, 0, 0))
        assert (answer.tag, answer.status) == (7, Status.OK)
        assert Identity.decode(answer.payload) == Identity(
            3, MAX_PAYLOAD_BYTES, MEMORY_BYTES, CLOCK_HZ, MemoryTest.FAILED, 0x1234_5678
        )

    board.talk(scenario)


def test_memory_of_any_size_at_any_address(board: Board, rng: np.random.Generator) -> None:
    """Against bytes: words cut at both ends, the last byte of memory, nothing at all."""
    model = bytearray(MEMORY_BYTES)

    async def scenario(ask) -> None:
        for tag in range(40):
            size = int(rng.integers(0, 21))
            address = int(rng.integers(0, 60))
            if tag % 5 == 0:
                address = MEMORY_BYTES - size
            if rng.random() < 0.5:
                data = rng.bytes(size)
                frame = request_frame(Op.WRITE_MEMORY, tag, address, size, data)
                assert await ask(frame) == ok(tag)
                model[address : address + size] = data
            else:
                frame = request_frame(Op.READ_MEMORY, tag, address, size)
                assert await ask(frame) == ok(tag, bytes(model[address : address + size]))

    board.talk(scenario)


def test_the_longest_payload_both_ways(board: Board, rng: np.random.Generator) -> None:
    board.stall = 0.0
    data = rng.bytes(MAX_PAYLOAD_BYTES)

    async def scenario(ask) -> None:
        assert await ask(request_frame(Op.WRITE_MEMORY, 1, 5, len(data), data)) == ok(1)
        assert await ask(request_frame(Op.READ_MEMORY, 2, 5, len(data))) == ok(2, data)

    board.talk(scenario)


def crc64(data: bytes) -> bytes:
    """CRC-64/XZ, bit by bit. Source: the catalogue of parametrised CRC algorithms."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return (crc ^ (1 << 64) - 1).to_bytes(8, "little")


def test_checksums_are_those_of_the_blocks_in_memory(
    board: Board, rng: np.random.Generator
) -> None:
    assert crc64(b"123456789") == 0x995DC9BBDF1939FA.to_bytes(8, "little")
    board.stall = 0.0
    model = bytearray(MEMORY_BYTES)

    async def scenario(ask) -> None:
        for tag, address in enumerate((1023, 2048, MEMORY_BYTES - 1)):
            data = rng.bytes(1)
            frame = request_frame(Op.WRITE_MEMORY, tag, address, 1, data)
            assert await ask(frame) == ok(tag)
            model[address : address + 1] = data
        sums = [crc64(bytes(model[at : at + 1024])) for at in range(0, MEMORY_BYTES, 1024)]
        assert await ask(request_frame(Op.CHECKSUMS, 8, 0, 8)) == ok(8, sums[0])
        assert await ask(request_frame(Op.CHECKSUMS, 9, 1024, 24)) == ok(9, b"".join(sums[1:4]))
        last = request_frame(Op.CHECKSUMS, 10, MEMORY_BYTES - 1024, 8)
        assert await ask(last) == ok(10, sums[-1])
        assert await ask(request_frame(Op.CHECKSUMS, 11, 1024, 0)) == ok(11)

    board.talk(scenario)


def test_requests_may_follow_each_other_without_a_pause(
    board: Board, rng: np.random.Generator
) -> None:
    """One is carried out while the next one arrives; answers come in order."""
    board.stall = 0.0
    pieces = [rng.bytes(size) for size in (3, 400, 400, 400, 5)]
    frames = [
        request_frame(Op.WRITE_MEMORY, tag, 1000 * tag, len(piece), piece)
        for tag, piece in enumerate(pieces)
    ]
    asked = [
        request_frame(Op.READ_MEMORY, 10 + tag, 1000 * tag, len(piece))
        for tag, piece in enumerate(pieces)
    ]

    async def scenario(ask) -> None:
        answers = await ask(b"".join(frames), len(frames))
        assert answers == [Answer(tag, Status.OK, b"") for tag in range(len(pieces))]
        for tag in (0, 2):
            answers = await ask(asked[tag] + asked[tag + 1], 2)
            assert answers == ok(10 + tag, pieces[tag]) + ok(11 + tag, pieces[tag + 1])
        assert await ask(asked[4]) == ok(14, pieces[4])

    board.talk(scenario)


def test_registers_one_by_one_and_in_rows(board: Board, rng: np.random.Generator) -> None:
    async def scenario(ask) -> None:
        for tag, count in enumerate((1, 5, 2, 1, 16)):
            first = 4 * int(rng.integers(1, 1024 - count))
            data = rng.bytes(4 * count)
            written = request_frame(Op.WRITE_REGISTERS, 2 * tag, first, 4 * count, data)
            assert await ask(written) == ok(2 * tag)
            read = request_frame(Op.READ_REGISTERS, 2 * tag + 1, first, 4 * count)
            assert await ask(read) == ok(2 * tag + 1, data)
            offsets = [first + 4 * n for n in range(count)]
            assert board.accesses == [(w, o) for w in ("write", "read") for o in offsets]
            board.accesses.clear()

    board.talk(scenario)


def test_a_single_access_that_comes_again_is_not_carried_out_again(board: Board) -> None:
    """Until anything else has been carried out; a damaged frame between them is nothing."""
    read = request_frame(Op.READ_REGISTERS, 9, 0, 4)
    write = request_frame(Op.WRITE_REGISTERS, 10, 8, 4, b"\1\2\3\4")

    def number(value: int) -> bytes:
        return value.to_bytes(4, "little")

    async def scenario(ask) -> None:
        for _ in range(3):
            assert await ask(read) == ok(9, number(0))
            assert [a.status for a in await ask(b"\0garbage")] == [Status.DAMAGED]
        for _ in range(2):
            assert await ask(write) == ok(10)
        assert board.accesses == [("read", 0), ("write", 8)]
        assert await ask(read) == ok(9, number(1))
        assert await ask(request_frame(Op.READ_MEMORY, 11, 0, 1)) == ok(11, b"\0")
        assert await ask(read) == ok(9, number(2))
        rows = request_frame(Op.READ_REGISTERS, 12, 8, 8)
        for _ in range(2):
            assert await ask(rows) == ok(12, b"\1\2\3\4\0\0\0\0")
        assert board.accesses[2:] == [("read", 0), ("read", 0), *[("read", 8), ("read", 12)] * 2]
        assert await ask(request_frame(Op.IDENTIFY, 12, 0, 0)) != []
        assert await ask(request_frame(Op.READ_REGISTERS, 12, 0, 4)) == ok(12, number(3))

    board.talk(scenario)


READ_A = (Op.READ_REGISTERS, 0, b"")
AGAIN = {
    "another register": (READ_A, (Op.READ_REGISTERS, 8, b"")),
    "a write of what was read": ((Op.READ_REGISTERS, 8, b""), (Op.WRITE_REGISTERS, 8, bytes(4))),
    "a read of what was written": ((Op.WRITE_REGISTERS, 8, b"abcd"), (Op.READ_REGISTERS, 8, b"")),
    "another value": ((Op.WRITE_REGISTERS, 8, b"abcd"), (Op.WRITE_REGISTERS, 8, b"abcx")),
    "a first byte": ((Op.WRITE_REGISTERS, 8, b"abcd"), (Op.WRITE_REGISTERS, 8, b"xbcd")),
    "another register to write": (
        (Op.WRITE_REGISTERS, 8, b"abcd"),
        (Op.WRITE_REGISTERS, 0x408, b"abcd"),
    ),
}


def framed(tag: int, op: Op, address: int, payload: bytes) -> bytes:
    """A request for one register."""
    return request_frame(op, tag, address, 4, payload)


@pytest.mark.parametrize(("first", "second"), AGAIN.values(), ids=AGAIN)
def test_another_request_with_the_same_tag_is_carried_out(
    board: Board, first: tuple[Op, int, bytes], second: tuple[Op, int, bytes]
) -> None:
    """A tag comes again after 256 requests, and in another session: the content decides."""

    async def scenario(ask) -> None:
        await ask(framed(7, *first))
        for _ in range(2):  # the second of these is a retry
            answers = await ask(framed(7, *second))
            expected = board.registers.get(second[1], 0).to_bytes(4, "little")
            assert answers == ok(7, b"" if second[2] else expected)
        assert len(board.accesses) == 2
        if second[2]:
            assert board.registers[second[1]] == int.from_bytes(second[2], "little")

    board.talk(scenario)


def test_nothing_is_a_retry_behind_a_refused_request(board: Board) -> None:
    """The host has gone on: 256 refused requests later the tag is that of a new one."""
    read = framed(9, *READ_A)

    async def scenario(ask) -> None:
        assert await ask(read) == ok(9, bytes(4))
        refused = await ask(request_frame(Op.READ_REGISTERS, 10, 2, 4))
        assert [answer.status for answer in refused] == [Status.BAD_ADDRESS]
        assert await ask(read) == ok(9, b"\1\0\0\0")

    board.talk(scenario)


def test_lost_and_doubled_frames_are_carried_out_once(
    board: Board, rng: np.random.Generator
) -> None:
    """Any requests for one register, with few tags, addresses and values: each is answered as if it
    alone had come, whether its frame is lost, comes once or comes again."""
    board.stall = 0.0
    expected: list[tuple[str, int]] = []

    async def scenario(ask) -> None:
        last: tuple[int, Op, int, bytes] | None = None
        answer: list[Answer] = []
        for _ in range(10):
            op = (Op.READ_REGISTERS, Op.WRITE_REGISTERS)[int(rng.integers(2))]
            payload = bytes([0, 0, 0, int(rng.integers(2))]) if op is Op.WRITE_REGISTERS else b""
            request = (int(rng.integers(2)), op, 4 * int(rng.integers(2)), payload)
            for _ in range(int(rng.integers(3))):
                if request != last:
                    value = board.registers.get(request[2], 0).to_bytes(4, "little")
                    answer = ok(request[0], b"" if payload else value)
                    expected.append(("write" if payload else "read", request[2]))
                    last = request
                assert await ask(framed(*request)) == answer
        assert board.accesses == expected

    board.talk(scenario)


REFUSED = {
    "an unknown operation": (Status.UNKNOWN_OP, (0, 0, 0)),
    "another": (Status.UNKNOWN_OP, (200, 0, 0)),
    "a register that is not aligned": (Status.BAD_ADDRESS, (Op.READ_REGISTERS, 2, 4)),
    "registers past the last": (Status.BAD_ADDRESS, (Op.READ_REGISTERS, 4092, 8)),
    "registers far away": (Status.BAD_ADDRESS, (Op.READ_REGISTERS, 0xFFFFFFFC, 4)),
    "half a register": (Status.BAD_COUNT, (Op.READ_REGISTERS, 8, 6)),
    "no register": (Status.BAD_COUNT, (Op.READ_REGISTERS, 8, 0)),
    "too many registers": (Status.BAD_COUNT, (Op.READ_REGISTERS, 0, 1028)),
    "memory past the end": (Status.BAD_ADDRESS, (Op.READ_MEMORY, MEMORY_BYTES - 3, 4)),
    "memory far away": (Status.BAD_ADDRESS, (Op.READ_MEMORY, 0xFFFFFFFF, 1)),
    "too much memory": (Status.BAD_COUNT, (Op.READ_MEMORY, 0, 1025)),
    "a sum from within a block": (Status.BAD_ADDRESS, (Op.CHECKSUMS, 512, 8)),
    "sums past the end": (Status.BAD_ADDRESS, (Op.CHECKSUMS, 1024, MEMORY_BYTES // 128)),
    "sums far away": (Status.BAD_ADDRESS, (Op.CHECKSUMS, 0xFFFFFC00, 8)),
    "half a sum": (Status.BAD_COUNT, (Op.CHECKSUMS, 0, 12)),
    "all of it": (Status.BAD_ADDRESS, (Op.READ_MEMORY, 1, 0xFFFF)),
}


def test_what_cannot_be_done_is_refused_and_changes_nothing(board: Board) -> None:
    async def scenario(ask) -> None:
        for tag, (name, (status, (op, address, count))) in enumerate(REFUSED.items()):
            frame = request_frame(op, tag, address, count)
            assert await ask(frame) == [Answer(tag, status, b"")], name
        for op in (Op.WRITE_MEMORY, Op.WRITE_REGISTERS):
            frame = request_frame(op, 99, MEMORY_BYTES - 4, 8, bytes([255] * 8))
            assert await ask(frame) == [Answer(99, Status.BAD_ADDRESS, b"")]
        tail = request_frame(Op.READ_MEMORY, 100, MEMORY_BYTES - 8, 8)
        assert await ask(tail) == ok(100, bytes(8))
        assert board.accesses == []

    board.talk(scenario)


def test_reset_resets_the_machine_alone(board: Board) -> None:
    async def scenario(ask) -> None:
        assert await ask(request_frame(Op.WRITE_MEMORY, 1, 16, 3, b"abc")) == ok(1)
        assert await ask(request_frame(Op.RESET, 2, 0, 0)) == ok(2)
        assert await ask(request_frame(Op.READ_MEMORY, 3, 16, 3)) == ok(3, b"abc")

    board.talk(scenario)
    assert board.resets == RESET_CYCLES


def test_every_frame_is_answered_once_whatever_comes_between(
    board: Board, rng: np.random.Generator
) -> None:
    """Frames cut short, with a bit changed, or garbage: DAMAGED, and nothing written."""
    data = rng.bytes(12)

    async def scenario(ask) -> None:
        assert await ask(request_frame(Op.WRITE_MEMORY, 0, 0, 12, data)) == ok(0)
        for tag in range(1, 16):
            frame = request_frame(Op.WRITE_MEMORY, tag, 0, 12, rng.bytes(12))
            at = int(rng.integers(1, len(frame)))
            changed = frame[:at] + bytes([frame[at] ^ 1 << int(rng.integers(8))]) + frame[at + 1 :]
            burst = (frame[:at], changed, rng.bytes(at))[tag % 3]
            assert [answer.status for answer in await ask(burst)] == [Status.DAMAGED]
            assert await ask(request_frame(Op.READ_MEMORY, tag, 0, 12)) == ok(tag, data)

    board.talk(scenario)
