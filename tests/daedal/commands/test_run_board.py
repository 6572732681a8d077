"""``daedal run`` on a board in Python: a sentence for each fault, and the next run works."""

from pathlib import Path
from typing import Any

import pytest

from daedal.isa.variant import load_variant
from tests.support.command_line import Answer, Run
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import SerialBoard, serial_board

TINY = load_variant("tiny")


@pytest.fixture
def machine() -> RegisterMachine:
    return RegisterMachine(TINY, base=0, size=1 << 16)


def run_on(board: SerialBoard, run: Run, built: Path) -> Answer:
    return run(
        *("run", built / "digits.daedal", "--input", built / "images.npz", "--device", "uart"),
        *("--option", f"port={board.path}", "--option", "answer_seconds=0.2"),
    )


def fails(answer: Answer, sentence: str) -> None:
    """As a mistake of the user's: exit status 2, one last sentence."""
    status, out, err = answer
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("error: ") and sentence in err.splitlines()[-1]


def test_faults_end_in_a_sentence_and_the_next_run_works(
    run: Run, built: Path, machine: RegisterMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serial_board(None) as board:
        fails(run_on(board, run, built), "answer within 0.2 seconds; nothing whole came at 3000000")
    with serial_board(RegisterMachine(load_variant("ecp5"), base=0, size=1 << 16)) as board:
        fails(run_on(board, run, built), "fingerprint")
    with serial_board(machine, version=2) as board:
        fails(run_on(board, run, built), "must speak version 3 of the protocol, not 2")
    with serial_board(machine, memory_bytes=1 << 13) as board:
        fails(run_on(board, run, built), "must fit its 8192 bytes of memory")
    with serial_board(machine) as board, monkeypatch.context() as patched:
        read = machine.read_memory
        patched.setattr(machine, "read_memory", lambda *at: bytes(b | 4 for b in read(*at)))
        fails(run_on(board, run, built), "the board's memory must hold what is written to it")
    with serial_board(machine, memory_test=[1, 1, 3], failing_address=0x48) as board:
        fails(
            run_on(board, run, built), "it failed the test at start-up, first at 0x48: run daedal"
        )
    with serial_board(machine) as board:
        board.to_board = [lost] * 1000
        fails(run_on(board, run, built), "the board must answer within 0.2 seconds")
    with serial_board(machine) as board, monkeypatch.context() as patched:
        patched.setattr(machine, "_start", board.unplug)
        fails(run_on(board, run, built), "the serial port must stay open")
    with serial_board(machine) as board:
        board.to_board = [whole, flipped, whole, lost] * 20
        board.to_host = [whole, whole, whole, lost, whole, flipped] * 20
        status, out, err = run_on(board, run, built)
    assert status == 0, err
    assert "probabilities (2, 10)" in out
    assert "a board answers at 3,000,000 baud" in err


def flipped(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


def lost(_frame: bytes) -> bytes:
    return b""


def whole(frame: bytes) -> bytes:
    return frame


def test_a_port_without_a_device_is_refused(run: Run, built: Path, tmp_path: Path) -> None:
    arguments: tuple[Any, ...] = ("run", built / "digits.daedal", "--input", built / "images.npz")
    missing = tmp_path / "ttyUSB0"
    status, out, err = run(*arguments, "--device", "uart", "--option", f"port={missing}")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: a serial port must be one that can be opened")
