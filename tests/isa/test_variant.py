"""Variants: files, fingerprints and refusals."""

from pathlib import Path

import pytest

from daedal.common.errors import VariantError
from daedal.isa.scratchpad import TABLE_ENTRIES, TABLE_ENTRY_BITS, Memory, scratchpads
from daedal.isa.table import AluOp, LoadMemory, Opcode, instruction_bits, instruction_layout
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant, load_variant, shipped_variants

VTA = load_variant("vta")
BEFORE = VTA.replace(gemm_reads_out=False, gemm_uop_bytes=16_384, alu_uop_bytes=16_384)
"""All parameters that `vta` has not changed; its fingerprint is in programs that exist."""


def test_vta_is_the_machine_of_the_yardsticks() -> None:
    assert VTA.macs_per_cycle == 256
    assert {pad.memory.value: pad.depth_rows for pad in scratchpads(VTA).values()} == {
        "inp": 2048,
        "wgt": 1024,
        "acc": 2048,
        "out": 2048,
        "par": 64,
        "uop_gemm": 1024,
        "uop_alu": 1024,
    }
    assert instruction_bits(VTA) == 256


def test_every_shipped_variant_loads_and_differs() -> None:
    prints = {load_variant(name).fingerprint for name in shipped_variants()}
    assert len(prints) == len(shipped_variants()) >= 2


def test_fingerprint_depends_on_parameters_and_not_on_the_name() -> None:
    assert VTA.replace(name="other").fingerprint == VTA.fingerprint
    assert VTA.replace(queue_depth=8).fingerprint != VTA.fingerprint


def test_the_hash_is_kept_but_not_pickled() -> None:
    # It depends on strings, whose hashes differ between processes.
    variant = load_variant("vta")
    same = load_variant("vta")
    assert variant == same and variant is not same and hash(variant) == hash(same)
    assert hash(variant) != hash(variant.replace("other"))
    assert variant.__getstate__().keys() == {"name", "array", "memory", "bus", "units"}


def test_a_renamed_machine_is_the_same() -> None:
    variant = load_variant("vta")
    hash(variant)
    other = variant.renamed("other")
    assert other == variant.replace("other") and hash(other) == hash(variant.replace("other"))
    assert variant.name == "vta"
    with pytest.raises(VariantError, match="name must be at most 32 letters"):
        variant.renamed("no name")


def test_a_machine_without_tables_is_the_one_before_there_were_any() -> None:
    """With tables it is another machine."""
    assert BEFORE.replace(tables=0).fingerprint == "e3090198028baad1"
    prints = {BEFORE.replace(tables=count).fingerprint for count in (0, 1, 2, 4, 8)}
    assert len(prints) == 5


@pytest.mark.parametrize("tables", [1, 2, 4, 8])
def test_tables_are_a_scratchpad_an_operation_and_a_field(tables: int) -> None:
    variant = VTA.replace("tables", tables=tables)
    pad = scratchpads(variant)[Memory.TAB]
    assert pad.depth_rows * pad.elements == tables * TABLE_ENTRIES
    assert pad.row_bytes * 8 == pad.elements * TABLE_ENTRY_BITS
    assert AluOp.LOOKUP in AluOp.of(variant) and LoadMemory.TAB in LoadMemory.of(variant)
    fields, before = (instruction_layout(v, Opcode.ALU) for v in (variant, VTA))
    assert fields.pop("table").width == {1: 0, 2: 1, 4: 2, 8: 3}[tables]
    assert {name: item.offset for name, item in fields.items()} == {
        name: item.offset for name, item in before.items()
    }


def test_options_of_the_alu_are_of_machines_that_have_them() -> None:
    """Without them a machine is the one before there were any."""
    options = ("lane_reductions", "wide_requantize")
    assert BEFORE.replace(**dict.fromkeys(options, False)).fingerprint == "e3090198028baad1"
    prints = {BEFORE.replace(**{name: True}).fingerprint for name in options}
    assert len(prints | {BEFORE.fingerprint}) == 3
    wide = instruction_layout(VTA.replace(wide_requantize=True), Opcode.ALU)
    before = instruction_layout(VTA, Opcode.ALU)
    assert wide.keys() - before.keys() == {"wide"}
    assert all(wide[name].offset == item.offset for name, item in before.items())


def test_narrow_weights_widen_the_code_of_destinations() -> None:
    """Fields of LOAD move by that bit; other instructions, and other machines, stay as they are."""
    narrow = VTA.replace(narrow_weights=True)
    assert narrow.fingerprint != VTA.fingerprint
    assert set(LoadMemory.of(narrow)) - set(LoadMemory.of(VTA)) == {LoadMemory.WGT_NARROW}
    assert LoadMemory.WGT_NARROW.memory is Memory.WGT
    assert 2 * memory_beats(narrow, LoadMemory.WGT_NARROW) == memory_beats(VTA, LoadMemory.WGT)
    fields, before = (instruction_layout(v, Opcode.LOAD) for v in (narrow, VTA))
    assert (before["memory"].width, fields["memory"].width) == (3, 4)
    behind = list(before)[list(before).index("memory") + 1 :]
    assert all(fields[name].offset == before[name].offset + 1 for name in behind)
    assert instruction_layout(narrow, Opcode.GEMM) == instruction_layout(VTA, Opcode.GEMM)


@pytest.mark.parametrize("data_bits", [64, 128, 256, 512])
def test_rows_of_tables_fit_every_bus(data_bits: int) -> None:
    variant = VTA.replace(
        "wide", tables=1, data_bits=data_bits, block_in=64, block_out=64, out_bytes=1 << 16
    )
    assert scratchpads(variant)[Memory.TAB].row_beats(variant) == 512 // data_bits


def test_a_variant_without_tables_has_nothing_of_them() -> None:
    assert Memory.TAB not in scratchpads(VTA)
    assert AluOp.LOOKUP not in AluOp.of(VTA) and LoadMemory.TAB not in LoadMemory.of(VTA)
    assert "table" not in instruction_layout(VTA, Opcode.ALU)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_in": 12}, "array.block_in must be a power of two up to 64, not 12"),
        ({"inp_bytes": 3000}, "memory.inp_bytes must be a power of two up to 67108864, not 3000"),
        ({"output_bits": 16}, "array.output_bits must equal array.input_bits"),
        ({"block_in": 32}, "array.depthwise_taps needs block_in equal to block_out"),
        (
            {"batch": 2, "block_in": 4, "depthwise_taps": 0},
            "array.batch above 1 needs block_in equal to block_out, because a row of results is "
            "then a row of inputs, not 4 and 16; set batch = 1",
        ),
        ({"data_bits": 256}, "a row of scratchpad 'inp' must be a multiple of the bus width"),
        ({"acc_bytes": 64}, "scratchpad 'acc' must hold at least 4 rows of 64 bytes, not 1"),
        ({"alu_lanes": 32}, "units.alu_lanes must be a power of two up to batch x block_out = 16"),
        ({"acc_bytes": 1 << 27}, "memory.acc_bytes must be a power of two up to 67108864, not 1"),
        ({"wgt_bytes": 1 << 40}, "memory.wgt_bytes must be a power of two up to 67108864, not 1"),
        (
            {"acc_bytes": 1 << 26, "inp_bytes": 1 << 26, "wgt_bytes": 1 << 26, "block_out": 4}
            | {"block_in": 4, "batch": 2, "alu_lanes": 4, "requantize_lanes": 4}
            | {"depthwise_taps": 1},
            "a micro-op must fit 64 bits, not 69",
        ),
        (
            {"narrow_weights": True, "weight_bits": 4, "wgt_bytes": 1 << 16},
            "units.narrow_weights needs array.weight_bits of 8, because weights of 4 bits in "
            "memory become those on chip, not 4; set narrow_weights = false",
        ),
        (
            {"narrow_weights": True, "block_in": 8, "block_out": 1, "depthwise_taps": 0}
            | {"alu_lanes": 1, "requantize_lanes": 1, "multiplier_style": "dsp"}
            | {"gemm_reads_out": False},
            "units.narrow_weights needs rows of weights that are a multiple of the bus width (8 "
            "bytes) at 4 bits, too, not 4 bytes; make the bus narrower or the block larger",
        ),
        ({"tables": 3}, "memory.tables must be 0, 1, 2, 4 or 8, not 3"),
        (
            {"tables": 4, "input_bits": 4, "output_bits": 4},
            "memory.tables needs array.output_bits of 8, because a table has an entry for each "
            "8-bit result, not 4; set tables = 0",
        ),
        (
            {"wide_requantize": True, "input_bits": 4, "output_bits": 4},
            "units.wide_requantize needs array.output_bits of 8, because wide results have 16 "
            "bits, not 4; set wide_requantize = false",
        ),
        ({"multiplier_bits": 40}, "units.multiplier_bits must be 8 to 26, not 40"),
        ({"multiplier_style": "dadda"}, "multiplier_style must be one of dsp, packed, lut, not"),
        (
            {"multiplier_style": "packed", "weight_bits": 16, "accumulator_bits": 48},
            "needs inputs and weights of at most 8 bits, so that two products fit one hardware "
            'multiplier, not 8 and 16; choose "dsp" or "lut"',
        ),
        (
            {"multiplier_style": "packed", "block_out": 1, "depthwise_taps": 0},
            'array.multiplier_style "packed" needs block_out of at least 2',
        ),
        ({"depthwise_taps": 2}, "array.depthwise_taps must be 0, 1 or 3, not 2"),
        (
            {"depthwise_taps": 3, "block_in": 4, "block_out": 4, "multiplier_style": "packed"},
            'array.depthwise_taps of 3 needs block_in of at least 6 with multiplier_style "packed"'
            ", so that every tap finds an activation of its own, not 4; set depthwise_taps = 1",
        ),
        (
            {"depthwise_taps": 3, "block_in": 2, "block_out": 2, "multiplier_style": "lut"},
            'array.depthwise_taps of 3 needs block_in of at least 3 with multiplier_style "lut"',
        ),
        ({"nonsense": 1}, "a variant has no parameter 'nonsense'"),
    ],
)
def test_impossible_variants_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(VariantError) as caught:
        VTA.replace(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'\n[array]\nblok = 3", "[array] has no key 'blok'"),
        ("name = 'x'\n[arrays]\n", "not 'arrays'"),
        ("name = 'x'\n[array]\nbatch = '1'", "array.batch must be of type int, not '1'"),
        ("name = 'x'\n[units]\nqueue_depth = true", "units.queue_depth must be of type int"),
        ("[array]", "must give the variant's name"),
        ("name = ", "must be valid TOML"),
        ("name = '../x'", "a variant's name must be"),
        ("name = 'x'\nmore = " + "[" * 5000 + "]" * 5000, "a variant, not values within values"),
        (
            "name = 'x'\n[memory]\nwgt_bytes = " + "9" * 5000,
            "must be valid TOML: Exceeds the limit",
        ),
        (
            "name = 'x'\n[memory]\nwgt_bytes = 0x1" + "0" * 5000,
            "memory.wgt_bytes must be at most 9223372036854775807",
        ),
        ("name = 'x'\n[array]\nblock_in = -0x" + "f" * 9000, "must be valid TOML"),
        ("name = 0x1" + "0" * 5000, "name as a string, not a number of more than 64 bits"),
        ("name = 'x'\n[units]\ncounters = " + "9" * 4000, "not a number of more than 64 bits"),
        ("name = 'x'\narray = " + "[" * 200 + "]" * 200, "[array] must be a table, not a list"),
        ("name = 'x'\n[array]\n" + "b" * 5000 + " = 3", "[array] has no key 'bbb"),
        ("name = 'x'\n[array]\nbatch = '" + "b" * 5000 + "'", "of type int, not 'bbb"),
        ("name = '" + "x" * 70_000 + "'", "must have at most 65536 letters"),
    ],
)
def test_bad_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(VariantError) as caught:
        Variant.from_toml(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500 and str(caught.value).isprintable()


@pytest.mark.parametrize("name", shipped_variants())
def test_toml_text_gives_the_variant_back(name: str) -> None:
    variant = load_variant(name)
    assert Variant.from_toml(variant.to_toml()) == variant


def test_load_by_path_and_unknown_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "name = 'mine'\n[array]\nmultiplier_style = 'packed'\ndepthwise_taps = 3\n"
        "[units]\nqueue_depth = 8\n"
    )
    assert load_variant(path) == BEFORE.replace(name="mine", queue_depth=8)
    with pytest.raises(VariantError, match=r"a variant is one of .*tiny, vta"):
        load_variant("nope")
    with pytest.raises(VariantError, match="a variant file must be a readable file"):
        load_variant(tmp_path / "missing.toml")
