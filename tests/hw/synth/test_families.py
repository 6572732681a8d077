"""Counting cells: what each type takes, and when a device is full."""

import pytest

from daedal.hw.synth.families import DEVICES, CellReport, Family


def test_cells_of_a_7_series_device() -> None:
    cells = {
        "DSP48E1": 3, "RAMB36E1": 2, "RAMB18E1": 1, "LUT2": 10, "LUT6": 5, "INV": 1, "RAM32M": 2,
        "SRL16E": 4, "FDRE": 7, "FDSE": 1, "CARRY4": 6, "MUXF7": 9, "$scopeinfo": 3,
    }  # fmt: skip
    report = CellReport.of(Family.XC7, cells)
    assert (report.dsp, report.block_ram, report.lut) == (3, 2.5, 10 + 5 + 1 + 8 + 4)
    assert (report.ff, report.carry) == (8, 6)


def test_cells_of_an_ecp5() -> None:
    cells = {"MULT18X18D": 2, "DP16KD": 3, "LUT4": 10, "CCU2C": 4, "TRELLIS_DPR16X4": 1,
             "TRELLIS_FF": 5, "PFUMX": 7}  # fmt: skip
    report = CellReport.of(Family.ECP5, cells)
    assert (report.dsp, report.block_ram, report.lut) == (2, 3, 10 + 8 + 6)
    assert (report.ff, report.carry) == (5, 4)


def test_cells_of_an_ultrascale_plus_device() -> None:
    cells = {"DSP48E2": 3, "RAMB36E2": 2, "RAMB18E2": 1, "LUT6": 5, "RAM32M16": 2, "RAM64M8": 1,
             "FDRE": 7, "CARRY4": 6, "MUXF9": 9}  # fmt: skip
    report = CellReport.of(Family.XCUP, cells)
    assert (report.dsp, report.block_ram, report.lut) == (3, 2.5, 5 + 16 + 8)
    assert (report.ff, report.carry) == (7, 6)


def test_hard_blocks_by_unit() -> None:
    units = {"wgt": {"RAMB36E1": 2, "RAMB18E1": 1}, "alu": {"DSP48E1": 4, "RAMB18E1": 1}}
    report = CellReport.of(Family.XC7, {}, units)
    assert report.hard_blocks == {"alu": (4, 0.5), "wgt": (0, 2.5)}
    assert CellReport.of(Family.XC7, {}).hard_blocks == {}


def test_an_unknown_cell_is_not_ignored() -> None:
    with pytest.raises(AssertionError, match=r"cells of unknown size: .*DSP58"):
        CellReport.of(Family.XC7, {"DSP58": 1})


@pytest.mark.parametrize(
    ("cells", "fits"),
    [
        ({"DSP48E1": 209, "RAMB36E1": 133, "LUT6": 53_200, "FDRE": 106_400}, True),
        ({"DSP48E1": 210}, False),
        ({"RAMB36E1": 133, "RAMB18E1": 1}, False),
        ({"LUT6": 53_201}, False),
        ({"FDRE": 106_401}, False),
    ],
)
def test_hard_blocks_keep_a_margin(cells: dict[str, int], fits: bool) -> None:
    assert CellReport.of(Family.XC7, cells).fits() is fits


def test_every_family_has_a_device() -> None:
    assert {device.family for device in DEVICES.values()} == set(DEVICES) == set(Family)
