"""docs/gpu.md: its Python runs, and prints what the page says."""

from pathlib import Path

import pytest

from tests.support.pages import printed_again

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"


@pytest.mark.heavy(10)
def test_the_page_says_what_happens(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text("utf-8")
    now = printed_again(page, PAGE.name)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, "utf-8")
        page = now
    assert now == page
