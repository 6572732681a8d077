"""A board that fails in a session, and what the next session makes of what is left in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import DeviceError
from daedal.isa.random_programs import random_program
from daedal.isa.variant import load_variant
from daedal.runtime.devices.uart import uart_device
from daedal.runtime.driver import LoadedProgram
from examples.digits.data import demo_images
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import WRITE_MEMORY, SerialBoard, serial_board

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture
def machine() -> RegisterMachine:
    return RegisterMachine(TINY, base=0, size=1 << 16)


@pytest.fixture(scope="module")
def digits() -> Artifact:
    return daedal.compile(DIGITS, TINY)


def run_digits(board: SerialBoard, artifact: Artifact) -> dict[str, bytes]:
    """All that the network computes, in a session of its own."""
    images, _ = demo_images(1)
    device = uart_device(TINY, port=board.path, answer_seconds=0.2)
    try:
        found = daedal.simulate(artifact, {"input": images}, device=device)
        return {name: tensor.tobytes() for name, tensor in found.tensors.items()}
    finally:
        device.close()


@pytest.fixture(scope="module")
def right(digits: Artifact) -> dict[str, bytes]:
    images, _ = demo_images(1)
    found = daedal.simulate(digits, {"input": images})
    return {name: tensor.tobytes() for name, tensor in found.tensors.items()}


def written(board: SerialBoard) -> int:
    return sum(count for op, count in board.asked if op == WRITE_MEMORY)


def test_the_second_run_of_a_network_sends_its_inputs(
    machine: RegisterMachine, digits: Artifact
) -> None:
    """And what does not fill a block at the ends of weights and instructions."""
    sent = []
    with serial_board(machine) as board:
        for _ in range(2):
            board.asked.clear()
            run_digits(board, digits)
            sent.append(written(board))
    (launch,) = digits.launches
    constants, code = len(launch.program.constants), len(launch.program.encode())
    inputs = sum(item.size_bytes for item in launch.program.inputs)
    assert sent[0] == constants + code + inputs
    assert sent[1] == constants % 1024 + code % 1024 + inputs


def forget_nothing(_machine: RegisterMachine, _board: SerialBoard) -> None:
    """The same session again."""


def another_program(_machine: RegisterMachine, board: SerialBoard) -> None:
    """Of another process."""
    case = random_program(TINY, 4)
    device = uart_device(TINY, port=board.path)
    loaded = LoadedProgram.place(case.program, device)
    for region, data in case.contents.items():
        loaded.write_region(region, bytes(data))
    device.launch(case.program, loaded.bases)
    device.close()


def power_off(machine: RegisterMachine, _board: SerialBoard) -> None:
    """Memory comes back as it may."""
    machine.reset()
    machine.write_memory(0, np.random.default_rng(1).bytes(1 << 16))


def new_bitstream(machine: RegisterMachine, _board: SerialBoard) -> None:
    """Memory stays."""
    machine.reset()


def lost_bits(machine: RegisterMachine, _board: SerialBoard) -> None:
    """A memory that was not refreshed."""
    data = bytearray(machine.read_memory(0, 1 << 16))
    for at in range(100, 1 << 16, 3000):
        data[at] ^= 0x10
    machine.write_memory(0, bytes(data))


@pytest.mark.parametrize(
    "happening", [forget_nothing, another_program, power_off, new_bitstream, lost_bits]
)
def test_nothing_that_happens_between_sessions_is_missed(
    happening: Callable[[RegisterMachine, SerialBoard], None],
    machine: RegisterMachine,
    digits: Artifact,
    right: dict[str, bytes],
) -> None:
    with serial_board(machine) as board:
        assert run_digits(board, digits) == right
        happening(machine, board)
        assert run_digits(board, digits) == right


def no_more_than(count: int, whole: Callable[..., Any], then: Callable[[], None]) -> Any:
    """A method that works so many times."""
    left = count

    def method(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            then()
        return whole(*arguments)

    return method


@pytest.mark.parametrize(
    ("method", "count"),
    [("write_memory", 0), ("write_memory", 2), ("_start", 0), ("_end", 0), ("read_memory", 12)],
)
def test_a_cable_that_is_pulled_ends_in_a_sentence(
    method: str,
    count: int,
    machine: RegisterMachine,
    digits: Artifact,
    right: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an upload, a run, or while results are read; the next session runs as if alone."""
    with serial_board(machine) as board, monkeypatch.context() as patched:
        patched.setattr(
            machine, method, no_more_than(count, getattr(machine, method), board.unplug)
        )
        with pytest.raises(DeviceError) as caught:
            run_digits(board, digits)
    said = str(caught.value)
    assert said.startswith(f"the serial port must stay open; '{board.path}' failed: ")
    assert said.endswith("; plug the board in again, and open the device again")
    with serial_board(machine) as board:
        assert run_digits(board, digits) == right


def test_a_board_with_another_bitstream_is_left_to_others(
    machine: RegisterMachine, digits: Artifact, right: dict[str, bytes]
) -> None:
    with serial_board(machine) as board:
        with pytest.raises(DeviceError, match="fingerprint"):
            uart_device(load_variant("vta"), port=board.path)
        assert run_digits(board, digits) == right
