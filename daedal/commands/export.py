"""``daedal export``: the accelerator for another tool."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import VariantArgument
from daedal.isa.folders import check_folder, write_folder
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console, show_progress

__all__ = ["export_command"]

_MARKER = ".daedal-export"


def export_command(
    variant: VariantArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", "--vivado", help="Folder of the core for Vivado, new or empty."
        ),
    ],
) -> None:
    """Write VARIANT as an IP core for Vivado: Verilog, IP-XACT, a Tcl script, and regs.h."""
    from daedal.hw.export.vivado import vivado_files
    from daedal.sim.rtl.device import default_cache_dir
    from daedal.sim.rtl.verilog import kept_verilog

    check_folder(output, _MARKER)
    chosen = load_variant(variant)
    err = make_console(stderr=True)
    with show_progress(err) as progress:
        verilog = kept_verilog(chosen, default_cache_dir(), progress)
        texts = vivado_files(chosen, verilog)
    write_folder(output, texts, _MARKER)
    for name, text in texts.items():
        err.print(escape(f"{output / name}: {len(text.encode()):,} bytes"))
