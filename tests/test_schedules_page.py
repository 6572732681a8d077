"""docs/schedules.md: its Python runs, and prints what the page says."""

import re
from pathlib import Path

import pytest

from bench.correctness.rtl_launches import rtl_device
from daedal.isa.variant import load_variant
from tests.support.pages import printed_again

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schedules.md"


@pytest.mark.rtl
def test_the_page_says_what_happens(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text("utf-8")
    # The tests' simulator: its machine checks its contracts.
    names = {"asserting": rtl_device(load_variant("vta"))}
    checked = page.replace('device="rtl"', "device=asserting")
    now = printed_again(checked, PAGE.name, names).replace("device=asserting", 'device="rtl"')
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, "utf-8")
        page = now
    assert now == page
    shares = [float(share) for share in re.findall(r"([\d.]+)% of peak", page)]
    assert shares == sorted(shares) and shares[-2] >= 95
