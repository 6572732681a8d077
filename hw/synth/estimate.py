"""Synthesis: the Verilog of a variant through Yosys, to the cells of an FPGA family.

Input: Verilog and a family. Output: a `Synthesis`: the mapped netlist, and its cells counted by
unit. Nothing is placed or routed yet (`hw.synth.place`).
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.hierarchy import count_cells, top_cells
from daedal.hw.synth.tools import YOSYS, run_tool
from daedal.hw.synth.yosys_progress import YosysProgress

__all__ = ["Synthesis", "synthesis_script", "synthesize"]

# No scratchpad or FIFO depends on a word that is read while it is written (`hw.memory.row_memory`,
# `hw.memory.scratchpad`, `hw.parts.block_fifo` say why). With this option Yosys omits the
# comparators and muxes that would give every block RAM the Verilog's behaviour in that case.
_MERGE_READ_REGISTERS = "memory_dff -no-rw-check"

# Flip-flops of a tile share their enable and reset. Hundreds of control sets with one or two
# flip-flops, which a look-up table can replace, scatter the placement: on `ecp5_half` 302 of 797
# sets remain, for 0.5 % more tables.
_FEW_CONTROL_SETS = (
    "opt_clean; dfflegalize -mince 8 -minsrst 12 "
    "-cell $_DFF_?_ 01 -cell $_DFF_?P?_ r -cell $_SDFF_?P?_ r "
    "-cell $_DFFE_??_ 01 -cell $_DFFE_?P??_ r -cell $_SDFFE_?P??_ r"
)

# Steps are the labels of the scripts that `help synth_xilinx` and `help synth_ecp5` print. Pins
# stay bare: an accelerator sits inside a larger design.
_SYNTHESIS = {
    **{
        family: (
            f"synth_xilinx -family {family.value} -flatten -noiopad -noclkbuf -top",
            ("begin", "prepare", "map_dsp", "coarse", "map_memory", "map_ffram", "fine",
             "map_cells", "map_ffs", "map_luts", "finalize"),
            {"map_dsp": _MERGE_READ_REGISTERS},
        )
        for family in (Family.XC7, Family.XCUP)
    },
    Family.ECP5: (
        "synth_ecp5 -no-rw-check -top",
        ("begin", "coarse", "map_ram", "map_ffram", "map_gates", "map_ffs", "map_luts",
         "map_cells"),
        {"map_ffs": _FEW_CONTROL_SETS},
    ),
}  # fmt: skip

_STEP = "daedal step: "

# The means of `smallest` and `ecp5_half`; `tiny`. What is left is mostly ABC, in the last step that
# is announced.
_XILINX_SHARES = {
    "map_dsp": 0.15, "coarse": 0.17, "map_memory": 0.24, "map_ffram": 0.42, "fine": 0.45,
    "map_cells": 0.57, "map_ffs": 0.58, "map_luts": 0.60,
}  # fmt: skip
_SHARES = {
    Family.ECP5: {
        "map_ram": 0.24, "map_ffram": 0.36, "map_gates": 0.44, "map_ffs": 0.56, "map_luts": 0.62,
    },
    Family.XC7: _XILINX_SHARES,
    Family.XCUP: _XILINX_SHARES,
}  # fmt: skip
"""Share of a run's time that has passed when a step begins."""


@dataclass(frozen=True)
class Synthesis:
    """A design as cells of a family: how many, and the netlist as Yosys writes it in JSON."""

    report: CellReport
    netlist: str


def synthesis_script(family: Family, top: str = TOP_MODULE) -> str:
    """Yosys commands from ``design.v`` to ``netlist.json``; each step is announced."""
    command, steps, before = _SYNTHESIS[family]
    # Amaranth names views of an array `x` as `x[0]`. Yosys 0.70 takes that for a bit of `x` when it
    # calls ABC, and stops without a message. All other names are kept: cells are named after them.
    lines = ["read_verilog design.v", "rename -hide w:*[*]*"]
    for number, step in enumerate(steps):
        end = steps[number + 1] if number + 1 < len(steps) else "check"
        # The error output is not buffered. What comes after ABC is lost in the WebAssembly build.
        lines.append(f"log -stderr {_STEP}{step} ({number + 1} of {len(steps)})")
        lines += [before[step]] if step in before else []
        lines.append(f"{command} {top} -run {step}:{end}")
    # Cell models are reduced to names; source locations, a third of the netlist, are not needed.
    lines += ["autoname", "blackbox =A:whitebox"]
    lines += ["setattr -unset src -unset module_not_derived w:* c:*", "write_json netlist.json"]
    return "\n".join([*lines, ""])


def synthesize(
    verilog: str,
    family: Family,
    *,
    top: str = TOP_MODULE,
    progress: Callable[[str], None] | None = None,
) -> Synthesis:
    """Map a Verilog text to cells; takes minutes for a machine with a 16 x 16 array.

    Parameters
    ----------
    verilog : a design, such as a variant's from `emit_verilog`.
    family : what to build it for.
    top : its top module.
    progress : called with a short text at every step.

    Raises
    ------
    ToolError
        Yosys is missing, or failed.
    """
    YOSYS.require("synthesis")

    steps = YosysProgress(_STEP, _SHARES[family])

    def line(text: str) -> None:
        step = YOSYS.first_run(text) or steps.step_of(text)
        if step is not None and progress is not None:
            progress(f"mapping to {family.value}, {step}")

    with tempfile.TemporaryDirectory(prefix="daedal-synth-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(verilog, encoding="utf-8")
        (folder / "script.ys").write_text(synthesis_script(family, top), encoding="utf-8")
        run_tool(YOSYS, ["-q", "-s", "script.ys"], folder, line=line)
        netlist = (folder / "netlist.json").read_text(encoding="utf-8")
    return Synthesis(CellReport.of(family, *count_cells(top_cells(json.loads(netlist)))), netlist)
