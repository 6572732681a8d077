"""docs/two-problems.md: its commands and its Python run in order, and print what it shows."""

import re
from pathlib import Path

import pytest

from tests.support.pages import make_checkout, run_page

PATH = Path(__file__).resolve().parent.parent / "docs" / "two-problems.md"
PAGE = PATH.read_text("utf-8")


@pytest.mark.slow
def test_the_page_shows_what_happens(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Words are the same, and numbers within 10 %."""
    page, _, far = run_page(PAGE, make_checkout(tmp_path), 0.1)
    if request.config.getoption("--update-golden"):
        PATH.write_text(page, "utf-8")
        return
    assert not far, "the page shows other numbers: run pytest --update-golden"
    assert len(re.findall(r"```text", PAGE)) == 5
