"""The board's top: every pin has a site, and the text holds the machine by its name."""

import re
from collections import Counter

import pytest

from daedal.hw.boards import ulx3s
from daedal.hw.boards.pll import pll_settings
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import CellReport, Family
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


AFTER_SYNTHESIS = {
    "BB": "TRELLIS_IO",
    "IFS1P3DX": "TRELLIS_FF",
    "OFS1P3BX": "TRELLIS_FF",
    "OFS1P3DX": "TRELLIS_FF",
}
"""What Yosys makes of Lattice's names. Source: its techlibs/ecp5/cells_map.v."""


@pytest.mark.heavy(3)
@pytest.mark.parametrize("memory", [1 << 15, CHIPS["IS42S16160G-7"]], ids=["block", "sdram"])
def test_every_pin_has_one_site_and_the_machine_is_connected(memory: int | SdramChip) -> None:
    phase = None if isinstance(memory, int) else 180
    clock = pll_settings(ulx3s.OSCILLATOR_HZ, 70e6, phase)
    settings = BoardSettings.for_baud(TINY, clock, memory)
    text = ulx3s.emit(settings, f"module {TOP_MODULE}(...);\nendmodule\n")
    assert text.startswith(f"// ULX3S with Daedal accelerator, variant tiny, {TINY.fingerprint}.\n")
    assert text.endswith("module daedal_top(...);\nendmodule\n")

    # Synthesis can count each cell of the family.
    cells = re.findall(r"^  ([A-Z]+[A-Z0-9]+) (?:#\(|\w+ \()", text, re.M)
    report = CellReport.of(Family.ECP5, Counter(AFTER_SYNTHESIS.get(cell, cell) for cell in cells))
    assert report.cells["EHXPLLL"] == 1
    assert ("ODDRX1F" in report.cells) == (not isinstance(memory, int))

    top = text[text.index("module ulx3s(") :]
    top = top[: top.index("endmodule")]
    ports = {}
    for width, name in re.findall(r"^  (?:input|output|inout) (?:\[(\d+):0\] )?(\w+);", top, re.M):
        ports |= {f"{name}[{n}]": 1 for n in range(int(width) + 1)} if width else {name: 1}
    located = re.findall(r'LOCATE COMP "(\S+)" SITE "(\w+)";', ulx3s.constraints(settings))
    assert sorted(ports) == sorted(pin for pin, _ in located)
    assert len({site for _, site in located}) == len(located)
    kinds = re.findall(r'IOBUF PORT "(\S+)" IO_TYPE=LVCMOS33', ulx3s.constraints(settings))
    assert sorted(kinds) == sorted(ports)

    (instance,) = re.findall(r"^  daedal_top  ?machine \((.*?)^  \);", text, re.M | re.S)
    pins = re.findall(r"\.(\w+)\(", instance)
    assert len(pins) == len(set(pins))
    # What is not there is constant at the master, or of no use to the slave.
    assert {"m_axi_gmem_arburst", "s_axi_control_bresp"}.isdisjoint(pins)
    assert {"ap_clk", "ap_rst_n", "m_axi_gmem_wstrb", "s_axi_control_rready"} < set(pins)
