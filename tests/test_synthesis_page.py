"""docs/synthesis.md: its commands have the options that it says, and its files are there."""

import re
from pathlib import Path

import pytest
import typer.core
import typer.main

from daedal.cli import app
from daedal.hw.synth.families import Target
from daedal.hw.synth.flow import PLACED
from tests.support.pages import commands

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", commands(PAGE))
def test_commands_are_understood(line: str) -> None:
    """They take minutes, so they are parsed, not run."""
    program, command, *arguments = line.split()
    assert (program, command) == ("daedal", "synth")
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    synth = group.commands[command]
    context = synth.make_context(command, arguments)
    assert context.params["fpga"] in set(Target)


def test_all_targets_are_in_the_table() -> None:
    rows = [line.split("|")[1:4] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {
        name: "nextpnr" in area for names, area, _ in rows for name in re.findall("`(.+?)`", names)
    }
    assert named == {target.value: target.family in PLACED for target in Target}


def test_named_files_exist() -> None:
    for name in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / name).exists(), name
    for name in re.findall(r"`(hw/[\w./]+)`", PAGE):
        assert (ROOT / name).exists(), name
