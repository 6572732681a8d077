"""``daedal board-test`` against a board in Python."""

import json
from pathlib import Path

import pytest

from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import serial_board

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture
def machine() -> RegisterMachine:
    return RegisterMachine(TINY, base=0, size=1 << 16)


@pytest.mark.heavy(2)
def test_a_good_board_passes(run: Run, machine: RegisterMachine) -> None:
    with serial_board(machine) as board:
        port = f"port={board.path}"
        status, out, err = run(
            "board-test", "tiny", "--option", port, "--programs", "5", "--model", DIGITS
        )
    assert status == 0, err
    text = " ".join(out.split())
    assert "variant tiny, 64 KiB of memory" in text
    assert "memory: good" in text
    assert "programs: right; 5 random ones" in text
    assert "digits_qdq.onnx is right: " in text


def test_bad_memory_is_reported_before_anything_runs(run: Run, machine: RegisterMachine) -> None:
    read = machine.read_memory
    machine.read_memory = lambda *place: bytes(byte | 4 for byte in read(*place))  # type: ignore
    with serial_board(machine) as board:
        status, out, _ = run(
            "board-test", "tiny", "--option", f"port={board.path}", "--json", "--model", DIGITS
        )
    assert status == 1
    report = json.loads(out)
    assert report["passed"] is False and report["programs"] is report["network"] is None
    assert report["memory"]["faults"][0].startswith("bits 2, 10, 18, 26, 34, 42, 50, 58 of a word")


def test_what_the_boards_own_test_has_found_is_reported(run: Run, machine: RegisterMachine) -> None:
    """Also where nothing else is found: its words are all of the memory."""
    with serial_board(machine, memory_test=[3], failing_address=0x1238) as board:
        status, out, _ = run("board-test", "tiny", "--option", f"port={board.path}", "--json")
    assert status == 1
    (fault,) = json.loads(out)["memory"]["faults"]
    assert fault.endswith("it failed the test at start-up, first at 0x1238")


def test_programs_that_leave_other_bytes_are_reported(
    run: Run, machine: RegisterMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = machine._end

    def end_wrong() -> None:
        end()
        (byte,) = machine.read_memory(0x2000, 1)
        machine.write_memory(0x2000, bytes([byte ^ 1]))

    monkeypatch.setattr(machine, "_end", end_wrong)
    with serial_board(machine) as board:
        status, out, _ = run(
            "board-test", "tiny", "--option", f"port={board.path}", "--programs", "3", "--seed", "7"
        )
    text = " ".join(out.split())
    assert status == 1
    assert "of 3 random ones, 3 left other bytes" in text and "seeds: 7, 8, 9" in text
    assert "network: not run, as what is above comes first" in text


def test_programs_that_end_in_an_error_are_reported(run: Run, machine: RegisterMachine) -> None:
    machine.error = (ErrorCode.WATCHDOG, Unit.GEMM, 3)
    with serial_board(machine) as board:
        status, out, _ = run(
            "board-test", "tiny", "--option", f"port={board.path}", "--json", "--model", DIGITS
        )
    assert status == 1
    report = json.loads(out)
    assert report["programs"]["num_run"] == 0 and report["programs"]["failure"]
    assert report["network"] is None


def test_a_simulator_is_no_board(run: Run) -> None:
    refuses(
        run("board-test", "tiny", "--device", "functional"),
        "board-test needs a board behind --device uart or uio, not 'functional'",
    )


def test_a_board_of_another_variant_is_refused(run: Run, machine: RegisterMachine) -> None:
    with serial_board(machine) as board:
        status, _, err = run("board-test", "vta", "--option", f"port={board.path}")
    assert status == 2 and "fingerprint" in err
