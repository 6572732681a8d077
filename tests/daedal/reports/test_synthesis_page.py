"""The page of a synthesis: complete in itself, the numbers of the record, and names stay text."""

import dataclasses
import itertools

import pytest

from daedal.hw.synth.families import RESOURCES, CellReport, Family
from daedal.hw.synth.flow import Implementation
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.isa.variant import load_variant
from daedal.reports.synthesis import synthesis_record
from daedal.reports.synthesis_page import synthesis_page
from tests.support.browser import Browser
from tests.support.page_reader import HOSTILE, Reader, assert_complete


def made(
    names: list[str], *, routed: bool = True, asked_mhz: float | None = 99.5
) -> Implementation:
    """A design of five units, with a path from each to the next."""
    units = {
        name: {"LUT4": 1_000 * number + 7, "TRELLIS_FF": 10, "DP16KD": number}
        for number, name in enumerate(names, 1)
    }
    cells = {
        kind: sum(unit[kind] for unit in units.values())
        for kind in ("LUT4", "TRELLIS_FF", "DP16KD")
    }
    paths = tuple(
        TimingPath(start, end, "clk", "clk", (start, end), (start,), 3, 4.25, 5.5 - number)
        for number, (start, end) in enumerate(itertools.pairwise(names))
    )
    routes = tuple(
        Routed(PlaceRequest(seed=seed), {"clk": 90.0 + seed}, paths, {}, None) for seed in (1, 2)
    )
    report = CellReport.of(Family.ECP5, cells, units)
    return Implementation(load_variant("tiny"), report, routes if routed else (), asked_mhz)


@pytest.mark.parametrize("routed", [False, True])
def test_page_loads_nothing(routed: bool) -> None:
    assert_complete(synthesis_page(made(list("abcde"), routed=routed), "ecp5-85f"))


def test_it_fits_a_screen(browser: Browser) -> None:
    assert not browser.check(synthesis_page(made(list("abcde")), "ecp5-85f")).outside


def test_names_stay_text() -> None:
    """The tags and attributes are those of the same page with harmless names."""

    def shape(page: Reader) -> list[tuple[str, list[str]]]:
        return [(tag, sorted(attributes)) for tag, attributes in page.tags]

    hostile = Reader(synthesis_page(made(HOSTILE), "ecp5-85f"))
    assert shape(hostile) == shape(Reader(synthesis_page(made(list("abcde")), "ecp5-85f")))
    assert all(any(name in word for word in hostile.words) for name in HOSTILE)


def test_numbers_are_those_of_the_record() -> None:
    result = made(list("abcde"))
    record = synthesis_record(result, "ecp5-85f")
    said = Reader(synthesis_page(result, "ecp5-85f")).words
    words = [word.strip() for word in said if word.strip()]
    for unit in record["units"].values():
        assert f"{unit['lut']:,}" in words
    total = sum(unit["lut"] for unit in record["units"].values())
    foot = words[words.index("all", words.index("unit")) :]
    assert foot[1 + list(RESOURCES).index("lut")] == f"{total:,}"
    for path in record["paths"]:
        assert " -> ".join(path["modules"]) in words
    assert [word for word in words if word in ("91.00", "92.00")] == ["91.00", "92.00"]
    assert any(word.startswith("the clock must reach 99.5 MHz, not 92.00 MHz") for word in words)


def test_an_estimate_has_no_clock() -> None:
    result = dataclasses.replace(made(list("abcde"), routed=False), asked_mhz=None)
    words = Reader(synthesis_page(result, "ecp5-85f")).words
    assert "Worst paths" not in words and "Seeds" not in words
    assert all(title in words for title in RESOURCES.values())
