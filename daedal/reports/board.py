"""A board's design as JSON: the synthesis of the whole, and the settings of its bitstream."""

from typing import Any

from daedal.hw.boards.bitstream import BoardBuild
from daedal.reports.synthesis import synthesis_record

__all__ = ["board_record"]


def board_record(built: BoardBuild, board: str) -> dict[str, Any]:
    """The report stored next to a bitstream."""
    settings = built.settings
    return {
        "board": board,
        "clock_hz": settings.clock.output_hz,
        "memory_bytes": settings.memory_bytes,
        "sdram": settings.sdram and settings.sdram.name,
        "sdram_phase": settings.clock.chip_phase if settings.sdram else None,
        "baud": round(settings.clock.output_hz / settings.divisor),
        "bitstream_bytes": None if built.bitstream is None else len(built.bitstream),
        **synthesis_record(built.implementation, board),
    }
