"""docs/profiling.md: its commands run and show what it says; tables and pictures are drawn anew."""

import json
import shutil
from pathlib import Path

import pytest

from daedal.isa.registers import CycleClass
from daedal.reports.profiling_page import LAYER, pictures, profiles, tables, with_tables
from daedal.runtime.bound import Bound
from daedal.runtime.profiler.diff import diff_profiles
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.reader import load_profile
from tests.support.pages import blocks, commands, make_checkout, run_line

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "profiling.md").read_text("utf-8")


def layer_cycles(profile: NetworkProfile) -> dict[str, int]:
    return {item.layer.name: item.cycles for item in profile.layers}


def check_story(before: NetworkProfile, after: NetworkProfile) -> None:
    """What the page says of the layer, its cause and the fix."""
    slow = next(item for item in before.layers if item.layer.name == LAYER)
    assert slow.bound is Bound.ALU and slow.roofline_cycles == 393
    assert slow.roofline_share < 1 / 3
    alu = slow.units[slow.wait_chain[-1]]
    assert alu.classes[CycleClass.BUSY] == pytest.approx(1280, rel=0.03)
    diff = diff_profiles(before, after)
    first = diff.changes[0]
    assert first.name == LAYER and first.cycles == pytest.approx(-384, rel=0.03)
    assert first.bound == "ALU -> tokens"
    assert diff.conditions["variant"] == ("tiny", "lanes")


def test_tables_and_pictures_are_drawn_from_the_profiles() -> None:
    before, after = profiles(DOCS)
    assert with_tables(PAGE, tables(before, after)) == PAGE, "run make docs"
    for name, text in pictures(before).items():
        assert (DOCS / "profiling" / name).read_text("utf-8") == text, f"{name}: run make docs"
        assert f"(profiling/{name})" in PAGE


def test_story() -> None:
    check_story(*profiles(DOCS))


@pytest.mark.rtl
@pytest.mark.slow
def test_commands_run(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """They measure what the page shows, within what small changes of the hardware may cost."""
    folder = make_checkout(tmp_path)
    printed = [run_line(line, folder) for line in commands(PAGE)]
    measured = [load_profile(folder / name) for name in ("before.json", "after.json")]
    if request.config.getoption("--update-golden"):
        for name in ("before.json", "after.json"):
            shutil.copy(folder / name, DOCS / "profiling" / name)
    check_story(*measured)
    assert printed[-1].splitlines()[-1] == diff_profiles(*measured).summary
    for found, shown in zip(measured, profiles(DOCS), strict=True):
        assert layer_cycles(found) == pytest.approx(layer_cycles(shown), rel=0.05), (
            "the page shows other cycles: run pytest --update-golden, then make docs"
        )
    assert "<canvas" in (folder / "before.html").read_text("utf-8")
    assert json.loads((folder / "before.trace").read_text("utf-8"))["traceEvents"]
    (snippet,) = blocks(PAGE, "python")
    (folder / "snippet.py").write_text(snippet)
    slow = max(measured[0].layers, key=lambda layer: layer.cycles - layer.roofline_cycles)
    assert run_line("python snippet.py", folder).startswith(f"{slow.layer.name} {slow.bound}")
