"""build.tcl, run by a Tcl interpreter in which stand-ins take Vivado's place."""

import shutil
import subprocess
from pathlib import Path

import pytest

from daedal.hw.export.interfaces import bus_interfaces, pins
from daedal.hw.export.vivado import vivado_files
from daedal.isa.variant import load_variant
from tests.support.exported import emitted

TINY = load_variant("tiny")

STAND_INS = r"""
set log [open calls.txt w]
proc unknown {name args} { record $name $args; return "$name-[lindex $args 0]" }
proc record {name arguments} {
    global log
    puts $log [join [lmap word [concat [list $name] $arguments] {string map {"\n" " "} $word}] "\t"]
    flush $log
}
foreach name {get_bd_pins get_bd_intf_pins get_bd_cells get_files} {
    proc $name {args} { lindex $args end }
}
rename file real_file
proc file {what args} {
    if {$what eq "copy"} { record "file copy" $args; return }
    real_file $what {*}$args
}
proc get_property {name args} {
    record get_property [concat $name $args]
    switch $name { PROGRESS { return $::progress } STATS.WNS { return $::slack } }
    return $name
}
"""


def run_script(
    folder: Path, *arguments: str, slack: str = "0.250", progress: str = "100%"
) -> tuple[int, str, list[list[str]]]:
    """Exit status, what was printed, and the commands that Vivado would have seen."""
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("needs a Tcl interpreter; install the system's package tcl")
    script = vivado_files(TINY, emitted(TINY))["build.tcl"]
    (folder / "build.tcl").write_text(script)
    words = " ".join(f"{{{word}}}" for word in arguments)
    preamble = f"set argv [list {words}]\nset slack {slack}\nset progress {progress}\n"
    (folder / "run.tcl").write_text(preamble + STAND_INS + "source build.tcl\n")
    done = subprocess.run(
        [tclsh, "run.tcl"], cwd=folder, capture_output=True, text=True, check=False
    )
    calls = (folder / "calls.txt").read_text().splitlines()
    return done.returncode, done.stdout + done.stderr, [line.split("\t") for line in calls]


PROCESSORS = {
    "xc7z020clg400-1": {
        "ip": "xilinx.com:ip:processing_system7",
        "control": "ps/M_AXI_GP0",
        "memory": "ps/S_AXI_HP0",
        "interrupt": "ps/IRQ_F2P",
        "clock": "ps/FCLK_CLK0",
        "registers": "0x43C00000",
    },
    "xczu3eg-sbva484-1-e": {
        "ip": "xilinx.com:ip:zynq_ultra_ps_e",
        "control": "ps/M_AXI_HPM0_FPD",
        "memory": "ps/S_AXI_HP0_FPD",
        "interrupt": "ps/pl_ps_irq0",
        "clock": "ps/pl_clk0",
        "registers": "0xA0000000",
    },
}


@pytest.mark.parametrize("part", PROCESSORS)
def test_everything_is_connected(tmp_path: Path, part: str) -> None:
    status, out, calls = run_script(tmp_path, part, "125")
    assert status == 0, out
    names = PROCESSORS[part]
    assert ["create_project", "accelerator", "build", "-part", part, "-force"] in calls
    cells = {call[-1]: call[-2] for call in calls if call[0] == "create_bd_cell"}
    assert cells["ps"] == names["ip"]
    assert cells["accelerator"] == "daedal:accelerator:daedal_tiny:1.0"
    nets = [call[1:] for call in calls if call[0] == "connect_bd_net"]
    buses = {tuple(call[1:]) for call in calls if call[0] == "connect_bd_intf_net"}
    assert buses == {
        (names["control"], "control/S00_AXI"),
        ("control/M00_AXI", "accelerator/s_axi_control"),
        ("accelerator/m_axi_gmem", "memory/S00_AXI"),
        ("memory/M00_AXI", names["memory"]),
    }
    assert ["accelerator/interrupt", names["interrupt"]] in nets
    clocked = {to for source, to in nets if source == names["clock"]}
    assert {"accelerator/ap_clk", "control/aclk", "memory/aclk", "reset/slowest_sync_clk"} < clocked
    assert len(clocked) == 6  # and both ports of the processor
    (place,) = [call for call in calls if call[0] == "assign_bd_address" and len(call) > 1]
    assert place[1:5] == ["-offset", names["registers"], "-range", "4K"]
    assert f"on {part} at 125 MHz: worst slack 0.250 ns" in out
    config = next(" ".join(call) for call in calls if call[:2] == ["set_property", "-dict"])
    assert "FREQMHZ 125" in config


def test_it_connects_what_the_core_has(tmp_path: Path) -> None:
    """Every interface of the core once, by names that it has."""
    _, _, calls = run_script(tmp_path, "xc7z020clg400-1")
    ends = [
        end.removeprefix("accelerator/")
        for call in calls
        if call[0] in ("connect_bd_net", "connect_bd_intf_net")
        for end in call[1:]
        if end.startswith("accelerator/")
    ]
    assert sorted(ends) == sorted(item.name for item in bus_interfaces(TINY))
    assert all(end in {pin.name for pin in pins(TINY)} for end in ends if "_axi_" not in end)


def test_the_board_sets_the_processor_up(tmp_path: Path) -> None:
    _, _, calls = run_script(tmp_path, "xc7z020clg400-1", "50", "vendor:board:part0:1.0")
    assert ["set_property", "board_part", "vendor:board:part0:1.0", "current_project-"] in calls
    (rule,) = [call for call in calls if call[0] == "apply_bd_automation"]
    assert "apply_board_preset 1" in rule[4]


def test_the_verilog_alone_will_do(tmp_path: Path) -> None:
    _, _, calls = run_script(tmp_path, "xc7z020clg400-1", "50", "", "module")
    assert ["add_files", f"{tmp_path}/src/daedal_top.v"] in calls
    placed = ["create_bd_cell", "-type", "module", "-reference", "daedal_top", "accelerator"]
    assert placed in calls
    assert not [call for call in calls if call[0] == "update_ip_catalog"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: build.tcl PART"),
        (["xc7z020clg400-1", "1", "", "ip", "more"], "usage: build.tcl PART"),
        (["xc7a100tcsg324-1"], "PART must begin with xc7z, xczu or xck, not be xc7a100tcsg324-1"),
        (["xc7z020clg400-1", "50", "", "vhdl"], "comes from ip or module, not from vhdl"),
    ],
)
def test_wrong_arguments_end_in_status_2(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    status, out, calls = run_script(tmp_path, *arguments)
    assert status == 2
    assert message in out
    assert calls == []


def test_a_missed_clock_and_a_failed_build_end_in_status_1(tmp_path: Path) -> None:
    status, out, calls = run_script(tmp_path, "xc7z020clg400-1", "200", slack="-1.5")
    assert status == 1
    assert "the clock of 200 MHz is missed by 1.5 ns" in out
    assert [call for call in calls if call[0] == "write_hw_platform"]
    status, out, calls = run_script(tmp_path, "xc7z020clg400-1", progress="40%")
    assert status == 1
    assert "the build failed" in out
    assert not [call for call in calls if call[0] == "file copy"]
