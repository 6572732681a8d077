"""From a board's design to its bitstream: mapped, placed, routed, checked for timing, packed.

Input: `BoardSettings` and the emitted Verilog. Output: a `BoardBuild`. The steps are those of
`hw.synth`, and are cached like them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import UserError
from daedal.hw.boards.settings import BoardSettings, bank_bytes
from daedal.hw.boards.top import TOP_MODULE
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation, implement
from daedal.hw.synth.place import PlaceRequest, pack_bitstream
from daedal.isa.variant import Variant

__all__ = ["BoardBuild", "board_request", "build_bitstream", "memory_bytes"]

_BRIDGE_BLOCKS = 1
"""Block RAMs of the bridge: a payload."""


@dataclass(frozen=True)
class BoardBuild:
    """Result of a build; `bitstream` is None if the design does not fit or misses its clock."""

    settings: BoardSettings
    implementation: Implementation
    bitstream: bytes | None


def memory_bytes(variant: Variant, machine: CellReport, wanted: int | None) -> int:
    """`wanted` bytes of on-chip memory, or by default all that fits next to a machine of `machine`.

    Raises UserError if `wanted` bytes, or a single bank, do not fit.
    """
    blocks = machine.usable()["block_ram"] - _BRIDGE_BLOCKS - machine.block_ram
    num_banks = int(blocks // variant.bus_bytes)  # a bank is a block for each byte of a word
    most = num_banks * bank_bytes(variant)
    if most < max(wanted or 0, bank_bytes(variant)):
        asked = "a bank" if wanted is None else f"{wanted // 1024} KiB"
        raise UserError(
            f"on-chip memory must fit beside variant {variant.name!r}, which leaves "
            f"{max(most, 0) // 1024} KiB of block RAM, not {asked}; ask for less or choose smaller "
            "scratchpads"
        )
    return most if wanted is None else wanted


def board_request(
    settings: BoardSettings, seed: int, *, timing_driven: bool = True
) -> PlaceRequest:
    """How a board's design is placed and routed."""
    board = settings.board
    return PlaceRequest(
        device=board.device,
        package=board.package,
        speed_grade=board.speed_grade,
        pins=settings.constraints,
        target_mhz=settings.clock.output_hz / 1e6,
        seed=seed,
        timing_driven=timing_driven,
    )


def build_bitstream(
    settings: BoardSettings,
    verilog: str,
    folder: Path,
    *,
    seeds: Sequence[int] = (1,),
    num_processes: int = 1,
    progress: Callable[[str], None] = lambda _text: None,
) -> BoardBuild:
    """Build `verilog` (`top.emit`) with `seeds` until one reaches the clock: placed by timing, and
    then by wire, which brings a few designs nearer to their pins.

    The PLL fixes the clock, so further seeds would not be faster on the board. A seed that is hard
    to route does not delay the others.

    Raises
    ------
    ToolError
        A tool is missing, or failed.
    UserError
        The cache folder cannot be written.
    """
    asked_mhz = settings.clock.output_hz / 1e6

    def built(*, timing_driven: bool) -> Implementation:
        return implement(
            settings.variant,
            verilog,
            Family.ECP5,
            folder,
            top=TOP_MODULE,
            requests=[board_request(settings, seed, timing_driven=timing_driven) for seed in seeds],
            asked_mhz=asked_mhz,
            until_met=True,
            num_processes=num_processes,
            progress=progress,
        )

    found = built(timing_driven=True)
    if found.missed is not None:
        found = max(found, built(timing_driven=False), key=_reached)
    bitstream = None
    if found.succeeded and found.best is not None and found.best.config is not None:
        progress("packing the bitstream")
        bitstream = pack_bitstream(found.best.config)
    return BoardBuild(settings, found, bitstream)


def _reached(found: Implementation) -> float:
    """The clock of the fastest seed; 0 if none was routed."""
    return 0.0 if found.best is None else found.best.slowest_mhz
