"""docs/tuning.md: its commands and its Python run, and show what the page says."""

import re
from pathlib import Path

import pytest

from tests.support.pages import blocks, commands, make_checkout, numbers_differ, run_line

PATH = Path(__file__).resolve().parent.parent / "docs" / "tuning.md"
PAGE = PATH.read_text("utf-8")
OUTPUTS = {"tuned": 0, "explained": 3}
"""Texts of the page, and the numbers of the commands that print them."""
LAYER = "add0_linear"


def shown(name: str) -> str:
    (text,) = re.findall(rf"<!-- output: {name} -->\n```text\n(.*?)```\n", PAGE, re.DOTALL)
    return str(text)


def plain(text: str) -> str:
    """Without spaces at the ends of lines, and without empty lines in tables."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def cells(text: str, layer: str) -> list[str]:
    (row,) = [line for line in text.splitlines() if line.split()[:1] == [layer] and "x " in line]
    return row.split()


def number(text: str) -> int:
    return int(text.replace(",", ""))


def check_story(tuned: str, explained: str) -> None:
    """What the page says of the layer."""
    row = cells(tuned, LAYER)
    (faster,) = [float(cell[:-1]) for cell in row if re.fullmatch(r"[0-9.]+x", cell)]
    assert faster > 1.1
    pattern = rf"{LAYER} takes ([0-9,]+) cycles instead of ([0-9,]+)"
    best_cycles, default_cycles = map(number, re.findall(pattern, explained)[0])
    assert best_cycles < default_cycles
    alone = re.findall(r"with (\w+) set back alone, it takes ([0-9,]+)", explained)
    back = {knob: number(cycles) for knob, cycles in alone}
    assert back.pop("sums_outside") > default_cycles, "this change pays"
    assert all(cycles < 1.01 * best_cycles for cycles in back.values()), "the others hardly do"
    same = explained.partition("the same in both: ")[2]
    assert "products" in same and "vectors of the ALU" in same, "it computes the same"
    stalls = re.findall(r"LOAD waits for bus.*? +([0-9,]+) +([0-9,]+)", explained)[0]
    assert number(stalls[0]) > 2 * number(stalls[1]), "LOAD waits less"
    waits = re.findall(r"GEMM waits for LOAD +([0-9,]+) +([0-9,]+)", explained)[0]
    assert number(waits[0]) > number(waits[1]), "GEMM waits less"
    (total,) = re.findall(r"total: ([0-9,]+) cycles by default, ([0-9,]+) tuned", tuned)
    assert number(total[1]) < number(total[0])


def test_story() -> None:
    check_story(shown("tuned"), shown("explained"))


@pytest.mark.slow
def test_commands_run(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    folder = make_checkout(tmp_path)
    printed = [run_line(line, folder) for line in commands(PAGE)]
    assert (folder / "digits.db").is_file() and (folder / "digits.daedal").is_file()
    assert f"Why {LAYER}" in (folder / "digits.html").read_text("utf-8")
    found = {name: plain(printed[number]) for name, number in OUTPUTS.items()}
    # The table of the layers is above.
    found["explained"] = found["explained"][found["explained"].index(f"{LAYER} takes") :]
    check_story(found["tuned"], found["explained"])
    if request.config.getoption("--update-golden"):
        page = PAGE
        for name, text in found.items():
            begin = f"<!-- output: {name} -->\n```text\n"
            page = page.replace(f"{begin}{shown(name)}```", f"{begin}{text}```")
        PATH.write_text(page, "utf-8")
        return
    rows = [" ".join(cells(text, LAYER)) for text in (shown("tuned"), found["tuned"])]
    assert not numbers_differ(*rows, 0.05), "run pytest --update-golden"


def test_python_runs(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path)
    for number, block in enumerate(blocks(PAGE, "python")):
        (folder / f"block{number}.py").write_text(block)
        run_line(f"python block{number}.py", folder)
