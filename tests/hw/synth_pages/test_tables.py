"""Tables of made-up records: what stands in each cell, and what where something is missing."""

from typing import Any

import pytest

from daedal.hw.synth_pages.figures import frames_per_second, gops_per_klut, peak_gops
from daedal.hw.synth_pages.tables import (
    alternatives_table,
    area_table,
    best_record,
    board_sentence,
    options_table,
    published_table,
    refusals,
    routed_table,
)


def record(**changes: Any) -> dict[str, Any]:
    return {
        "variant": "ecp5",
        "multipliers": "packed",
        "target": "ecp5-85f",
        "family": "ecp5",
        "used": {"lut": 8364, "ff": 0, "dsp": 78, "block_ram": 52},
        "shortfalls": [],
        "resnet18": {"cycles": 8_000_000, "launches": 1, "instructions": 9},
        **changes,
    }


def test_a_routed_variant() -> None:
    head, (row,) = routed_table([record(fmax_mhz=100.0)], "ecp5-85f")
    assert dict(zip(head, row, strict=True)) == {
        "variant": "ecp5",
        "MACs/cycle": "256",
        "multipliers": "packed",
        "LUT": "8,364 (10%)",
        "FF": "0 (0%)",
        "DSP": "78 (50%)",
        "block RAM": "52 (25%)",
        "Fmax, MHz": "100.0",
        "peak GOPS": "51.2",
        "GOPS per kLUT": "6.12",
        "ResNet-18, cycles": "8,000,000",
        "frames/s": "12.5",
    }


def test_what_does_not_fit_says_what_of() -> None:
    short = [
        {"resource": "dsp", "needed": 160, "usable": 156},
        {"resource": "block_ram", "needed": 253.0, "usable": 208},
    ]
    _, (row,) = routed_table([record(shortfalls=short)], "ecp5-85f")
    assert row[7:] == [
        "does not fit: 160 DSP for 156, 253 block RAM for 208",
        "–",
        "–",
        "8,000,000",
        "–",
    ]


def test_what_fits_and_was_not_routed_says_so() -> None:
    _, (row,) = routed_table([record()], "ecp5-85f")
    assert row[7] == "not routed"


def test_the_faster_form_counts_and_other_devices_do_not() -> None:
    forms = [
        record(fmax_mhz=90.0),
        record(fmax_mhz=95.0, multipliers="lut"),
        record(multipliers="dsp"),
        record(target="xc7z020", family="xc7", fmax_mhz=300.0),
        record(variant="tiny", fmax_mhz=110.0),
    ]
    assert best_record(forms[:3]) is forms[1]
    assert best_record([record(multipliers=name) for name in ("packed", "lut")]) == record()
    _, rows = routed_table(forms, "ecp5-85f")
    assert [(row[0], row[2], row[7]) for row in rows] == [
        ("ecp5", "lut", "95.0"),
        ("tiny", "packed", "110.0"),
    ]
    assert rows[1][1] == "64"  # of `tiny`


def test_areas() -> None:
    used = {"lut": 5320, "ff": 0, "dsp": 110, "block_ram": 0.5}
    short = [{"resource": "dsp", "needed": 220, "usable": 209}]
    small = record(target="xc7z020", family="xc7", used=used)
    large = small | {"variant": "vta", "shortfalls": short}
    _, rows = area_table([small, large], "xc7z020")
    shares = ["5,320 (10%)", "0 (0%)", "110 (50%)", "0.5 (0%)"]
    assert rows[0] == ["ecp5", "packed", *shares, "yes", "8,000,000"]
    assert rows[1][6] == "220 DSP for 209"


def test_alternatives() -> None:
    first = record(label="first", cycles={"net": 1000, "starved": 0, "stream": 10})
    second = record(label="second", cycles={"net": 1100, "starved": 7, "stream": None})
    short = [{"resource": "dsp", "needed": 156, "usable": 148}]
    head, rows = alternatives_table([first, second | {"shortfalls": short}])
    assert head[-4:] == ["fits", "net", "starved", "stream"]
    assert rows[0][-4:] == ["yes", "1,000", "0", "10"]
    assert rows[1][-4:] == ["156 DSP for 148", "1,100 (+10.0%)", "7", "not measured"]


BOARD = {
    "variant": "ecp5", "board": "b", "family": "ecp5", "shortfalls": [], "memory_bytes": 65_536,
    "fmax_mhz": 98.76, "macs_per_cycle": 256, "seeds": {"1": 98.76, "2": 90.0}, "clock_mhz": 90.0,
    "bitstream_bytes": 1_234_567, "bar": {"macs_per_cycle": 128, "mhz": 90.0}, "met": True,
}  # fmt: skip


def test_a_board() -> None:
    assert board_sentence(BOARD) == (
        "The whole design for b with `ecp5`, in context (pins, 64 KiB of memory and a serial "
        "bridge around the machine), reaches 98.8 MHz with 256 MACs/cycle, the best of 2 seeds; a "
        "bitstream of 1,234,567 bytes for 90 MHz; required: 128 MACs/cycle at 90 MHz."
    )
    assert "; no bitstream for 90 MHz; " in board_sentence(BOARD | {"bitstream_bytes": None})
    failed = {"variant": "ecp5", "board": "b", "failed": "no way", "met": False}
    assert board_sentence(failed) == "`ecp5` could not be built for b: no way"
    short = [{"resource": "dsp", "needed": 160, "usable": 156}]
    assert board_sentence(BOARD | {"shortfalls": short}) == (
        "The whole design for b with `ecp5`, in context, does not fit: 160 DSP for 156; "
        "required: 128 MACs/cycle at 90 MHz."
    )


def test_refusals_are_said_once() -> None:
    def refused(variant: str, bits: int) -> dict[str, Any]:
        return record(variant=variant, resnet18={"refused": f"it must be 8, not {bits} bits"})

    both = [refused("int4", 4), refused("int16", 16), refused("int4", 4), record()]
    assert list(refusals(both)) == ["`int4` and `int16` do not run ResNet-18: it must be 8."]
    assert list(refusals([record()])) == []


def test_published_rows_leave_open_what_is_not_known() -> None:
    known: dict[str, Any] = {
        "name": "A", "device": "d", "bits": 8, "macs_per_cycle": 100, "clock_mhz": 200,
        "lut": 20_000, "ff": 1, "dsp": 2, "block_ram": 2.5, "network": "N",
        "frames_per_second": 1.234, "conditions": "c.", "source": "s",
    }  # fmt: skip
    numbers = ("bits", "macs_per_cycle", "clock_mhz", "lut", "network", "frames_per_second")
    unknown = known | dict.fromkeys(numbers)
    _, rows = published_table([known, unknown])
    assert rows[0] == [
        "1", "A", "d", "8", "100", "200", "40.0", "20,000", "1", "2", "2.5", "2.00", "N", "1.2",
    ]  # fmt: skip
    assert rows[1] == ["2", "A", "d", "–", "–", "–", "–", "–", "1", "2", "2.5", "–", "–", "–"]


def test_figures() -> None:
    assert peak_gops(2048, 300) == pytest.approx(1228.8)
    assert gops_per_klut(50.0, 25_000) == pytest.approx(2.0)
    assert frames_per_second(7_000_000, 98.0) == pytest.approx(14.0)
    assert peak_gops(None, 1.0) is peak_gops(1, None) is None
    assert gops_per_klut(None, 1) is gops_per_klut(1.0, None) is None
    assert frames_per_second(None, 1.0) is frames_per_second(1, None) is None


def test_a_machine_without_an_option() -> None:
    run = {"launches": 9, "macs": 0.5258, "cycles": 31_946}
    records = [record(label="as shipped", net=run), record(label="without `x`")]
    head, (first, second) = options_table(records, "net")
    assert head[0] == "machine" and head[-3:] == ["launches", "MACs on the machine", "their cycles"]
    assert first[0] == "as shipped" and first[-4:] == ["yes", "9", "53%", "31,946"]
    assert second[-4:] == ["yes", "–", "–", "–"]
