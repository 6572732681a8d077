"""`Board`: what a machine has on a board: the device, the memory, and all other logic.

A board's file says what is on it (`hw.boards.board_file`). The other logic is the same on all of
them: `data/board_logic.json` has what Yosys counts of a whole board less its machine
(``python -m bench.synthesis.board --step whole --write``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources as package_data
from pathlib import Path
from typing import Any

from daedal.codesign.hardware.clock import Clock
from daedal.common.errors import ExploreError
from daedal.hw.boards.board import Board as Description
from daedal.hw.boards.board_file import load_board
from daedal.hw.synth.families import RESOURCES, Target
from daedal.isa.memory_model import PRESETS
from daedal.isa.sdram_chip import BURST_COLUMNS
from daedal.isa.sdram_memory import SLOT_CYCLES, SdramMemory

__all__ = ["Board", "board_named"]


@dataclass(frozen=True)
class Board:
    """A board with SDRAM.

    Attributes
    ----------
    description : what its file says.
    target : its device, or one with the same resources.
    resources : of all on the device but the machine: the memory's controller, the bridge.
    """

    description: Description
    target: Target
    resources: Mapping[str, float]

    @property
    def name(self) -> str:
        """As `daedal build` has it."""
        return self.description.name

    @property
    def memory(self) -> str:
        """Preset of its SDRAM, at the fastest clock that the chip allows."""
        assert self.description.sdram is not None, "the memory of a board is its SDRAM"
        return self.description.sdram.memory

    def to_json(self) -> dict[str, Any]:
        """What a search depends on."""
        return {
            "name": self.name,
            "target": self.target,
            "memory": self.memory,
            "resources": dict(self.resources),
        }

    @property
    def sdram(self) -> SdramMemory:
        """The memory."""
        found = PRESETS[self.memory].sdram
        assert found is not None, "the memory of a board is its SDRAM"
        return found

    @property
    def most_mhz(self) -> float:
        """The fastest clock of the machine: half of the chip's."""
        return self.sdram.times.clock_hz / 2e6

    @property
    def most_mb_per_second(self) -> float:
        """Megabytes that the SDRAM moves in a second at best, in one direction at a time."""
        return self.most_mhz * BURST_COLUMNS * self.sdram.chip.data_bits / 8 / SLOT_CYCLES

    def with_machine(self, used: Mapping[str, float]) -> dict[str, float]:
        """Resources of the board with a machine that uses `used`."""
        return {name: used[name] + self.resources[name] for name in RESOURCES}

    def clock(self, machine: Clock) -> Clock:
        """The clock with a machine that reaches `machine` alone."""
        most = self.most_mhz
        return Clock(min(machine.mhz, most), min(machine.low, most), min(machine.high, most))


def board_named(name: str | Path) -> Board:
    """A board by name, or from the path of a file.

    Raises
    ------
    UserError
        There is no such board.
    ExploreError
        It has no SDRAM.
    """
    described = load_board(name)
    if described.sdram is None:
        raise ExploreError(
            f"a search is for a board with SDRAM; {described.name!r} has none: give its device, "
            f"--fpga {Target.ecp5_85f.value}"
        )
    path = package_data.files("daedal.codesign.hardware") / "data" / "board_logic.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    return Board(described, Target.ecp5_85f, found["resources"])
