"""``daedal verilog``: the accelerator as Verilog."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import VariantArgument, check_outputs
from daedal.common.files import write_atomically
from daedal.hw.family import Family
from daedal.isa.docs import registers_header
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console, show_progress

__all__ = ["verilog_command"]

_err = make_console(stderr=True)


def verilog_command(
    variant: VariantArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file instead of standard output."),
    ] = None,
    family: Annotated[
        Family | None, typer.Option(help="With the hard blocks of this family; without: portable.")
    ] = None,
    header: Annotated[
        Path | None, typer.Option(help="Also write the register map as a C header.")
    ] = None,
) -> None:
    """Emit the accelerator of VARIANT as Verilog."""
    from daedal.hw.emit import emit_verilog

    check_outputs(output, header)
    chosen = load_variant(variant)
    with show_progress(_err) as report:
        report(f"emitting the Verilog of variant {chosen.name} ({chosen.fingerprint})")
        text = emit_verilog(chosen, family)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)
        _err.print(f"{escape(str(output))}: {len(text):,} bytes, top module daedal_top")
    if header is not None:
        write_atomically(header, registers_header())
