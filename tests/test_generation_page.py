"""docs/generation.md: its commands and its Python run in order, and print what it shows."""

from pathlib import Path

import pytest

from tests.support.pages import make_checkout, run_page

PATH = Path(__file__).resolve().parent.parent / "docs" / "generation.md"
PAGE = PATH.read_text("utf-8")


@pytest.mark.slow
def test_the_page_shows_what_happens(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Words are the same, and numbers within 10 %."""
    folder = make_checkout(tmp_path)
    page, printed, far = run_page(PAGE, folder, 0.1)
    assert printed.splitlines()[0].startswith("0 ")
    if request.config.getoption("--update-golden"):
        PATH.write_text(page, "utf-8")
        return
    assert not far, "the page shows other numbers: run pytest --update-golden"
