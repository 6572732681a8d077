"""Files of boards: what they may say, and one sentence for everything else."""

import re
from pathlib import Path

import pytest

from daedal.common.errors import UserError
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.board_names import board_names
from daedal.isa.memory_model import PRESETS

KNOWN = Path(__file__).resolve().parents[3] / "hw" / "boards" / "known"
TEXT = (KNOWN / "ulx3s-85f.toml").read_text(encoding="utf-8").replace("ulx3s-85f", "mine")


@pytest.mark.parametrize("name", board_names())
def test_shipped_boards_name_their_source(name: str) -> None:
    """Pins that nobody can check are worth nothing."""
    board = load_board(name)
    assert board.name == name
    comment = (KNOWN / f"{name}.toml").read_text(encoding="utf-8").partition("name =")[0]
    assert "# Source: " in comment


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    mine, shipped = load_board(str(path)), load_board("ulx3s-85f")
    assert mine.name == "mine" and mine.pins == shipped.pins and mine.held == shipped.held
    assert mine.sdram == shipped.sdram
    assert mine.sdram is not None and PRESETS["ulx3s"].sdram is not None
    assert mine.sdram.chip == PRESETS["ulx3s"].sdram.chip
    assert 'FREQUENCY PORT "clock" 25 MHZ;' in mine.constraints(with_sdram=False)
    assert "sdram" not in mine.constraints(with_sdram=False)


def test_a_chip_whose_select_is_tied(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(re.sub(r'^c(ke|sn) = ".*"\n', "", TEXT, flags=re.M))
    assert "sdram_csn" not in load_board(path).constraints(with_sdram=True)


def test_a_board_with_one_light(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace("B2 C2 C1 D2 D1 E2 E1 H3", "B2"))
    assert 'LOCATE COMP "lights" SITE "B2";' in load_board(path).constraints(with_sdram=False)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('name = "mine"', 'name = "ulx3s-85f"', "must have another name than a board that comes"),
        ('name = "mine"', 'name = "a/b"', "name must be at most 32 small letters, digits"),
        ('name = "mine"\n', "", "'mine.toml': a board must have name"),
        ('title = "ULX3S"', 'title = "U\\nL"', "title must be at most 64 letters, digits and"),
        ("[pins]", "colour = 1\n[pins]", "a board has no key 'colour'; it has name, title, device"),
        ("LFE5U-85F", "LFE5U-25F", "device must be one of LFE5U-85F, LFE5UM-85F, LFE5UM5G-85F"),
        ("CABGA381", "QFN; x", "package must be one such as CABGA381, not 'QFN; x'"),
        ("speed_grade = 6", "speed_grade = 5", "speed_grade must be 6, 7 or 8, not 5"),
        ("speed_grade = 6", "speed_grade = 6.0", "speed_grade of a board must be of type int"),
        ("oscillator_mhz = 25", "oscillator_mhz = 5", "oscillator_mhz must be 10 to 400"),
        ("oscillator_mhz = 25", "oscillator_mhz = nan", "oscillator_mhz must be 10 to 400"),
        ('"G2"', '"G2 G3"', "pins.clock must have one site, not 2"),
        ("B2 C2 C1 D2 D1 E2 E1 H3", "", "pins.lights must have 1 to 32 sites, not 0"),
        ('"G2"', '"G2;"', "a site must be a ball such as G2, not 'G2;'"),
        ('"G2"', '"M1"', "a site must have one pin; M1 has clock and receive"),
        ('"B2 C2 ', '"B2 B2 ', "lights must have sites that differ"),
        ("IO_TYPE=LVCMOS33 PULLMODE=DOWN", "PULLMODE=DOWN", "options of a pin must begin with IO_"),
        ('PULLMODE=DOWN"', 'PULLMODE=\\"x"', "options of a pin must begin with IO_TYPE and be"),
        ('PULLMODE=DOWN", level = 1', 'PULLMODE=DOWN", level = 2', "level of a pin must be 0 or 1"),
        ("clock = {", "clok = {", "[pins] has no key 'clok'; it has clock, receive, send, button,"),
        ("receive = {", "# receive = {", "pins must have receive"),
        ("wifi_gpio0 =", "sdram_clk =", "a held pin must have a name of its own"),
        (
            'memory = "ulx3s"',
            'memory = "ddr"',
            "sdram.memory must be a preset with an SDRAM, ulx3s",
        ),
        ('ba = "P19 N20"', 'ba = "P19"', "bank_bits of the SDRAM on this board must be 1, not 2"),
        ('dqm = "U19 E20"\n', "", "sdram.sites must have dqm"),
        ('cke = "F20"', 'cks = "F20"', "[sdram.sites] has no key 'cks'; it has clk, cke, csn"),
        ("[sdram]", "[sdram", "'mine.toml' must be valid TOML: "),
        ("[held]", "held = 3\n[helt]", "a board has no key 'helt'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = tmp_path / "mine.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_board(path)
    assert sentence in str(caught.value)


def test_an_unknown_name() -> None:
    known = ", ".join(board_names())
    with pytest.raises(UserError, match=f"a board is one of {known}, or the path of a .toml file"):
        load_board("arty")
