"""Variants: files, fingerprints and refusals."""

from pathlib import Path

import pytest

from daedal.isa.errors import VariantError
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import instruction_bits
from daedal.isa.variant import Variant, load_variant, shipped_variants

VTA = load_variant("vta")


def test_vta_is_the_machine_of_the_yardsticks() -> None:
    assert VTA.macs_per_cycle == 256
    assert {pad.memory.value: pad.depth_rows for pad in scratchpads(VTA).values()} == {
        "inp": 2048,
        "wgt": 1024,
        "acc": 2048,
        "out": 2048,
        "par": 64,
        "uop_gemm": 2048,
        "uop_alu": 2048,
    }
    assert instruction_bits(VTA) == 256


def test_every_shipped_variant_loads_and_differs() -> None:
    prints = {load_variant(name).fingerprint for name in shipped_variants()}
    assert len(prints) == len(shipped_variants()) >= 2


def test_fingerprint_depends_on_parameters_and_not_on_the_name() -> None:
    assert VTA.replace(name="other").fingerprint == VTA.fingerprint
    assert VTA.replace(queue_depth=8).fingerprint != VTA.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_in": 12}, "array.block_in must be a power of two up to 64, not 12"),
        ({"inp_bytes": 3000}, "memory.inp_bytes must be a power of two up to 67108864, not 3000"),
        ({"output_bits": 16}, "array.output_bits must equal array.input_bits"),
        ({"block_in": 32}, "array.depthwise_taps needs block_in equal to block_out"),
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
    assert load_variant(path) == VTA.replace(name="mine", queue_depth=8)
    with pytest.raises(VariantError, match=r"a variant is one of .*tiny, vta"):
        load_variant("nope")
    with pytest.raises(VariantError, match="a variant file must be a readable file"):
        load_variant(tmp_path / "missing.toml")
