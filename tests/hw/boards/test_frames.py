"""Frames, in and out: every byte sequence gives what the definition of `common.bridge` says."""

import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest

from daedal.common.bridge import MAX_PAYLOAD_BYTES, Answer, Op, answer_frame, request_frame
from daedal.hw.boards.frame_receiver import FrameReceiver
from daedal.hw.boards.frame_sender import FrameSender
from tests.hw.stream_bench import Bench, sink, source

SILENCE = 64


@dataclass
class Heard:
    """A request as it was offered, with its payload."""

    fields: dict[str, int] = field(default_factory=dict)
    payload: bytes = b""


def receive(
    bursts: list[bytes], rng: np.random.Generator, broken: set[int] = frozenset()
) -> list[Heard | None]:
    """What a receiver makes of bytes with silences between them; None is a damaged frame.

    `broken` are the bursts whose last byte lacks its stop bit.
    """
    dut = FrameReceiver(silence_cycles=SILENCE)
    heard: list[Heard | None] = []

    async def drive(ctx) -> None:
        for number, burst in enumerate(bursts):
            for at, byte in enumerate(burst):
                is_broken = number in broken and at == len(burst) - 1
                ctx.set(dut.i.payload, {"data": byte, "broken": is_broken})
                ctx.set(dut.i.valid, 1)
                await ctx.tick()
                ctx.set(dut.i.valid, 0)
                await ctx.tick().repeat(int(rng.integers(3, 8)))
            for _ in range(2 * SILENCE):
                await ctx.tick()
            while ctx.get(dut.request.valid):
                await ctx.tick()

    async def listen(ctx) -> None:
        while True:
            while not ctx.get(dut.request.valid):
                await ctx.tick()
            fields = {name: ctx.get(dut.request.payload[name]) for name in NAMES}
            if ctx.get(dut.request.payload.damaged):
                heard.append(None)
            else:
                payload = []
                for at in range(fields["count"] if fields["op"] in (3, 5) else 0):
                    ctx.set(dut.payload_address, at)
                    await ctx.tick()
                    await ctx.tick()
                    payload.append(ctx.get(dut.payload_data))
                heard.append(Heard(fields, bytes(payload)))
            ctx.set(dut.request.ready, 1)
            await ctx.tick()
            ctx.set(dut.request.ready, 0)

    bench = Bench(dut)
    bench.foreground(drive)
    bench.background(listen)
    bench.run(cap_cycles=200_000)
    return heard


NAMES = ("tag", "op", "count", "address")


def random_frame(rng: np.random.Generator) -> bytes:
    op = int(rng.choice([*Op, 0, 77]))
    payload = rng.bytes(int(rng.integers(1, 24))) if op in (3, 5) else b""
    count = len(payload) or int(rng.integers(1 << 16))
    return request_frame(op, int(rng.integers(256)), int(rng.integers(1 << 32)), count, payload)


def understood(frame: bytes) -> Heard:
    """Written from docs/boards.md."""
    assert zlib.crc32(frame[:-4]) == int.from_bytes(frame[-4:], "little")
    numbers = (frame[1], frame[2], frame[3:5], frame[5:9])
    values = [n if isinstance(n, int) else int.from_bytes(n, "little") for n in numbers]
    return Heard(dict(zip(NAMES, values, strict=True)), frame[9:-4])


def test_whole_frames_arrive(rng: np.random.Generator) -> None:
    frames = [random_frame(rng) for _ in range(12)]
    assert receive(frames, rng) == [understood(frame) for frame in frames]


def test_the_longest_payload_arrives(rng: np.random.Generator) -> None:
    frame = request_frame(Op.WRITE_MEMORY, 1, 2, MAX_PAYLOAD_BYTES, rng.bytes(MAX_PAYLOAD_BYTES))
    assert receive([frame], rng) == [understood(frame)]


def test_the_next_frame_arrives_while_one_is_offered_and_a_third_is_ignored(
    rng: np.random.Generator,
) -> None:
    """Each keeps its own payload, also if the second one is damaged."""
    for second_is_whole in (True, False):
        payloads = [rng.bytes(9) for _ in range(3)]
        frames = [
            request_frame(Op.WRITE_MEMORY, tag, 0, 9, data) for tag, data in enumerate(payloads)
        ]
        if not second_is_whole:
            frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])
        dut = FrameReceiver(silence_cycles=SILENCE)
        heard: list[bytes | None] = []

        async def scenario(ctx, dut=dut, frames=frames, heard=heard) -> None:
            for number, frame in enumerate(frames):
                for byte in frame:
                    ctx.set(dut.i.payload, {"data": byte, "broken": 0})
                    ctx.set(dut.i.valid, 1)
                    await ctx.tick()
                    ctx.set(dut.i.valid, 0)
                    await ctx.tick().repeat(3)
                if number == 1:
                    await ctx.tick().repeat(2 * SILENCE)
            for _ in range(2):
                assert ctx.get(dut.request.valid)
                payload = []
                for at in range(9):
                    ctx.set(dut.payload_address, at)
                    await ctx.tick().repeat(2)
                    payload.append(ctx.get(dut.payload_data))
                damaged = ctx.get(dut.request.payload.damaged)
                heard.append(None if damaged else bytes(payload))
                ctx.set(dut.request.ready, 1)
                await ctx.tick()
                ctx.set(dut.request.ready, 0)
                await ctx.tick().repeat(3)
            await ctx.tick().repeat(2 * SILENCE)
            assert not ctx.get(dut.request.valid)

        bench = Bench(dut)
        bench.foreground(scenario)
        bench.run(cap_cycles=10_000)
        assert heard == [payloads[0], payloads[1] if second_is_whole else None]


def test_a_request_is_accepted_in_the_cycle_in_which_it_is_offered(
    rng: np.random.Generator,
) -> None:
    frame = request_frame(Op.RESET, 3, 0, 0)
    dut = FrameReceiver(silence_cycles=SILENCE)
    tags = []

    async def scenario(ctx) -> None:
        ctx.set(dut.request.ready, 1)
        for byte in frame * 2:
            ctx.set(dut.i.payload, {"data": byte, "broken": 0})
            ctx.set(dut.i.valid, 1)
            await ctx.tick()
            ctx.set(dut.i.valid, 0)
            await ctx.tick().repeat(3)
        await ctx.tick().repeat(10)

    async def listen(ctx) -> None:
        while True:
            if ctx.get(dut.request.valid):
                tags.append(ctx.get(dut.request.payload.tag))
            await ctx.tick()

    bench = Bench(dut)
    bench.foreground(scenario)
    bench.background(listen)
    bench.run(cap_cycles=1000)
    assert tags == [3, 3]


def damage(frame: bytes, rng: np.random.Generator) -> bytes:
    """One bit, one byte less, one byte more in the middle, or an end too early."""
    at = int(rng.integers(len(frame)))
    kind = int(rng.integers(4))
    if kind == 0:
        return frame[:at] + bytes([frame[at] ^ 1 << int(rng.integers(8))]) + frame[at + 1 :]
    if kind == 1:
        return frame[:at] + frame[at + 1 :]
    if kind == 2:
        return frame[:at] + rng.bytes(1) + frame[at:]
    return frame[: max(at, 1)]


def test_damaged_frames_are_told_of_once_and_the_next_is_whole(rng: np.random.Generator) -> None:
    bursts: list[bytes] = []
    expected: list[Heard | None] = []
    while len(bursts) < 24:
        frame = random_frame(rng)
        harmed = damage(frame, rng)
        if harmed.startswith(frame):
            continue  # a byte behind a whole frame is a frame of its own
        bursts += [harmed, frame]
        expected += [None, understood(frame)]
    assert receive(bursts, rng) == expected


def test_garbage_of_any_length_is_told_of_once(rng: np.random.Generator) -> None:
    frame = random_frame(rng)
    garbage = [rng.bytes(int(n)) for n in (1, 2, 9, 13, 14, 40)]
    bursts = [piece for item in garbage for piece in (item, frame)]
    assert receive(bursts, rng) == [None, understood(frame)] * len(garbage)


def test_a_broken_byte_damages_its_frame(rng: np.random.Generator) -> None:
    frames = [random_frame(rng)[:length] for length in (1, 5, 13)]
    whole = random_frame(rng)
    assert receive([*frames, whole], rng, broken={0, 1, 2}) == [None] * 3 + [understood(whole)]


def test_a_payload_longer_than_the_buffer_is_refused(rng: np.random.Generator) -> None:
    long = request_frame(Op.WRITE_MEMORY, 1, 0, MAX_PAYLOAD_BYTES + 1, b"")
    whole = random_frame(rng)
    assert receive([long, whole], rng) == [None, understood(whole)]


@pytest.mark.parametrize("silence", [0, 3, 100])
def test_a_silence_that_is_no_power_of_two_is_refused(silence: int) -> None:
    with pytest.raises(ValueError, match=f"silence_cycles must be a power of two, not {silence}"):
        FrameReceiver(silence_cycles=silence)


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_answers_leave_whole(gap: float, rng: np.random.Generator) -> None:
    sizes = [0, 1, 4, 12, 300, 0, 7]
    answers = [
        Answer(int(rng.integers(256)), int(rng.integers(256)), rng.bytes(size)) for size in sizes
    ]
    dut, got = FrameSender(), []
    bench = Bench(dut)
    headers = [{"tag": a.tag, "status": a.status, "count": len(a.payload)} for a in answers]
    bench.foreground(source(dut.answer, headers, rng, gap))
    bench.background(
        source(dut.payload, b"".join(a.payload for a in answers), rng, gap),
        sink(dut.o, got, rng, gap),
    )
    bench.run(cap_cycles=50_000)
    expected = b"".join(answer_frame(answer) for answer in answers)
    assert bytes(got) == expected
    assert zlib.crc32(expected[:5]) == int.from_bytes(expected[5:9], "little")
