"""The host's side of the serial port, against a board in Python on a line that fails."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.common.bridge import (
    ANSWER_HEADER_BYTES,
    CRC_BYTES,
    Answer,
    MemoryTest,
    Status,
    answer_frame,
)
from daedal.common.errors import DeviceError, UserError
from daedal.devices import open_device, text_options
from daedal.isa.random_programs import random_program
from daedal.isa.registers import ID_VALUE, register
from daedal.isa.variant import load_variant
from daedal.runtime.devices.uart import UartPort, uart_device
from daedal.runtime.driver import LoadedProgram
from examples.digits.data import demo_images
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import READ_REGISTERS, WRITE_REGISTERS, SerialBoard, serial_board

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture
def machine() -> RegisterMachine:
    return RegisterMachine(TINY, base=0, size=1 << 16)


def test_digits_equal_functional(machine: RegisterMachine) -> None:
    artifact = daedal.compile(DIGITS, TINY)
    images, _labels = demo_images(3)
    expected = daedal.simulate(artifact, {"input": images})
    with serial_board(machine) as board:
        device = uart_device(TINY, port=board.path)
        assert device.name == "uart"
        found = daedal.simulate(artifact, {"input": images}, device=device)
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()


def test_the_device_is_found_by_its_name_and_takes_its_options_as_text(
    machine: RegisterMachine,
) -> None:
    with serial_board(machine) as board:
        options = text_options("uart", [f"port={board.path}", "baud=115200"])
        assert open_device("uart", TINY, **options).name == "uart"


def test_memory_moves_in_frames_of_bounded_size(
    machine: RegisterMachine, rng: np.random.Generator
) -> None:
    data = rng.bytes(5000)
    with serial_board(machine) as board, UartPort(board.path) as port:
        assert port.identity.memory_bytes == 1 << 16
        port.write_memory(321, data)
        assert port.read_memory(321, 5000) == data
        assert port.read_memory(0, 0) == b""
        assert max(count for _, count in board.asked) == 1024
    assert machine.read_memory(321, 5000) == data


def test_registers_with_effects_go_alone_and_the_others_in_rows(machine: RegisterMachine) -> None:
    names = ["id", "fingerprint_lo", "fingerprint_hi", "control", "gie", "ier", "isr", "program_lo"]
    offsets = [register(name).offset for name in names]
    with serial_board(machine) as board, UartPort(board.path) as port:
        board.asked.clear()
        assert port.read_registers([]) == []
        assert port.read_registers(offsets)[:2] == [ID_VALUE, int(TINY.fingerprint[8:], 16)]
        assert board.asked == [(READ_REGISTERS, size) for size in (12, 4, 8, 4, 4)]
        board.asked.clear()
        port.write_registers([(offset, 4) for offset in offsets[4:]])
        port.write_registers([(register(f"base{n}_lo").offset, n) for n in range(4)])
        assert board.asked == [(WRITE_REGISTERS, size) for size in (8, 4, 4, 4, 4, 4, 4)]
    assert [machine.values[f"base{n}_lo"] for n in range(4)] == [0, 1, 2, 3]


def lost(_frame: bytes) -> bytes:
    return b""


def cut(frame: bytes) -> bytes:
    return frame[: len(frame) // 2]


def changed(frame: bytes) -> bytes:
    return frame[:3] + bytes([frame[3] ^ 0x10]) + frame[4:]


def late(frame: bytes) -> bytes:
    """Behind bytes of a frame that is gone, with what looks like the begin of one."""
    return b"\x5a\xa5\x00\x07" + frame


def twice(frame: bytes) -> bytes:
    return frame + frame


def late_answer(frame: bytes) -> bytes:
    """Behind the answer to a request of another session, which had the same tag."""
    other = b"" if len(frame) > ANSWER_HEADER_BYTES + CRC_BYTES else b"old"
    return answer_frame(Answer(frame[1], Status.OK, other)) + frame


@pytest.mark.parametrize("fault", [lost, cut, changed, late, twice, late_answer])
@pytest.mark.parametrize("way", ["to_board", "to_host"])
def test_what_the_line_harms_is_said_again(
    way: str, fault: Callable[[bytes], bytes], machine: RegisterMachine
) -> None:
    """Every kind of request, once each; what has effects has them once."""

    def whole(frame: bytes) -> bytes:
        return frame

    with serial_board(machine) as board, UartPort(board.path, answer_seconds=0.3) as port:
        line = getattr(board, way)

        def harm() -> None:
            line[:] = [fault]

        harm()
        port.write_memory(5, b"abcdefg")
        harm()
        assert port.read_memory(5, 7) == b"abcdefg"
        harm()
        port.write_registers([(register("program_length").offset, 77)])
        harm()
        assert port.read_registers([register("program_length").offset]) == [77]
        machine.log.clear()
        harm()
        port.write_registers([(register("isr").offset, 1)])
        assert machine.log == [("write", "isr")]
        harm()
        assert port.read_registers([0]) == [4]
        assert machine.log == [("write", "isr"), ("read", "control")]
    assert machine.values["isr"] == 1


def test_a_line_that_is_down_ends_in_a_sentence(machine: RegisterMachine) -> None:
    with serial_board(machine) as board, UartPort(board.path, answer_seconds=0.05) as port:
        board.to_host[:] = [lost] * 6
        with pytest.raises(
            DeviceError,
            match=r"the board must answer within 0\.05 seconds; nothing whole came of 6 requests: "
            rf"load its bitstream, or check the port \({board.path}\) and its baud rate \(3000000",
        ):
            port.read_memory(0, 4)
        assert port.read_memory(0, 4) == bytes(4)


def test_a_board_without_a_bitstream_ends_in_a_sentence() -> None:
    with serial_board(None) as board:
        with pytest.raises(DeviceError, match=r"the board must answer within 0\.05 seconds"):
            UartPort(board.path, answer_seconds=0.05)
        with pytest.raises(DeviceError, match=r"the board must answer within 0\.04 seconds"):
            uart_device(TINY, port=board.path, answer_seconds=0.04)


def test_a_board_that_tests_its_memory_is_waited_for(machine: RegisterMachine) -> None:
    said: list[str] = []
    with serial_board(machine, memory_test=[1, 1, 1, 2]) as board:
        with UartPort(board.path, report=said.append) as port:
            assert port.identity.memory_test == MemoryTest.PASSED and port.memory_fault is None
    assert said.count("the board tests its memory") == 3


def test_a_memory_test_that_does_not_end_ends_in_a_sentence(machine: RegisterMachine) -> None:
    with (
        serial_board(machine, memory_test=[1]) as board,
        pytest.raises(DeviceError, match="must have tested its memory after some seconds; it did"),
    ):
        UartPort(board.path, answer_seconds=0.2)


def test_memory_that_failed_its_test_is_not_used(
    machine: RegisterMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = [], UartPort.close
    monkeypatch.setattr(UartPort, "close", lambda port: (closed.append(port), close(port)))
    with serial_board(machine, memory_test=[1, 3], failing_address=1 << 20) as board:
        with pytest.raises(DeviceError, match=r"start-up, first at 0x100000: run daedal board-te"):
            uart_device(TINY, port=board.path)
        assert len(closed) == 1
        device = uart_device(TINY, port=board.path, accepts_faults=True)
        assert device.memory_fault is not None and "0x100000" in device.memory_fault
        device.close()


def test_another_version_of_the_protocol_is_refused(machine: RegisterMachine) -> None:
    with serial_board(machine, version=1) as board:
        with pytest.raises(
            DeviceError, match="must speak version 3 of the protocol, not 1; build its bitstream"
        ):
            UartPort(board.path)


def test_what_the_board_refuses_is_named(machine: RegisterMachine) -> None:
    with serial_board(machine) as board, UartPort(board.path) as port:
        with pytest.raises(
            DeviceError,
            match="it answers BAD_ADDRESS to READ_MEMORY of 8 bytes at 0xfffc: what runs on it was "
            "made for another board",
        ):
            port.read_memory(0xFFFC, 8)


def test_a_machine_of_another_variant_is_refused(machine: RegisterMachine) -> None:
    with serial_board(machine) as board:
        with pytest.raises(DeviceError, match="fingerprint"):
            uart_device(load_variant("vta"), port=board.path)


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs the serial port of a board: give --option port=PA"):
        uart_device(TINY)
    missing = str(tmp_path / "ttyUSB0")
    reason = f"can be opened at 3000000 baud; '{missing}' is not: No such file or directory; choose"
    with pytest.raises(UserError, match=reason):
        uart_device(TINY, port=missing)


def test_memory_that_is_too_small_is_said_before_anything_runs() -> None:
    machine = RegisterMachine(TINY, base=0, size=1 << 14)
    artifact = daedal.compile(DIGITS, TINY)
    images, _labels = demo_images(1)
    with serial_board(machine, memory_bytes=1 << 14) as board:
        device = uart_device(TINY, port=board.path)
        with pytest.raises(DeviceError, match="the uart device must fit its 16384 bytes of memory"):
            daedal.simulate(artifact, {"input": images}, device=device)


def test_a_session_that_broke_off_leaves_no_trace(machine: RegisterMachine) -> None:
    """Half a request lies in the board; the next session's first one runs into it."""
    board: SerialBoard
    with serial_board(machine) as board:
        board.to_board = [lambda frame: b"\x5a\x01\x05\x00" + frame]
        with UartPort(board.path, answer_seconds=0.2) as port:
            assert port.read_memory(0, 3) == bytes(3)


def test_a_board_belongs_to_one_device(machine: RegisterMachine) -> None:
    """A request of another one with the same tag would get the answer to ours."""
    with serial_board(machine) as board:
        first = uart_device(TINY, port=board.path)
        asked = len(board.asked)
        with pytest.raises(UserError, match="must be used by one device of one process at a time"):
            uart_device(TINY, port=board.path)
        assert len(board.asked) == asked, "nothing was sent"
        first.close()
        uart_device(TINY, port=board.path).close()


def test_a_board_that_forgot_its_memory_is_told(machine: RegisterMachine) -> None:
    program = random_program(TINY, 3).program
    with serial_board(machine) as board:
        device = uart_device(TINY, port=board.path)
        loaded = LoadedProgram.place(program, device)
        for _ in range(2):
            device.launch(program, loaded.bases)
        machine.reset()
        with pytest.raises(DeviceError, match="was reset since its last run"):
            device.launch(program, loaded.bases)
        device.close()
