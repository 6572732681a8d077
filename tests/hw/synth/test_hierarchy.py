"""Modules by name, and cells by unit."""

import pytest

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.hierarchy import Hierarchy, count_cells, signal_of, top_cells

CELLS = {
    "alu": {"type": "$scopeinfo"},
    "alu.lanes": {"type": "$scopeinfo"},
    "alu_gate": {"type": "$scopeinfo"},
    "alu.lanes.sum_TRELLIS_FF_Q_5": {"type": "TRELLIS_FF"},
    "alu.lanes.sum_TRELLIS_FF_Q_5_DI_LUT4_Z": {"type": "LUT4"},
    "alu.lanes.x.y_TRELLIS_FF_Q": {"type": "TRELLIS_FF"},
    "alu_gate.held_TRELLIS_FF_Q": {"type": "TRELLIS_FF"},
    "issue.payload_TRELLIS_FF_Q": {"type": "TRELLIS_FF"},
    "$auto$7": {"type": "LUT4"},
}


@pytest.mark.parametrize(
    ("name", "module", "unit"),
    [
        ("alu.lanes.sum_TRELLIS_FF_Q_5", "alu.lanes", "alu"),
        ("alu.lanes.x.y", "alu.lanes", "alu"),  # a field of a signal, no module
        ("alu.lanes", "alu", "alu"),
        ("alu_gate.held", "alu_gate", "alu_gate"),
        ("issue.payload", "", ""),
        ("\\alu.$5", "alu", "alu"),
        ("$auto$7", "", ""),
    ],
)
def test_modules(name: str, module: str, unit: str) -> None:
    hierarchy = Hierarchy.of(CELLS)
    assert hierarchy.module_of(name) == module
    assert hierarchy.unit_of(name) == unit


def test_every_cell_is_counted_once() -> None:
    totals, units = count_cells(CELLS)
    assert totals == {"TRELLIS_FF": 4, "LUT4": 2}
    assert units == {
        "alu": {"LUT4": 1, "TRELLIS_FF": 2},
        "alu_gate": {"TRELLIS_FF": 1},
        TOP_MODULE: {"LUT4": 1, "TRELLIS_FF": 1},
    }


@pytest.mark.parametrize(
    ("cell", "signal"),
    [
        ("gemm.sum_0_TRELLIS_FF_Q_52_DI_LUT4_Z_D_PFUMX_Z", "gemm.sum_0"),
        ("accumulators.bank2.column2.0.1", "accumulators.bank2.column2.0.1"),
        ("accumulators.bank2.column2.0.1_DIA2_LUT4_Z", "accumulators.bank2.column2.0.1_DIA2"),
        ("store.rows.storage.0.16_DI_2_PFUMX_Z_C0_LUT4_Z", "store.rows.storage.0.16_DI_2"),
        ("alu.x_FDRE_Q_D_LUT6_O", "alu.x"),
        ("\\gemm.$5_MULT18X18D_P9", "gemm.$5"),
        ("alu.lut4_LIKE", "alu.lut4_LIKE"),
    ],
)
def test_signals(cell: str, signal: str) -> None:
    assert signal_of(cell) == signal


def test_the_top_module_says_so() -> None:
    netlist = {
        "modules": {
            "LUT4": {"attributes": {"blackbox": "1"}, "cells": {}},
            "board": {"attributes": {"top": "0" * 31 + "1"}, "cells": CELLS},
        }
    }
    assert top_cells(netlist) is CELLS
