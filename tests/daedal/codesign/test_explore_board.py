"""`daedal explore --board`: the board's memory, clock and logic count."""

import json
from pathlib import Path

import pytest

from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.counting import profile_artifact
from daedal.codesign.hardware.board import board_named
from daedal.codesign.hardware.clock import Clock
from daedal.common.errors import ExploreError
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.board_names import board_names
from daedal.hw.synth.families import RESOURCES
from daedal.isa.memory_model import PRESETS
from tests.support.command_line import Run, refuses
from tests.support.exploring import DIGITS, CheapCycles

BOARD = board_named("ulx3s-85f")


def test_a_clock_is_limited_by_the_memory() -> None:
    sdram = PRESETS["ulx3s"].sdram
    assert sdram is not None and BOARD.most_mhz == pytest.approx(500 / sdram.chip.clock_ns)
    assert BOARD.clock(Clock(60, 50, 90)) == Clock(60, 50, BOARD.most_mhz)
    assert BOARD.most_mb_per_second == pytest.approx(4 * BOARD.most_mhz)


@pytest.mark.heavy(3)
@pytest.mark.usefixtures("counting")
def test_points_are_those_of_the_board(run: Run, tmp_path: Path) -> None:
    options = ("--board", BOARD.name, "--workers", 1, "--evaluations", 1, "-o", tmp_path)
    status, _, err = run("explore", DIGITS, *options)
    assert status == 0, err
    assert CheapCycles.memory == "ulx3s"
    front = json.loads((tmp_path / "front.json").read_text())
    assert front
    for item in front:
        assert item["mhz"] <= BOARD.most_mhz
        assert item["variant"]["bus"]["data_bits"] == 64
        assert all(item["resources"][name] >= BOARD.resources[name] for name in RESOURCES)
    (point, *_) = tmp_path.rglob("predicted.json")
    told = json.loads(point.read_text())
    assert told["memory"] == "ulx3s" and told["units"][BOARD.name] == BOARD.resources
    assert 0 < told["ideal_cycles"]["digits_qdq"] < told["cycles"]["digits_qdq"]
    artifact = Artifact.load(point.with_name("digits_qdq.daedal"))
    assert artifact.memory.name == "ulx3s", "it has the tiles that were counted"
    assert profile_artifact(artifact, "ulx3s").cycles == told["cycles"]["digits_qdq"]
    page = (tmp_path / "index.html").read_text()
    assert "On board ulx3s-85f (LFE5U-85F)" in page and "moves 286 MB/s at best" in page
    assert "With an ideal memory" in page


def test_no_clock_is_faster_than_the_memory_allows(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    answer = run("explore", DIGITS, "--board", BOARD.name, "--clock", 80, "-o", folder)
    refuses(answer, "the memory of board 'ulx3s-85f' allows at most 71.43 MHz, not 80")
    assert not folder.exists()


@pytest.mark.parametrize("name", board_names())
def test_every_board_is_known(name: str) -> None:
    described = load_board(name)
    if described.sdram is None:
        with pytest.raises(ExploreError, match=f"'{name}' has none: give its device, --fpga ecp"):
            board_named(name)
        return
    board = board_named(name)
    assert board.description == described
    assert board.sdram.chip == described.sdram.chip
    assert board.to_json()["name"] == name


def test_a_device_or_a_board_is_given(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    refuses(run("explore", DIGITS, "-o", folder), "give one of --fpga and --board")
    assert not folder.exists()
