"""docs/boards.md: its tables are those of the protocol, and its commands and its Python run."""

import os
import re
from pathlib import Path

import pytest

from daedal.common.bridge import (
    ANSWER_FIELDS,
    ANSWER_SYNC,
    IDENTITY_FIELDS,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    REQUEST_FIELDS,
    REQUEST_SYNC,
    MemoryTest,
    Op,
    Status,
)
from daedal.common.errors import ToolError
from daedal.hw.boards.board import PINS, SDRAM_PINS
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.board_names import board_names
from daedal.isa.variant import load_variant
from daedal.sim.rtl.toolchain import require_tools
from tests.support.fake_fpga_tools import use_fake_fpga_tools
from tests.support.pages import blocks, make_checkout, run_line, run_page
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import serial_board

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "boards.md").read_text()


def test_operations_and_statuses_have_their_numbers() -> None:
    rows = dict(re.findall(r"^\| ([A-Z_]+) \| (\d+) \|", PAGE, re.MULTILINE))
    assert rows == {item.name: str(int(item)) for item in (*Op, *Status)}


def test_the_boards_are_those_that_come_along() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)` \| .* \| (\S+), speed grade (\d) \| (\d+) MHz \|", PAGE, re.M
    )
    boards = [load_board(name) for name in board_names()]
    assert sorted(rows) == [
        (board.name, board.device, str(board.speed_grade), f"{board.oscillator_mhz:g}")
        for board in boards
    ]
    keys = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("**A board is a file**") :][:2000]))
    assert keys >= {*PINS, *SDRAM_PINS, "name", "title", "device", "package", "speed_grade"}


def test_states_of_the_memory_test_have_their_numbers() -> None:
    (said,) = re.findall(r"The test of memory is (.*?)\. This is version (\d+)\s+of", PAGE)
    words = {"none": "NONE", "under way": "RUNNING", "passed": "PASSED", "failed": "FAILED"}
    found = {words[name]: int(n) for n, name in re.findall(r"(\d) \(([a-z ]+)\)", said[0])}
    assert found == {item.name: int(item) for item in MemoryTest}
    assert int(said[1]) == PROTOCOL_VERSION


def positions(fields: dict[str, int]) -> list[str]:
    """Where each field of a header lies, as the page writes it."""
    found, at = [], 0
    for size in fields.values():
        last = at + size - 1
        found.append({1: f"{at}", 2: f"{at}, {last}"}.get(size, f"{at} to {last}"))
        at += size
    return [*found, f"{at} ..."]


@pytest.mark.parametrize(
    ("fields", "sync"), [(REQUEST_FIELDS, REQUEST_SYNC), (ANSWER_FIELDS, ANSWER_SYNC)]
)
def test_headers_are_laid_out_as_shown(fields: dict[str, int], sync: int) -> None:
    head = "| byte | " + " | ".join(positions(fields)) + " | last four |\n"
    (row,) = re.findall(re.escape(head) + r"[|-]+\n\| \| (\S+)", PAGE)
    assert row == f"0x{sync:02X}"


def test_the_identity_is_as_described() -> None:
    (cell,) = re.findall(r"^\| IDENTIFY .*\| (.*) \|$", PAGE, re.MULTILINE)
    assert [int(size) for size in re.findall(r"\((\d)(?: bytes)?\)", cell)] == list(
        IDENTITY_FIELDS.values()
    )
    assert f"longer than {MAX_PAYLOAD_BYTES:,} bytes" in PAGE


WALK = PAGE[PAGE.index("## From an empty machine") : PAGE.index("## The boards")]
SDRAM_BYTES = 32 << 20


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands of the page run, with tools that build nothing."""
    use_fake_fpga_tools(monkeypatch)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "openFPGALoader").write_text('#!/bin/sh\ntest "$1 $2" = "-b ulx3s" && test -s "$3"\n')
    (tools / "openFPGALoader").chmod(0o755)
    # The tests' own Python is put before it on the path, where no such tool is.
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "checkout"
    folder.mkdir()
    return make_checkout(folder)


@pytest.mark.heavy(2)
def test_from_an_empty_machine_to_a_classified_image(checkout: Path) -> None:
    """Each command, with a board in Python at the serial port."""
    machine = RegisterMachine(load_variant("tiny"), base=0, size=SDRAM_BYTES)
    with serial_board(machine, memory_bytes=SDRAM_BYTES) as board:
        run_page(WALK.replace("/dev/ttyUSB0", str(board.path)), checkout, tolerance=1.0)
    assert (checkout / "build" / "ulx3s-85f-tiny.bit").is_file()


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.xdist_group("board")
def test_python_runs(tmp_path: Path) -> None:
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    checkout = make_checkout(tmp_path)
    (snippet,) = blocks(PAGE.replace(WALK, ""), "python")
    assert snippet.count("report=print)") == 1
    snippet = snippet.replace("report=print)", "report=print, assertions=True)")
    (checkout / "snippet.py").write_text(snippet)
    run_line("python snippet.py", checkout)
