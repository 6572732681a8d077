"""docs/codesign.md: its commands run, and what it says of them holds."""

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer.main

from bench.codesign.pictures import NAMES, pictures
from daedal.cli import app
from daedal.codesign.search.objectives import Objective
from tests.support.pages import blocks, commands, make_checkout, run_line
from tests.support.small_netlist import needs_nextpnr

PATH = Path(__file__).resolve().parent.parent / "docs" / "codesign.md"
PAGE = PATH.read_text("utf-8")
FILES = re.findall(r"^\| (`.*?`) \|", PAGE.partition("## The folder")[2], re.MULTILINE)


def patterns() -> list[str]:
    """The files that the page names, as patterns."""
    names = [name for row in FILES for name in re.findall(r"`(.*?)`", row)]
    return [re.sub("NAME|NETWORK", "*", name) for name in names]


def test_options_exist() -> None:
    group = typer.main.get_command(app)
    known = {
        name: {option for item in command.params for option in item.opts}
        for name, command in group.commands.items()  # type: ignore[attr-defined]
    }
    shown = "".join(blocks(PAGE, "console")).replace("$ ", "").splitlines()
    for line in [*commands(PAGE), *shown]:
        _, name, *words = line.split()
        assert {word for word in words if word.startswith("-")} <= known[name], line
    line = "".join(blocks(PAGE, "console"))
    assert "--pool" in line and "--tls" in line
    for option in set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--seeds"}:
        assert option in known["explore"] | known["compare"], option
    assert "--seeds" in known["synth"]


def test_objectives_are_told() -> None:
    (table,) = re.findall(r"\| objective \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [item.value for item in Objective]
    assert len(patterns()) > 8


def test_pictures_are_there_and_tell_their_figures() -> None:
    shown = re.findall(r"^!\[.+\]\((.+\.svg)\)$", PAGE, re.MULTILINE)
    assert shown == [f"codesign-{name}.svg" for name in NAMES]
    for name in shown:
        root = ElementTree.parse(PATH.parent / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("aria-label")
        assert list(root.iter("{http://www.w3.org/2000/svg}title")), "hints"


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.fpga
@needs_nextpnr
def test_commands_run(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path)
    search, smallest, compared, verified = (run_line(line, folder) for line in commands(PAGE))
    assert "Pareto front" in search and re.search(r"\d variants compiled and counted", search)
    for pattern in patterns():
        verifies = pattern.endswith(("measured.json", "daedal_top.v"))
        assert list((folder / ("smallest" if verifies else "digits")).glob(pattern)), pattern
    drawn = pictures(folder / "digits")
    num_points = len(json.loads((folder / "digits" / "front.json").read_text()))
    assert drawn["front"].text().count('class="point"') == num_points
    (row,) = csv.DictReader((folder / "smallest" / "front.csv").read_text().splitlines())
    assert float(row["cycles digits_qdq"]) / float(row["mhz"]) / 1000 <= 1.0
    assert row["name"] in smallest
    assert re.search(r"^ *│? *ecp5 ", compared, re.MULTILINE) and "images/s" in compared
    assert "Predicted against measured" in verified and "equal" in verified
    assert "Predicted against measured" in (folder / "smallest" / "index.html").read_text("utf-8")
