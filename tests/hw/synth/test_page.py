"""docs/hardware.md says what docs/area.json says, and that is about the variants of today."""

import json
from pathlib import Path
from typing import Any

import pytest

from daedal.hw.synth.families import Family
from daedal.hw.synth.page import (
    PAGE_FAMILIES,
    alternatives_table,
    report_of,
    variants_table,
    with_area_section,
)
from daedal.isa.variant import load_variant, shipped_variants

DOCS = Path(__file__).resolve().parents[3] / "docs"
DATA: dict[str, Any] = json.loads((DOCS / "area.json").read_text(encoding="utf-8"))


def test_page_is_up_to_date() -> None:
    page = (DOCS / "hardware.md").read_text(encoding="utf-8")
    assert page == with_area_section(page, DATA), "run `make docs`"


def test_what_was_measured_is_what_ships() -> None:
    """A variant that was changed needs `python bench/area.py --update docs/area.json`."""
    measured = {(row["variant"], row["fingerprint"]) for row in DATA["area"]}
    assert measured <= {(name, load_variant(name).fingerprint) for name in shipped_variants()}


def test_every_shipped_variant_was_measured() -> None:
    measured = [(row["variant"], row["family"]) for row in DATA["area"]]
    assert measured == [
        (name, family)
        for name in shipped_variants()
        for family in sorted(f.value for f in PAGE_FAMILIES)
    ]


def test_alternatives_start_with_the_variant_and_change_it() -> None:
    vta = load_variant("vta")
    first, *others = DATA["alternatives"]
    assert (first["fingerprint"], first["changes"]) == (vta.fingerprint, {})
    for row in others:
        assert row["fingerprint"] == vta.replace(None, **row["changes"]).fingerprint


@pytest.mark.parametrize(
    "row",
    [*DATA["area"], *DATA["alternatives"]],
    ids=lambda row: row.get("label", f"{row['variant']}-{row['family']}"),
)
def test_resources_follow_from_the_cells(row: dict[str, Any]) -> None:
    report = report_of(row)
    assert (report.dsp, report.block_ram, report.lut, report.ff, report.fits()) == tuple(
        row[name] for name in ("dsp", "block_ram", "lut", "ff", "fits")
    )


@pytest.mark.parametrize(("variant", "family"), [("vta", Family.XC7), ("ecp5", Family.ECP5)])
def test_what_must_fit_does(variant: str, family: Family) -> None:
    (row,) = (
        row for row in DATA["area"] if (row["variant"], row["family"]) == (variant, family.value)
    )
    assert report_of(row).fits()


def test_tables_of_made_up_cells() -> None:
    record = {
        "variant": "a",
        "family": "xc7",
        "cells": {"DSP48E1": 110, "RAMB18E1": 1, "LUT6": 5320},
    }
    assert variants_table([record])[1] == [
        ["a", "xc7z020", "110 (50%)", "0.5 (0%)", "5,320 (10%)", "0 (0%)", "yes"]
    ]
    over = record | {"cells": {"DSP48E1": 220}}
    rows = [
        record | {"label": "first", "cycles": {"net": 1000, "starved": 0, "stream": 10}},
        over | {"label": "second", "cycles": {"net": 1100, "starved": 7, "stream": None}},
    ]
    head, (first, second) = alternatives_table(rows)
    assert head == [
        "alternative",
        "DSP",
        "block RAM",
        "LUT",
        "FF",
        "fits",
        "net",
        "starved",
        "stream",
    ]
    assert first[-4:] == ["yes", "1,000", "0", "10"]
    assert second[-4:] == ["no", "1,100 (+10.0%)", "7", "not measured"]
