"""What a serial line carries in simulated time, and what is not sent again."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from daedal.common.bridge import ANSWER_HEADER_BYTES, CRC_BYTES, Op
from daedal.common.errors import DeviceError
from daedal.isa.variant import load_variant
from daedal.runtime.devices import serial_line, upload
from daedal.runtime.devices.uart import UartPort
from tests.support.serial_board import SerialBoard
from tests.support.timed_serial import TimedBoard, TimedSerial

TINY = load_variant("tiny")
SIZE = 1 << 18


class Memory:
    """All of a machine that these tests need; `wrong` addresses read as something else."""

    def __init__(self) -> None:
        self.bytes = bytearray(SIZE)
        self.wrong: set[int] = set()

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        data = bytearray(self.bytes[address : address + size_bytes])
        for at in self.wrong & set(range(address, address + size_bytes)):
            data[at - address] ^= 1
        return bytes(data)

    def write_memory(self, address: int, data: bytes) -> None:
        self.bytes[address : address + len(data)] = data


Setup = Callable[..., TimedBoard]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def timed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> TimedBoard:
    timed = TimedBoard(SerialBoard(memory, memory_bytes=SIZE))
    clock = SimpleNamespace(monotonic=timed.monotonic, sleep=timed.sleep)
    monkeypatch.setattr(serial_line, "time", clock)
    monkeypatch.setattr(upload, "time", clock)
    monkeypatch.setattr(serial_line.serial, "Serial", TimedSerial.factory(timed))
    monkeypatch.setattr(SerialBoard, "_checksum", lambda self, at: fast_checksum(memory, at))
    return timed


def fast_checksum(memory: Memory, address: int) -> bytes:
    """The kit's own; `test_block_checksums` compares it with the definition."""
    from daedal.common.block_checksums import block_checksums

    return int(block_checksums(memory.read_memory(address, 1024))[0]).to_bytes(8, "little")


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "port").touch()
    return str(tmp_path / "port")


@pytest.mark.parametrize(("hold", "upwards", "downwards"), [(0.0, 0.92, 0.95), (0.015, 0.85, 0.3)])
def test_transfers_take_nine_tenths_of_the_line_rate(
    hold: float,
    upwards: float,
    downwards: float,
    timed: TimedBoard,
    path: str,
    rng: np.random.Generator,
) -> None:
    """3 Mbaud, a millisecond of latency each way; also where the chip keeps short answers back."""
    data = rng.bytes(200_000)
    timed.hold_seconds = hold
    with UartPort(path) as port:
        assert port.baud == 3_000_000
        begin = timed.now
        port.update_memory(5, data)
        up = 10 * len(data) / port.baud / (timed.now - begin)
        begin = timed.now
        assert port.read_memory(5, len(data)) == data
        down = 10 * len(data) / port.baud / (timed.now - begin)
    assert up >= upwards
    assert down >= downwards
    assert timed.overflows == 0


def test_only_what_changed_is_sent(
    timed: TimedBoard, memory: Memory, path: str, rng: np.random.Generator
) -> None:
    """Whoever has written it: a session before, or anyone else."""
    data = bytearray(rng.bytes(100_000))
    with UartPort(path) as port:
        port.update_memory(4000, bytes(data))
    with UartPort(path) as port:
        begin = timed.wire_bytes
        port.update_memory(4000, bytes(data))
        assert timed.wire_bytes - begin < 2000, "the ends, and questions"
        data[50_000] ^= 1
        memory.bytes[8192 + 3] ^= 4
        begin = timed.wire_bytes
        port.update_memory(4000, bytes(data))
        assert 2 * 1024 < timed.wire_bytes - begin < 2 * 1024 + 2000
        assert port.read_memory(4000, len(data)) == bytes(data)
    assert bytes(memory.bytes[4000 : 4000 + len(data)]) == bytes(data)


@pytest.mark.parametrize("size", [0, 1, 95, 96, 97, 1119, 1120, 1121, 9000])
def test_pieces_of_any_size_arrive(
    size: int, timed: TimedBoard, memory: Memory, path: str, rng: np.random.Generator
) -> None:
    before, data = rng.bytes(SIZE), rng.bytes(size)
    memory.bytes[:] = before
    with UartPort(path) as port:
        for _ in range(2):
            port.update_memory(4000, data)
            assert bytes(memory.bytes) == before[:4000] + data + before[4000 + size :]


def test_memory_that_forgets_is_told(timed: TimedBoard, memory: Memory, path: str) -> None:
    memory.wrong = {8192 + 5}
    with UartPort(path) as port:
        with pytest.raises(
            DeviceError,
            match="must hold what is written to it; 1 of 12 blocks of 1024 bytes do not, the first "
            "at 0x2000: run daedal board-test",
        ):
            port.update_memory(4096, b"\1" * 3 * 4096)
        memory.wrong = set()
        port.update_memory(4096, b"\1" * 3 * 4096)


@pytest.mark.parametrize("seed", range(6))
def test_a_bad_line_harms_nothing(seed: int, timed: TimedBoard, memory: Memory, path: str) -> None:
    """Frames and answers that are lost, cut, changed or doubled, each with its own probability."""
    rng = np.random.default_rng(seed)
    data = rng.bytes(60_000)

    def harmed(frame: bytes) -> bytes:
        kind = int(rng.integers(20))
        at = int(rng.integers(len(frame)))
        if kind == 0:
            return b""
        if kind == 1:
            return frame[:at]
        if kind == 2:
            return frame[:at] + bytes([frame[at] ^ 0x20]) + frame[at + 1 :]
        return frame + frame if kind == 3 else frame

    with UartPort(path) as port:
        timed.board.to_board = [harmed] * 10_000
        timed.board.to_host = [harmed] * 10_000
        port.update_memory(100, data)
        assert bytes(memory.bytes[100:60_100]) == data
        assert port.read_memory(100, len(data)) == data


@pytest.mark.parametrize("baud", [3_000_000, 2_000_000, 1_000_000, 500_000, 115_200])
def test_the_rate_of_the_board_is_found(baud: int, timed: TimedBoard, path: str) -> None:
    timed.baud = baud
    said: list[str] = []
    with UartPort(path, report=said.append) as port:
        assert port.baud == baud
    assert said == [f"a board answers at {baud:,} baud"]
    assert timed.now < 1.5


def test_a_rate_that_is_given_is_the_only_one(timed: TimedBoard, path: str) -> None:
    timed.baud = 230_400
    with UartPort(path, baud=230_400) as port:
        assert port.baud == 230_400
    with pytest.raises(DeviceError, match=r"nothing whole came at 3000000, 2000000, .* baud: load"):
        UartPort(path)
    with pytest.raises(DeviceError, match=r"and its baud rate \(1000000\)"):
        UartPort(path, baud=1_000_000)


def test_long_uploads_say_how_far_they_are(
    timed: TimedBoard, path: str, rng: np.random.Generator
) -> None:
    timed.baud = 1_000_000
    said: list[str] = []
    with UartPort(path, report=said.append) as port:
        port.update_memory(0, rng.bytes(90_000))
        assert len(said) == 1, "less than a second"
        port.update_memory(0, rng.bytes(200_000))
    assert 8 <= len(said) <= 12
    assert said[1] == "sending to the board: 0.02 of 0.20 MB, 98 kB/s, 2 s left"
    assert said[-1] == "sending to the board: 0.18 of 0.20 MB, 99 kB/s, 0 s left"


def test_time_for_answers_counts_all_bytes_on_the_line() -> None:
    """Ten bits a byte: what is in flight, headers and checksums of answers, and what they bring."""
    requests = [
        serial_line.Request(Op.READ_MEMORY, 64, count=256),
        serial_line.Request(Op.WRITE_MEMORY, 0, payload=bytes(48)),
        serial_line.Request(Op.READ_MEMORY, 0, count=32),
    ]
    exchange = serial_line._Exchange(requests, deque(), in_flight={5: 0, 6: 1})
    sent = sum(len(requests[index].frame(tag)) for tag, index in exchange.in_flight.items())
    line = SimpleNamespace(baud=1000)
    seconds = serial_line.SerialLine._line_seconds(line, exchange)
    assert seconds == 10 * (sent + 2 * (ANSWER_HEADER_BYTES + CRC_BYTES) + 256) / 1000
