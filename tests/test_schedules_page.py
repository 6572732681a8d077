"""docs/schedules.md: its Python runs, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from daedal.isa.variant import load_variant
from tests.support.rtl import rtl_device

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schedules.md"
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def executed(page: str) -> str:
    """The page with every block of text as the Python above it prints it."""
    names: dict[str, object] = {"asserting": rtl_device(load_variant("vta"))}
    printed = io.StringIO()

    def run(match: re.Match[str]) -> str:
        nonlocal printed
        kind, code = match.groups()
        if kind == "python":
            printed = io.StringIO()
            # The tests' simulator: its machine checks its contracts.
            code = code.replace('device="rtl"', "device=asserting")
            with contextlib.redirect_stdout(printed):
                exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 our own page
            return match[0]
        return f"```text\n{printed.getvalue()}```"

    return BLOCK.sub(run, page)


@pytest.mark.rtl
def test_the_page_says_what_happens(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text("utf-8")
    now = executed(page)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, "utf-8")
        page = now
    assert now == page
    shares = [float(share) for share in re.findall(r"([\d.]+)% of peak", page)]
    assert shares == sorted(shares) and shares[-2] >= 95
