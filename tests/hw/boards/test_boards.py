"""All boards: every pin has a site, and the text holds the machine by its name."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from daedal.common.errors import UserError
from daedal.hw.boards import top as board_top
from daedal.hw.boards.board import Board
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.board_names import board_names
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import CellReport, Family
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


AFTER_SYNTHESIS = {
    "BB": "TRELLIS_IO",
    "IFS1P3DX": "TRELLIS_FF",
    "OFS1P3BX": "TRELLIS_FF",
    "OFS1P3DX": "TRELLIS_FF",
}
"""What Yosys makes of Lattice's names. Source: its techlibs/ecp5/cells_map.v."""


BOARDS = [load_board(name) for name in board_names()]
WITH_SDRAM = [board for board in BOARDS if board.sdram is not None]


def settings_of(board: Board, memory: int | SdramChip) -> BoardSettings:
    clock = board.clock(70e6, None if isinstance(memory, int) else 180)
    return BoardSettings.for_baud(board, TINY, clock, memory)


@pytest.mark.heavy(3)
@pytest.mark.parametrize(
    ("board", "memory"),
    [
        pytest.param(board, memory, id=f"{board.name}-{kind}")
        for board in BOARDS
        for kind, memory in (("block", 1 << 15), ("sdram", board.sdram and board.sdram.chip))
        if memory is not None
    ],
)
def test_every_pin_has_one_site_and_the_machine_is_connected(
    board: Board, memory: int | SdramChip
) -> None:
    settings = settings_of(board, memory)
    text = board_top.emit(settings, f"module {TOP_MODULE}(...);\nendmodule\n")
    heading = f"// {board.title} with Daedal accelerator, variant tiny, {TINY.fingerprint}.\n"
    assert text.startswith(heading)
    assert text.endswith("module daedal_top(...);\nendmodule\n")

    # Synthesis can count each cell of the family.
    cells = re.findall(r"^  ([A-Z]+[A-Z0-9]+) (?:#\(|\w+ \()", text, re.M)
    report = CellReport.of(Family.ECP5, Counter(AFTER_SYNTHESIS.get(cell, cell) for cell in cells))
    assert report.cells["EHXPLLL"] == 1
    assert ("ODDRX1F" in report.cells) == (not isinstance(memory, int))

    top = text[text.index(f"module {board_top.TOP_MODULE}(") :]
    top = top[: top.index("endmodule")]
    ports = {}
    for width, name in re.findall(r"^  (?:input|output|inout) (?:\[(\d+):0\] )?(\w+);", top, re.M):
        ports |= {f"{name}[{n}]": 1 for n in range(int(width) + 1)} if width else {name: 1}
    located = re.findall(r'LOCATE COMP "(\S+)" SITE "(\w+)";', settings.constraints)
    assert sorted(ports) == sorted(pin for pin, _ in located)
    assert len({site for _, site in located}) == len(located)
    kinds = re.findall(r'IOBUF PORT "(\S+)" IO_TYPE=LVCMOS(?:33|25)\b', settings.constraints)
    assert sorted(kinds) == sorted(ports)

    # Levels are those of the board: what is low there is inverted here.
    assert ("lights = ~" in top) == (board.pins["lights"].level == 0)
    assert ("~ button" in text) == (board.pins["button"].level == 1)

    (instance,) = re.findall(r"^  daedal_top  ?machine \((.*?)^  \);", text, re.M | re.S)
    pins = re.findall(r"\.(\w+)\(", instance)
    assert len(pins) == len(set(pins))
    # What is not there is constant at the master, or of no use to the slave.
    assert {"m_axi_gmem_arburst", "s_axi_control_bresp"}.isdisjoint(pins)
    assert {"ap_clk", "ap_rst_n", "m_axi_gmem_wstrb", "s_axi_control_rready"} < set(pins)


@pytest.mark.parametrize("board", WITH_SDRAM, ids=lambda board: board.name)
def test_a_chip_with_other_pins_is_refused(board: Board) -> None:
    assert board.sdram is not None
    narrow = replace(board.sdram.chip, data_bits=8)
    with pytest.raises(UserError, match=r"data_bits of the SDRAM on this board must be 16, not 8"):
        settings_of(board, narrow)


def test_a_board_without_sdram_has_block_ram_only() -> None:
    with pytest.raises(UserError, match="board 'ecp5-evn' has no SDRAM: a machine there has block"):
        settings_of(load_board("ecp5-evn"), CHIPS["IS42S16160G-7"])
