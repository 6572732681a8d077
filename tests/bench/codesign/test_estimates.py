"""The data of the estimates and their yardstick: draws, tables that go on, staleness, the bars."""

import dataclasses
import json
from types import SimpleNamespace

import pytest

import bench.codesign.area_data as area_data
import bench.codesign.clock_data as clock_data
import bench.codesign.estimates
from bench.codesign.area_data import (
    CANDIDATES,
    OPTIONS,
    WHOLES,
    Table,
    digest_of,
    drawn,
    has_options,
    least_known,
)
from bench.codesign.clock_data import Routes
from bench.codesign.estimates import (
    AREA_BARS,
    FIRST,
    Errors,
    area_errors,
    held_out,
    held_out_options,
    relative,
)
from daedal.codesign.hardware.area import area_model, read_rows
from daedal.codesign.hardware.clock import clock_model, read_routes
from daedal.codesign.hardware.parts import built_parts
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import RESOURCES, Family
from daedal.isa.variant import load_variant

NOTHING = ("--area", "0", "--clock", "0", "--options", "0")
"""What is kept is compared, and nothing is synthesized."""


class Synthesizer:
    """Takes the place of `AreaCache`; counts what is synthesized."""

    def __init__(self, _folder=None):
        self.made = []

    def synthesize(self, verilog, family, *, top=TOP_MODULE, progress=None):
        self.made.append(top)
        used = dict.fromkeys(RESOURCES, float(len(verilog)))
        return SimpleNamespace(**used, unit_resources={top: used})


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(area_data, "AreaCache", Synthesizer)
    return Table("parts", Family.ECP5, tmp_path)


def test_held_out_variants_are_in_no_table() -> None:
    known = {variant.fingerprint for kind in ("parts", "wholes") for variant, _ in
             read_rows(kind, Family.ECP5)}  # fmt: skip
    known |= {route.variant.fingerprint for route in read_routes(Family.ECP5)}
    known |= {drawn(number, Family.ECP5).fingerprint for number in (*CANDIDATES, *WHOLES[:60])}
    assert known.isdisjoint(held_out(number).fingerprint for number in range(FIRST, FIRST + 60))


def test_a_draw_never_changes() -> None:
    """Rows of the table are those that their numbers give."""
    for variant, _ in read_rows("parts", Family.ECP5):
        number = variant.name.partition("-")[2]
        if number.isdigit():  # others were not drawn
            assert drawn(int(number), Family.ECP5).fingerprint == variant.fingerprint, number


def test_variants_with_options_are_drawn_apart() -> None:
    found = [held_out_options(number) for number in range(FIRST, FIRST + 20)]
    assert all(map(has_options, found)) and not has_options(held_out(FIRST))
    for name in OPTIONS:
        values = {getattr(v.memory, name, None) or getattr(v.units, name, 0) for v in found}
        assert len(values) > 1, name


def test_rows_of_the_tables_can_be_built() -> None:
    """Rows that a later rule of variants forbids are taken out."""
    for kind in ("held_out", "held_out_options"):
        kept = Table(kind, Family.ECP5, bench.codesign.estimates.FOLDER)
        assert [kept.variant(number) for number in kept.rows]
    routes = Routes(bench.codesign.estimates.FOLDER / "held_out_routes_ecp5.json")
    assert [routes.variant(row) for row in routes.rows]


def test_what_is_known_is_not_synthesized_again(table, tmp_path) -> None:
    variant = load_variant("tiny")
    for _ in range(2):
        table.add(3, variant, "tokens")
    assert table._areas.made == ["tokens"]
    again = Table("parts", Family.ECP5, tmp_path)
    assert again.variant("3").fingerprint == variant.fingerprint
    again.add(3, variant, "tokens")
    assert not again._areas.made


def test_rows_of_other_gateware_are_marked_and_made_again(table) -> None:
    variant = load_variant("tiny")
    for name in ("tokens", "counters"):
        table.add(3, variant, name)
    table.rows["3"]["parts"]["tokens"]["verilog"] = "0" * 16
    assert table.mark_stale() == ["3 tokens"]
    kept = json.loads(table.path.read_text())["3"]["parts"]
    assert kept["tokens"]["stale"] and "stale" not in kept["counters"]
    table.add(3, variant, "tokens")
    assert table.mark_stale() == []
    assert table._areas.made == ["tokens", "counters", "tokens"]


def test_the_least_known_part_is_one_that_is_missing(table) -> None:
    number, name = least_known(table, 9_000)
    assert number in CANDIDATES and name in built_parts(drawn(number, Family.ECP5))


def test_no_machine_is_small_enough(monkeypatch, capsys) -> None:
    monkeypatch.setattr(area_data, "WHOLES", range(100, 103))
    arguments = ["area_data.py", "--whole", "--best", "1", "--most", "10000"]
    monkeypatch.setattr("sys.argv", arguments)
    assert area_data.main() == 2
    assert capsys.readouterr().out == "no machine of at most 10,000 LUTs is left to synthesize\n"


def test_routes_of_other_gateware_are_marked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(clock_data, "emitted", lambda variant, *_: variant.fingerprint)
    variant = load_variant("tiny")
    row = json.loads(clock_data.PATH.read_text())[0]
    sections = {
        name: {key: getattr(getattr(variant, name), key) for key in row["variant"][name]}
        for name in clock_data.SECTIONS
    }
    fresh = digest_of(variant.fingerprint)
    path = tmp_path / "routes.json"
    rows = [{"variant": sections, "mhz": [90.0], "verilog": text} for text in (fresh, "0" * 16)]
    path.write_text(json.dumps(rows))
    routes = Routes(path)
    assert routes.mark_stale() == 1
    assert [row.get("stale", False) for row in json.loads(path.read_text())] == [False, True]
    assert routes.row_of(variant.replace(name="other")) is routes.rows[0]


def test_errors_are_relative_to_what_was_measured() -> None:
    assert relative(110, 100) == pytest.approx(0.1)
    assert relative(0, 0) == 0 and relative(1, 0) == float("inf")
    # Of a LFE5U-85F, 41,820 LUTs are half, 78 multipliers, too.
    guess = {"lut": 41_820, "ff": 10.0, "dsp": 39, "block_ram": 0}
    used = {"lut": 20_910, "ff": 10.0, "dsp": 78, "block_ram": 0}
    errors = {item.name: item.errors for item in area_errors([guess], [used])}
    assert errors["lut"] == pytest.approx((1.0,))
    assert errors["dsp"] == pytest.approx((-0.5,))
    assert errors["block_ram"] == (0.0,)
    assert errors["objective"] == pytest.approx((0.0,))


@pytest.mark.parametrize(("area", "clock", "status"), [(1.04, 1.09, 0), (1.06, 1, 1), (1, 0.8, 1)])
def test_measured_variants_are_judged(tmp_path, monkeypatch, area, clock, status) -> None:
    monkeypatch.setattr(bench.codesign.estimates, "FOLDER", tmp_path)
    variants = [held_out(number) for number in range(3)]
    composed = area_model(Family.ECP5)(variants)
    rows, routes = {}, []
    for number, (variant, used) in enumerate(zip(variants, composed, strict=True)):
        sections = {
            name: dataclasses.asdict(getattr(variant, name)) for name in clock_data.SECTIONS
        }
        measured = {name: amount / area for name, amount in used.items()}
        rows[number] = {"variant": sections, "parts": {TOP_MODULE: measured}}
        (expected,) = clock_model(Family.ECP5)([variant], [used])
        routes.append({"variant": sections, "mhz": [expected.mhz / clock]})
    (tmp_path / "held_out_ecp5.json").write_text(json.dumps(rows))
    (tmp_path / "held_out_routes_ecp5.json").write_text(json.dumps(routes))
    found = tmp_path / "found.json"
    arguments = ["estimates.py", *NOTHING, "--json", str(found)]
    monkeypatch.setattr("sys.argv", arguments)
    assert bench.codesign.estimates.main() == status
    errors = json.loads(found.read_text())
    assert errors["lut"] == pytest.approx([area - 1] * 3)
    assert errors["clock"] == pytest.approx([clock - 1] * 3)


def test_nothing_measured_is_no_success(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bench.codesign.estimates, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["estimates.py", *NOTHING])
    assert bench.codesign.estimates.main() == 1


def test_both_bars_count() -> None:
    assert Errors("lut", (0.05, -0.05), AREA_BARS).met
    assert not Errors("lut", (0.06, -0.06), AREA_BARS).met
    assert not Errors("lut", (0.11, 0.0, 0.0), AREA_BARS).met
    found = Errors("lut", (0.02, -0.04), AREA_BARS)
    assert (found.mean, found.worst, found.bias) == pytest.approx((0.03, 0.04, -0.01))
