"""The whole `ecp5` accelerator on its board, in context, to the bitstream.

Input: a clock and seeds. Output: its record in `docs/synthesis.json`. Results of the tools are
cached, as by `daedal build`.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from bench.synthesis.synth_record import record_of, text_digest
from daedal.hw.boards.bitstream import BoardBuild, build_bitstream, memory_bytes
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.synth.families import Family
from daedal.hw.synth.flow import implement
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.verilog import kept_board_verilog, kept_verilog

__all__ = ["BAR_MHZ", "BOARD", "VARIANT", "board_record", "whole_record"]

VARIANT = "ecp5"
BOARD = "ulx3s-85f"
MEMORY_BYTES = 64 * 1024
"""On-chip memory; the digits network with its program takes less than half of it."""
BAR_MACS_PER_CYCLE = 256
BAR_MHZ = 90.0


def board_record(
    clock_mhz: float, seeds: Sequence[int], report: Callable[[str], None]
) -> dict[str, Any]:
    """Build the bitstream with each of `seeds`.

    Raises ToolError where a tool is missing or gives up, UserError for a machine that leaves no
    room, or a clock that the board has not.
    """
    variant = load_variant(VARIANT)
    cache = default_cache_dir()
    folder = cache.parent / "synth"
    verilog = kept_verilog(variant, cache, report, family=Family.ECP5)
    machine = implement(variant, verilog, Family.ECP5, folder, progress=report)
    size = memory_bytes(variant, machine.report, MEMORY_BYTES)
    board = load_board(BOARD)
    settings = BoardSettings.for_baud(board, variant, board.clock(clock_mhz * 1e6), size)
    text = kept_board_verilog(settings, cache, report, family=Family.ECP5)
    built = build_bitstream(
        settings,
        text,
        folder,
        seeds=seeds,
        num_processes=os.cpu_count() or 1,
        progress=report,
    )
    return {"verilog": text_digest(text), **whole_record(built)}


def whole_record(built: BoardBuild) -> dict[str, Any]:
    """What the file has of a build, and whether it reaches the bar."""
    record = record_of(built.implementation)
    macs = built.settings.variant.macs_per_cycle
    size = None if built.bitstream is None else len(built.bitstream)
    return record | {
        "board": BOARD,
        "macs_per_cycle": macs,
        "clock_mhz": built.settings.clock.output_hz / 1e6,
        "memory_bytes": built.settings.memory_bytes,
        "bitstream_bytes": size,
        "bar": {"macs_per_cycle": BAR_MACS_PER_CYCLE, "mhz": BAR_MHZ},
        "met": size is not None and macs >= BAR_MACS_PER_CYCLE and record["fmax_mhz"] >= BAR_MHZ,
    }
