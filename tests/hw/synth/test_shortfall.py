"""What does not fit is named, with how much of it, and with parameters that mend it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.shortfall import shortfalls
from daedal.hw.synth_pages.tables import form_of
from daedal.isa.variant import Variant, load_variant

RECORDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[3] / "docs" / "synthesis.json").read_text(encoding="utf-8")
)["variants"]

VTA_ECP5 = {
    "accumulators": {"DP16KD": 64},
    "alu": {"MULT18X18D": 32, "DP16KD": 8},
    "gemm": {"MULT18X18D": 128, "DP16KD": 8},
    "inp": {"DP16KD": 16},
    "wgt": {"DP16KD": 128},
}


def sentences(variant: Variant, family: Family, cells: dict[str, int], **units: Any) -> list[str]:
    report = CellReport.of(family, cells, units)
    return [item.sentence for item in shortfalls(variant, report)]


def test_nothing_where_it_fits() -> None:
    assert sentences(load_variant("vta"), Family.XC7, {"DSP48E1": 209, "RAMB36E1": 133}) == []


def test_too_many_multipliers() -> None:
    plain = load_variant("vta").replace(None, multiplier_style="dsp")
    assert sentences(plain, Family.XC7, {"DSP48E1": 288}) == [
        'DSP must be at most 209, not 288 (79 too many); multiplier_style = "packed" leaves about '
        '160, or multiplier_style = "lut" leaves about 32 and takes LUTs instead, or '
        "block_in = 8 and block_out = 8 and alu_lanes = 8 leaves about 96"
    ]
    packed = load_variant("vta")
    assert sentences(packed, Family.ECP5, {"MULT18X18D": 160}) == [
        'DSP must be at most 148, not 160 (12 too many); multiplier_style = "lut" leaves about 32 '
        "and takes LUTs instead, or block_in = 8 and block_out = 8 and alu_lanes = 8 leaves about "
        "64"
    ]


def test_a_style_that_cannot_be_built_is_not_proposed() -> None:
    wide = load_variant("int16").replace(None, block_in=16, block_out=16)
    (sentence,) = sentences(wide, Family.XC7, {"DSP48E1": 300})
    assert "packed" not in sentence
    assert 'multiplier_style = "lut" leaves about 44' in sentence


def test_no_parameter_helps_where_the_rest_is_too_large() -> None:
    lut = load_variant("tiny").replace(None, multiplier_style="lut")
    assert sentences(lut, Family.XC7, {"DSP48E1": 210}) == [
        "DSP must be at most 209, not 210 (1 too many); a larger device has more"
    ]


def test_too_much_block_ram() -> None:
    assert sentences(load_variant("vta"), Family.ECP5, {"DP16KD": 253}, **VTA_ECP5) == [
        "block RAM must be at most 197, not 253 (56 too many); the largest scratchpad is wgt with "
        "128: wgt_bytes = 131_072 leaves about 189"
    ]


def test_a_scratchpad_that_is_as_deep_as_a_block_is_not_halved() -> None:
    """512 rows of weights take as many blocks as 256 do; the accumulators have 512 in a bank."""
    small = load_variant("vta").replace(None, wgt_bytes=131_072)
    assert sentences(small, Family.ECP5, {"DP16KD": 205}, wgt={"DP16KD": 64}) == [
        "block RAM must be at most 197, not 205 (8 too many); the largest scratchpad is wgt with "
        "64; fewer bytes alone are not enough: a smaller array has narrower rows "
        "(block_in = 16 and block_out = 16 now)"
    ]


def test_half_a_block_too_many() -> None:
    (sentence,) = sentences(
        load_variant("vta"), Family.XC7, {"RAMB36E1": 133, "RAMB18E1": 1}, wgt={"RAMB36E1": 64}
    )
    assert sentence.startswith("block RAM must be at most 133, not 133.5 (0.5 too many); ")


def test_too_much_logic() -> None:
    assert sentences(load_variant("vta"), Family.XC7, {"LUT6": 60_000, "DSP48E1": 160}) == [
        "LUT must be at most 53,200, not 60,000 (6,800 too many); what takes less, by an estimate "
        "of its own: block_in = 8 and block_out = 8 and alu_lanes = 8, or alu_lanes = 8, or "
        "requantize_lanes = 4"
    ]
    lut = load_variant("tiny").replace(None, multiplier_style="lut")
    (sentence,) = sentences(lut, Family.XC7, {"FDRE": 106_401, "DSP48E1": 8})
    assert sentence.startswith("FF must be at most 106,400, not 106,401 (1 too many); ")
    assert 'multiplier_style = "dsp" (takes 72 DSP)' in sentence


def test_one_sentence_for_each_resource() -> None:
    cells = {"MULT18X18D": 160, "DP16KD": 253, "LUT4": 90_000, "TRELLIS_FF": 90_000}
    found = sentences(load_variant("vta"), Family.ECP5, cells, **VTA_ECP5)
    assert [text.partition(" must")[0] for text in found] == ["DSP", "block RAM", "LUT", "FF"]


@pytest.mark.parametrize(
    "row", RECORDS, ids=lambda row: f"{row['variant']}-{row['target']}-{row['multipliers']}"
)
def test_of_shipped_variants_those_fall_short_that_do_not_fit(row: dict[str, Any]) -> None:
    report = CellReport.of(Family(row["family"]), row["cells"], {"wgt": row["cells"]})
    found = shortfalls(form_of(row), report, row["limit"], row["overflow"])
    kept = [(item["resource"], item["needed"]) for item in row["shortfalls"]]
    assert [(item.resource, item.needed) for item in found] == kept
    for item in found:
        assert re.search(r"not [\d,.]+ \([\d,.]+ too many\); .", item.sentence)
