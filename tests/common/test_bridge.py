"""Frames of the serial bridge: what one end writes, the other end reads, whatever is around it."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.bridge import (
    ANSWER_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    REQUEST_HEADER_BYTES,
    Answer,
    Identity,
    MemoryTest,
    Op,
    answer_frame,
    parse_answer,
    request_frame,
)
from daedal.common.errors import DeviceError

answers = st.builds(
    Answer, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=MAX_PAYLOAD_BYTES)
)


def test_a_request_byte_by_byte() -> None:
    frame = request_frame(Op.WRITE_MEMORY, 0x77, 0x12345678, 3, b"xyz")
    body = bytes.fromhex("5a 77 05 0300 78563412") + b"xyz"
    assert frame == body + zlib.crc32(body).to_bytes(4, "little")
    assert REQUEST_HEADER_BYTES == 9


def test_an_answer_byte_by_byte() -> None:
    frame = answer_frame(Answer(0x77, 3, b"pq"))
    body = bytes.fromhex("a5 77 03 0200") + b"pq"
    assert frame == body + zlib.crc32(body).to_bytes(4, "little")
    assert ANSWER_HEADER_BYTES == 5


@given(st.lists(answers, max_size=4), st.binary(max_size=30))
def test_answers_are_found_one_after_the_other(sent: list[Answer], rest: bytes) -> None:
    """And what is left behind them never makes one of its own (the CRC makes it that unlikely)."""
    received = b"".join(answer_frame(answer) for answer in sent) + rest
    for expected in sent:
        answer, used = parse_answer(received)
        assert answer == expected
        received = received[used:]
    assert received == rest
    answer, used = parse_answer(received)
    assert answer is None and used <= len(received)


@given(answers, st.binary(max_size=40).filter(lambda noise: 0xA5 not in noise), st.data())
def test_an_answer_is_found_behind_noise_as_soon_as_it_is_whole(
    answer: Answer, noise: bytes, data: st.DataObject
) -> None:
    frame = noise + answer_frame(answer)
    end = data.draw(st.integers(0, len(frame) - 1))
    found, used = parse_answer(frame[:end])
    assert found is None and used <= len(noise)
    assert parse_answer(frame[used:]) == (answer, len(frame) - used)


@given(answers, st.data())
def test_a_changed_bit_is_no_answer(answer: Answer, data: st.DataObject) -> None:
    frame = bytearray(answer_frame(answer))
    at = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[at // 8] ^= 1 << at % 8
    assert parse_answer(bytes(frame))[0] is None


def test_identities_are_read_back_and_others_refused() -> None:
    identity = Identity(3, 1024, 1 << 16, 95_000_000, MemoryTest.FAILED, 0x1000)
    assert Identity.decode(identity.encode()) == identity
    newer = Identity(7, 1024, 1 << 16, 95_000_000)
    with pytest.raises(DeviceError, match="speak version 3 of the protocol, not 7; build its bit"):
        Identity.decode(newer.encode())
    with pytest.raises(DeviceError, match="version 3 of the protocol, not 2; build its bitstream"):
        Identity.decode(b"\2" + identity.encode()[1:12])
    for odd in (b"", b"\3\0", identity.encode()[:12] + bytes([9, 0, 0, 0, 0])):
        with pytest.raises(DeviceError, match="version 3 of the protocol, not an unknown one"):
            Identity.decode(odd)
