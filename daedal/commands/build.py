"""``daedal build``: the bitstream of a board with a variant on it."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from daedal.commands.options import BoardName, Json
from daedal.common.errors import UserError
from daedal.common.files import check_output_folder, make_folder, write_atomically
from daedal.isa.variant import Variant, load_variant
from daedal.reports.console import make_console, print_json, show_progress

if TYPE_CHECKING:  # the hardware loads slowly
    from daedal.hw.boards.bitstream import BoardBuild
    from daedal.hw.boards.board import Board
    from daedal.hw.boards.pll import PllSettings
    from daedal.hw.boards.settings import BoardSettings
    from daedal.hw.synth.flow import Implementation
    from daedal.isa.sdram_chip import SdramChip

__all__ = ["build_command"]

_err = make_console(stderr=True)

_MHZ = 80.0
"""A clock that shipped variants reach."""


def build_command(
    variant: Annotated[
        str, typer.Argument(help="The name of a variant that comes with Daedal, or a .toml file.")
    ],
    board: BoardName,
    out: Annotated[
        Path, typer.Option("--output", "-o", "--out", help="Folder of bitstream and report.")
    ] = Path(),
    freq: Annotated[
        float | None,
        typer.Option(
            metavar="MHZ",
            help="The clock; the PLL's nearest one not above it is used. By default 80, or what "
            "the SDRAM allows.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, max=99, help="Number of seeds to try, until one reaches the clock."),
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Seeds in parallel; by default one per processor.")
    ] = None,
    ram: Annotated[
        str | None,
        typer.Option(
            metavar="sdram|block|KIB",
            help="The board's SDRAM, or block RAM: all that fits, or this many KiB. By default the "
            "SDRAM, if there is one.",
        ),
    ] = None,
    sdram: Annotated[
        str | None,
        typer.Option(
            metavar="PART|FILE",
            help="The SDRAM of your board, if its package shows another part than most boards "
            "have. A .toml file describes others (docs/memory.md).",
        ),
    ] = None,
    sdram_phase: Annotated[
        float, typer.Option(metavar="DEGREES", help="Delay of the SDRAM's clock behind the FPGA's.")
    ] = 180.0,
    baud: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rate of the serial port; by default the fastest of 3000000, 2000000, 1000000, "
            "500000 and 115200 that the clock gives.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build the bitstream of BOARD: the accelerator, its memory, and a bridge to a serial port.

    Takes many minutes the first time; results are kept in the cache, each seed as soon as it is
    done. If the design does not fit or misses the clock, there is no bitstream, and the exit
    status is 1.
    """
    from daedal.hw.boards.board_file import load_board
    from daedal.hw.boards.settings import BoardSettings, bank_bytes
    from daedal.hw.synth.tools import NEXTPNR

    chosen, place = load_variant(variant), load_board(board)
    chip, block_bytes, file_mhz = _memory(place, ram, sdram)
    clock = _clock(place, freq or file_mhz, chip, sdram_phase)

    def settings(memory_bytes: int) -> BoardSettings:
        return BoardSettings.for_baud(place, chosen, clock, chip or memory_bytes, baud)

    settings(block_bytes or bank_bytes(chosen))  # what is wrong is said before the long steps
    NEXTPNR.require("place and route")
    stem = out / f"{place.name}-{chosen.name}"
    check_output_folder(out, [f"{stem.name}.json", f"{stem.name}.bit"])
    what = f"building variant {chosen.name} for {place.name}"
    with show_progress(_err) as progress:

        def report(step: str) -> None:
            progress(f"{what}, {step}")

        machine = _machine(chosen, report)
        built = None
        if machine.succeeded:
            fitting = settings(0 if chip else _block_bytes(machine, block_bytes))
            num_processes = jobs or os.cpu_count() or 1
            built = _build(fitting, range(1, seeds + 1), num_processes, report)
    if built is None:
        _tell(machine, None, place.name, as_json)
        raise typer.Exit(1)
    record = _tell(built.implementation, built, place.name, as_json)
    make_folder(out)
    write_atomically(stem.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    if built.bitstream is None:
        raise typer.Exit(1)
    write_atomically(stem.with_suffix(".bit"), built.bitstream)
    _err.print(escape(f"{stem.with_suffix('.bit')}: {len(built.bitstream):,} bytes"))


def _machine(variant: Variant, report: Callable[[str], None]) -> "Implementation":
    """What the machine alone takes: whether it fits, and what it leaves for memory."""
    from daedal.hw.synth.families import Family
    from daedal.hw.synth.flow import implement
    from daedal.sim.rtl.device import default_cache_dir
    from daedal.sim.rtl.verilog import kept_verilog

    verilog = kept_verilog(variant, default_cache_dir(), report, family=Family.ECP5)
    return implement(variant, verilog, Family.ECP5, _synth_folder(), progress=report)


def _memory(
    board: "Board", text: str | None, part: str | None
) -> "tuple[SdramChip | None, int | None, float | None]":
    """The chip, or bytes of block RAM; neither: all the block RAM that fits. Last, the clock in
    MHz that a file of the chip asks for."""
    if part is not None and text not in (None, "sdram"):
        raise UserError(f"--sdram is for a machine with SDRAM, not with --ram {text}")
    if text == "sdram" or part is not None or (text is None and board.sdram is not None):
        return _sdram(board, part)
    if text is None or text == "block":
        return None, None, None
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"--ram must be sdram, block or a number of KiB, not {text!r}")
    return None, 1024 * int(text), None


def _sdram(board: "Board", part: str | None) -> "tuple[SdramChip, None, float | None]":
    """A chip by its part, or from a memory file with the clock in MHz that it is to have there."""
    from daedal.isa.memory_file import load_memory
    from daedal.isa.sdram_chip import CHIPS

    if board.sdram is None:
        raise UserError(
            f"board {board.name!r} has no SDRAM: leave out --sdram, and give --ram block or a "
            "number of KiB, if any"
        )
    if part is None:
        return board.sdram.chip, None, None
    if not part.endswith(".toml"):
        if part not in CHIPS:
            raise UserError(
                f"--sdram must be one of {', '.join(CHIPS)}, or the path of a .toml file, not "
                f"{part!r}"
            )
        return CHIPS[part], None, None
    memory = load_memory(part)
    if memory.sdram is None:
        raise UserError(f"--sdram must be a memory file with [sdram]; {part!r} has none")
    board.sdram.check_chip(memory.sdram.chip)
    return memory.sdram.chip, None, min(_MHZ, memory.sdram.times.clock_hz / 2e6)


def _clock(
    board: "Board", freq: float | None, chip: "SdramChip | None", phase: float
) -> "PllSettings":
    """The clock that is asked for; by default the most that block RAM or the chip is built for."""
    if chip is None:
        return board.clock((freq or _MHZ) * 1e6)
    return board.clock((freq or min(_MHZ, 1e3 / chip.clock_ns / 2)) * 1e6, phase)


def _block_bytes(machine: "Implementation", wanted: int | None) -> int:
    from daedal.hw.boards.bitstream import memory_bytes

    return memory_bytes(machine.variant, machine.report, wanted)


def _build(
    settings: "BoardSettings",
    seeds: Sequence[int],
    num_processes: int,
    report: Callable[[str], None],
) -> "BoardBuild":
    from daedal.hw.boards.bitstream import build_bitstream
    from daedal.hw.synth.families import Family
    from daedal.sim.rtl.device import default_cache_dir
    from daedal.sim.rtl.verilog import kept_board_verilog

    return build_bitstream(
        settings,
        kept_board_verilog(settings, default_cache_dir(), report, family=Family.ECP5),
        _synth_folder(),
        seeds=seeds,
        num_processes=num_processes,
        progress=report,
    )


def _tell(
    result: "Implementation", built: "BoardBuild | None", board: str, as_json: bool
) -> dict[str, Any]:
    """Print the report; return it as JSON."""
    from daedal.reports.board import board_record
    from daedal.reports.synthesis import print_synthesis, synthesis_record

    if built is None:
        record = synthesis_record(result, board)
    else:
        record = board_record(built, board)
    if as_json:
        print_json(record)
    else:
        print_synthesis(make_console(), result)
    return record


def _synth_folder() -> Path:
    from daedal.native.caches.place import cache_folder

    return cache_folder("synth")
