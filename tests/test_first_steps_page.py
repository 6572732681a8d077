"""docs/first-steps.md: its commands, Python and variant work, and print what it shows."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pages import (
    blocks,
    make_checkout,
    numbers_differ,
    run_line,
    shown_again,
)

PATH = Path(__file__).resolve().parent.parent / "docs" / "first-steps.md"
PAGE = PATH.read_text("utf-8")
BLOCK = re.compile(r"```(sh|python|text|toml)\n(.*?)```\n", re.DOTALL)
TOLERANCE = 0.1


def run_blocks(folder: Path, is_run: Callable[[str], bool]) -> tuple[str, list[tuple[str, str]]]:
    """Run the page; return it as it now is, and numbers that are farther apart than `TOLERANCE`.

    Commands for which `is_run` is false are left out, with what they print.
    """
    printed: str | None = ""
    result, at, far = "", 0, []
    for number, block in enumerate(BLOCK.finditer(PAGE)):
        kind, text = block.groups()
        if kind == "toml":
            (folder / "mine.toml").write_text(text)
        elif kind == "python":
            (folder / f"block{number}.py").write_text(text)
            printed = run_line(f"python block{number}.py", folder)
        elif kind == "sh":
            (line,) = text.splitlines()
            printed = run_line(line, folder) if is_run(line) else None
        elif printed is not None:
            now = shown_again(text, printed)
            if "images/s" not in text:  # the speed of the host, here and now
                far += numbers_differ(text, now, TOLERANCE)
            result += PAGE[at : block.start(2)] + now
            at = block.end(2)
    return result + PAGE[at:], far


@pytest.mark.heavy(10)
def test_the_page_shows_what_happens(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    page, far = run_blocks(make_checkout(tmp_path), lambda line: "--device rtl" not in line)
    if request.config.getoption("--update-golden"):
        PATH.write_text(page, "utf-8")
        return
    assert not far, "the page shows other numbers: run pytest --update-golden"
    assert len(blocks(PAGE, "text")) >= 4


@pytest.mark.slow
@pytest.mark.rtl
def test_the_page_on_the_rtl(tmp_path: Path) -> None:
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    _, far = run_blocks(make_checkout(tmp_path), lambda line: "compare" not in line)
    assert not far
