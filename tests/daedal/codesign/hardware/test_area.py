"""Composed areas against whole machines that were synthesized, and against the parts' own table."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.back import rtlil

from daedal.codesign.hardware.area import AreaModel, area_model, read_rows
from daedal.codesign.hardware.parts import (
    alu_option_amounts,
    built_parts,
    fits_tables,
    is_tables,
    known_amounts,
    narrow_weight_amounts,
    operand_option_amounts,
    table_amounts,
)
from daedal.common.errors import ExploreError
from daedal.hw.emit import TOP_MODULE
from daedal.hw.machine import machine_parts
from daedal.hw.primitives.block_ram import BlockRam
from daedal.hw.synth.families import RESOURCES, CellReport, Family
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant, load_variant

ROOT = Path(__file__).parents[4]
ROWS = read_rows("parts", Family.ECP5)


def synthesized() -> list[tuple[Variant, CellReport]]:
    """Shipped variants with numbers of 8 bits, as docs/synthesis.json has them."""
    record = json.loads((ROOT / "docs" / "synthesis.json").read_text())
    found = []
    for row in record["variants"]:
        variant = load_variant(row["variant"])
        if row["target"] == "ecp5-85f" and variant.array.input_bits == 8:
            found.append(
                (
                    variant.replace(multiplier_style=row["multipliers"]),
                    CellReport.of(Family.ECP5, row["cells"]),
                )
            )
    assert len(found) >= 5
    return found


def test_multipliers_and_blocks_of_whole_machines() -> None:
    """None of these machines is in the table."""
    for variant, report in synthesized():
        (found,) = area_model(Family.ECP5)([variant])
        assert found["dsp"] == pytest.approx(report.dsp, rel=0.01), variant.name
        assert found["block_ram"] == pytest.approx(report.block_ram, rel=0.01), variant.name


def test_logic_of_whole_machines_of_a_size_that_the_table_has() -> None:
    for variant, report in synthesized():
        if variant.macs_per_cycle <= 256:
            (found,) = area_model(Family.ECP5)([variant])
            assert found["lut"] == pytest.approx(report.lut, rel=0.3), variant.name
            assert found["ff"] == pytest.approx(report.ff, rel=0.3), variant.name


def test_known_amounts_are_those_of_the_table() -> None:
    for variant, parts in ROWS:
        for name, used in parts.items():
            for resource, amount in known_amounts(name, variant).items():
                if resource == "block_ram" and name in ("gemm", "alu"):
                    # Words of micro-ops are rounded up to whole columns.
                    assert abs(used[resource] - amount) <= 1, (name, variant.name)
                else:
                    assert used[resource] == amount, (name, resource, variant.name)


@pytest.mark.parametrize("depth", [16, 32, 64, 128, 256, 512, 4_096, 16_384])
@pytest.mark.parametrize("width", [4, 8, 16, 32, 40, 64])
def test_memories_are_tables_where_the_hardware_takes_no_blocks(depth: int, width: int) -> None:
    circuit = rtlil.convert(BlockRam(depth=depth, width=width), platform=Family.ECP5)
    assert fits_tables(depth, width) is ("DP16KD" not in circuit)


@pytest.mark.parametrize("name", ["tiny", "ecp5", "wide"])
def test_parts_are_those_of_the_machine(name: str) -> None:
    for counters in (True, False):
        for tables in (0, 2):
            variant = load_variant(name).replace(counters=counters, tables=tables)
            assert set(built_parts(variant)) == set(machine_parts(variant))


def test_tables_are_added_to_the_rest() -> None:
    vta, tables = load_variant("vta"), load_variant("vta").replace("tables", tables=4)
    before, after = area_model(Family.ECP5)([vta, tables])
    assert after["block_ram"] - before["block_ram"] == pytest.approx(16)
    # The learned parts may grow a little with the instruction.
    assert 384 <= after["lut"] - before["lut"] < 500
    assert after["dsp"] == before["dsp"]


@pytest.mark.parametrize(
    ("family", "lut", "ff", "blocks"), [(Family.ECP5, 387, 411, 16), (Family.XC7, 369, 916, 8)]
)
def test_tables_are_counted_as_synthesis_finds_them(
    family: Family, lut: int, ff: int, blocks: int
) -> None:
    """The four tables of `vta`'s eight lanes, synthesized alone."""
    found = table_amounts(load_variant("vta").replace("tables", tables=4), family)
    assert found["lut"] == pytest.approx(lut, rel=0.05)
    assert found["ff"] == pytest.approx(ff, rel=0.02)
    assert found["block_ram"] == blocks


@pytest.mark.parametrize(
    ("family", "block", "lut", "ff"),
    [
        (Family.ECP5, 16, 2033, 2022),
        (Family.ECP5, 8, 998, 971),
        (Family.XC7, 16, 1017, 2003),
        (Family.XC7, 8, 503, 961),
    ],
)
def test_reductions_are_counted_as_synthesis_finds_them(
    family: Family, block: int, lut: int, ff: int
) -> None:
    """The tree of a row of one group, synthesized alone; behind it lies a selector per lane."""
    variant = load_variant("tiny").replace(
        block_in=block, block_out=block, alu_lanes=block, lane_reductions=True
    )
    found = alu_option_amounts(variant, family)
    assert found["lut"] - 32 * block == pytest.approx(lut, rel=0.03)
    assert found["ff"] == pytest.approx(ff, rel=0.03)


def test_options_of_the_alu_are_added_to_the_rest() -> None:
    vta = load_variant("vta")
    options = vta.replace("options", lane_reductions=True, wide_requantize=True)
    before, after = (area_model(Family.ECP5).by_part(variant) for variant in (vta, options))
    added = alu_option_amounts(options, Family.ECP5)
    for resource in ("lut", "ff"):
        assert 0 < added[resource] <= after["alu"][resource] - before["alu"][resource]
    assert after["alu"]["dsp"] == before["alu"]["dsp"]


@pytest.mark.parametrize(
    ("family", "name", "lut", "ff"),
    [
        (Family.ECP5, "tiny", 71, 0),
        (Family.ECP5, "vta", 133, 0),
        (Family.XC7, "tiny", 58, 64),
        (Family.XC7, "vta", 117, 128),
    ],
)
def test_operands_from_out_are_counted_as_synthesis_finds_them(
    family: Family, name: str, lut: int, ff: int
) -> None:
    """`gemm` and `out`, each synthesized alone, with the option and without; `ff` is that of
    `out`."""
    variant = load_variant(name).replace(gemm_reads_out=False)
    assert operand_option_amounts(variant, family) == {}
    found = operand_option_amounts(variant.replace(gemm_reads_out=True), family)
    assert found["gemm"]["lut"] == pytest.approx(lut, rel=0.11)
    assert found["gemm"]["ff"] == 3
    assert found["out"] == {"lut": 0, "ff": ff}


@pytest.mark.parametrize(
    ("family", "name", "lut"),
    [(Family.ECP5, "tiny", 142), (Family.ECP5, "vta", 362), (Family.XC7, "tiny", 126)],
)
def test_narrow_weights_are_counted_as_synthesis_finds_them(
    family: Family, name: str, lut: int
) -> None:
    """`wgt`, synthesized alone, with the option and without; it has 65 more registers each time."""
    variant = load_variant(name)
    assert narrow_weight_amounts(variant, family) == {}
    found = narrow_weight_amounts(variant.replace(narrow_weights=True), family)
    assert found["wgt"] == {"lut": pytest.approx(lut, rel=0.09), "ff": 65}


def test_narrow_weights_are_in_the_parts_of_a_machine() -> None:
    variant, model = load_variant("vta"), area_model(Family.ECP5)
    changed = variant.replace(narrow_weights=True)
    found = narrow_weight_amounts(changed, Family.ECP5)
    before, after = (model.by_part(item) for item in (variant, changed))
    for part, amounts in found.items():
        for resource, amount in amounts.items():
            assert after[part][resource] >= before[part][resource] + 0.99 * amount


@pytest.mark.parametrize(
    ("name", "lut", "ff", "dsp", "blocks"),
    [("tiny", 34_895, 24_568, 72, 74), ("attention", 77_609, 55_235, 160, 237)],
)
def test_whole_machines_that_multiply_results(
    name: str, lut: int, ff: int, dsp: int, blocks: int
) -> None:
    """As Yosys finds them on ECP5; without the option they have 4 and 16 blocks fewer."""
    variant = load_variant(name).replace(gemm_reads_out=True)
    model = area_model(Family.ECP5)
    before, found = model([variant.replace(gemm_reads_out=False), variant])
    assert found["dsp"] == before["dsp"] == pytest.approx(dsp)
    assert found["block_ram"] == pytest.approx(blocks, abs=0.01)
    assert found["lut"] == pytest.approx(lut, rel=0.05)
    assert found["ff"] == pytest.approx(ff, rel=0.05)
    row_bits = scratchpad(variant, Memory.OUT).row_bits
    assert found["lut"] - before["lut"] == pytest.approx(row_bits)
    assert found["ff"] - before["ff"] == pytest.approx(3)


def test_more_results_than_inputs_widen_row_numbers() -> None:
    model = area_model(Family.ECP5)
    few = load_variant("tiny").replace(gemm_reads_out=True)
    many = few.replace(out_bytes=8_192)
    before, after = (model.by_part(variant)["gemm"] for variant in (few, many))
    for resource in ("lut", "ff"):
        assert after[resource] > before[resource]


def test_parts_sum_to_the_variant() -> None:
    model, variant = area_model(Family.ECP5), load_variant("ecp5")
    (total,) = model([variant])
    parts = model.by_part(variant)
    for resource, amount in total.items():
        assert sum(used[resource] for used in parts.values()) == pytest.approx(amount)


def test_rows_of_the_table_are_given_back() -> None:
    """Where a part was measured alone, the model says what was measured, nearly."""
    model = AreaModel.fit(Family.ECP5, ROWS)
    for variant, parts in ROWS:
        predicted = model.by_part(variant)
        for name in ("wgt", "inp", "control"):
            if name in parts and not is_tables(name, variant):
                assert predicted[name]["ff"] == pytest.approx(parts[name]["ff"], rel=0.05, abs=8)


def test_more_depthwise_taps_take_no_less() -> None:
    for style in ("packed", "dsp", "lut"):
        for block in (8, 16):
            least = 0.0
            for taps in (0, 1, 3):
                variant = load_variant("ecp5").replace(
                    block_in=block, block_out=block, multiplier_style=style, depthwise_taps=taps
                )
                (found,) = area_model(Family.ECP5)([variant])
                assert found["lut"] >= least, (style, block, taps)
                least = found["lut"]


def test_wholes_correct_the_sum() -> None:
    plain = AreaModel.fit(Family.ECP5, ROWS)
    variants = [variant for variant, _ in ROWS[:4]]
    sums = plain(variants)
    wholes = [
        (variant, {TOP_MODULE: {name: 0.9 * amount for name, amount in total.items()}})
        for variant, total in zip(variants, sums, strict=True)
    ]
    (corrected,) = AreaModel.fit(Family.ECP5, ROWS, wholes)([load_variant("ecp5")])
    (before,) = plain([load_variant("ecp5")])
    for resource, amount in corrected.items():
        assert amount == pytest.approx(0.9 * before[resource])


def test_datapath_and_control_have_ratios_of_their_own() -> None:
    """Made of the parts' sums, each group times a factor: the factors are found."""
    plain = AreaModel.fit(Family.ECP5, ROWS)
    factors = {True: 0.9, False: 0.7}
    wholes = []
    for variant, _ in ROWS[:7]:  # two of them have counters
        parts = plain.by_part(variant)
        control = factors[variant.units.counters]
        units = {
            name: {
                key: amount * (1.1 if name in ("gemm", "alu", "accumulators", "inp") else control)
                for key, amount in used.items()
            }
            for name, used in parts.items()
        }
        total = {key: sum(used[key] for used in units.values()) for key in RESOURCES}
        wholes.append((variant, {**units, TOP_MODULE: total}))
    assert {variant.units.counters for variant, _ in wholes} == {True, False}
    model = AreaModel.fit(Family.ECP5, ROWS, wholes)
    assert model.ratios["lut"] == pytest.approx((1.1, 0.7, 0.9))
    assert model.deviation["lut"] == pytest.approx(0, abs=1e-6)
    # One machine says how far off the others are where they differ.
    mixed = [*wholes[:6], (wholes[6][0], {TOP_MODULE: dict.fromkeys(RESOURCES, 1e5)})]
    assert AreaModel.fit(Family.ECP5, ROWS, mixed).deviation["lut"] > 0.05


def test_stale_rows_are_left_out_while_enough_remain(tmp_path, monkeypatch) -> None:
    table = json.loads((ROOT / "daedal/codesign/hardware/data/parts_ecp5.json").read_text())
    monkeypatch.setattr(
        "daedal.codesign.hardware.area.package_data",
        SimpleNamespace(files=lambda _package: tmp_path),
    )
    (tmp_path / "data").mkdir()

    def stale_after(fresh: int) -> int:
        """The number of rows of `tokens` that are read when so many are not stale."""
        holders = [row["parts"]["tokens"] for row in table.values() if "tokens" in row["parts"]]
        for place, used in enumerate(holders):
            used["stale"] = place >= fresh
        (tmp_path / "data" / "parts_ecp5.json").write_text(json.dumps(table))
        return sum("tokens" in parts for _, parts in read_rows("parts", Family.ECP5))

    every = sum("tokens" in row["parts"] for row in table.values())
    assert every > 5
    assert stale_after(5) == 5
    assert stale_after(2) == every


def test_other_families_need_nothing_but_rows() -> None:
    """Of half as many blocks and a third more multipliers, as an example."""
    rows = [
        (
            variant,
            {
                name: {**used, "block_ram": used["block_ram"] / 2, "dsp": used["dsp"] * 4 / 3}
                for name, used in parts.items()
            },
        )
        for variant, parts in ROWS
    ]
    model, plain = AreaModel.fit(Family.XC7, rows), AreaModel.fit(Family.ECP5, ROWS)
    for variant in (load_variant("ecp5"), load_variant("tiny")):
        (found,), (before,) = model([variant]), plain([variant])
        assert found["lut"] == pytest.approx(before["lut"])
        assert found["block_ram"] == pytest.approx(before["block_ram"] / 2, rel=0.05)
        assert found["dsp"] == pytest.approx(before["dsp"] * 4 / 3, rel=0.05)


def test_a_family_without_a_table_is_refused() -> None:
    with pytest.raises(ExploreError, match="areas are known of family ecp5, not of xcup"):
        area_model(Family.XCUP)
