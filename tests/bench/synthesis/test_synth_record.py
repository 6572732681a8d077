"""Records of synthesis: what they hold of an implementation, and in which forms variants go."""

import json

import pytest

from bench.synthesis.synth_record import forms_of, overfull, record_of
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth_pages.tables import form_of, report_of
from daedal.isa.variant import Variant, load_variant

UNITS = {"wgt": {"DP16KD": 253}, "gemm": {"MULT18X18D": 160}}


@pytest.mark.parametrize(
    ("name", "styles"),
    [
        ("vta", ["packed", "lut"]),
        ("tiny", ["packed", "lut"]),  # a multiplier for each product: packed, as it can be
        ("int16", ["dsp", "lut"]),  # 16 bits cannot be packed
    ],
)
def test_forms_to_route(name: str, styles: list[str]) -> None:
    variant = load_variant(name)
    forms = forms_of(variant, "ecp5-85f")
    assert [form.array.multiplier_style for form in forms] == styles
    assert {form.name for form in forms} == {name}
    assert forms_of(variant, "xc7z020") == [variant]


def test_the_devices_last_cell_may_be_taken() -> None:
    used = {"dsp": 156, "block_ram": 208, "lut": 83_640, "ff": 83_640}
    assert overfull({"family": "ecp5", "used": used}) == set()
    assert overfull({"family": "ecp5", "used": used | {"dsp": 157, "ff": 83_641}}) == {"dsp", "ff"}


def made(variant: Variant, cells: dict[str, int], *routes: Routed) -> Implementation:
    report = CellReport.of(Family.ECP5, cells, UNITS)
    return Implementation(variant, report, routes, limit=1.0)


def routed(seed: int, fmax_mhz: float) -> Routed:
    path = TimingPath(
        start=f"a{seed}", end="b", start_clock="clk", end_clock="clk", modules=("alu", "gemm"),
        signals=(), levels=3, logic_ns=4.0, routing_ns=5.0,
    )  # fmt: skip
    used = {"TRELLIS_COMB": (1000, 83_640), "TRELLIS_FF": (50, 83_640), "DP16KD": (7, 208)}
    request = PlaceRequest(seed=seed, target_mhz=150)
    return Routed(request, {"clk": fmax_mhz}, (path,), used, None)


def test_the_best_seed_counts_and_all_are_kept() -> None:
    ecp5 = load_variant("ecp5")
    cells = {"LUT4": 1200, "TRELLIS_FF": 50, "DP16KD": 7}
    record = record_of(made(ecp5, cells, routed(1, 90.123), routed(2, 95.456)))
    assert (record["fmax_mhz"], record["target_mhz"]) == (95.46, 150)
    assert record["seeds"] == {"1": 90.12, "2": 95.46}
    assert record["worst_path"].startswith("alu -> gemm: from a2 to b, 9.00 ns")
    assert (record["used"]["lut"], record["used"]["block_ram"]) == (1000, 7)
    assert report_of(record).lut == 1200
    assert form_of(record) == ecp5
    assert json.loads(json.dumps(record))["shortfalls"] == []


def test_what_does_not_fit_is_said_and_has_no_clock() -> None:
    vta = load_variant("vta").replace(None, multiplier_style="lut")
    record = record_of(made(vta, {"LUT4": 1200, "MULT18X18D": 160, "DP16KD": 253}))
    assert "fmax_mhz" not in record and "nextpnr" not in record
    found = [(item["resource"], item["needed"], item["usable"]) for item in record["shortfalls"]]
    assert found == [("dsp", 160, 156), ("block_ram", 253, 208)]
    assert "block RAM must be at most 208, not 253" in record["shortfalls"][1]["sentence"]
    assert form_of(record) == vta
