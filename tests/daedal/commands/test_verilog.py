"""``daedal verilog``: the source and the header, and variants that are none."""

import re
from pathlib import Path

import pytest

from tests.support.command_line import Run, refuses


def test_verilog_and_header(run: Run, tmp_path: Path) -> None:
    source, header = tmp_path / "tiny.v", tmp_path / "regs.h"
    status, out, err = run("verilog", "tiny", "-o", source, "--header", header)
    assert status == 0, err
    assert out == "" and "top module daedal_top" in err
    assert re.search(r"^module daedal_top\b", source.read_text(), re.MULTILINE)
    assert "#define" in header.read_text()


@pytest.mark.slow
def test_hard_blocks_of_a_family(run: Run, tmp_path: Path) -> None:
    status, _, err = run("verilog", "smallest", "-o", tmp_path / "ecp5.v", "--family", "ecp5")
    assert status == 0, err
    assert (
        "DP16KD" in (tmp_path / "ecp5.v").read_text()
        or "MULT18X18D" in (tmp_path / "ecp5.v").read_text()
    )


def test_a_family_that_is_none(run: Run) -> None:
    status, out, err = run("verilog", "smallest", "--family", "max10")
    assert status == 2 and out == "" and "must be one of 'xc7', 'ecp5', 'xcup', not 'max10'" in err


@pytest.mark.parametrize(
    ("text", "part"),
    [("[array", "TOML"), ('name = "x"\ncolour = 3\n', "colour"), ("", "must give")],
)
def test_variant_file_that_is_none(run: Run, tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    refuses(run("verilog", tmp_path / "bad.toml"), part)


def test_unknown_variant(run: Run) -> None:
    refuses(run("verilog", "huge"), "a variant is one of attention, batch4, ecp5", "'huge'")
