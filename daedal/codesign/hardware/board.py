"""`Board`: what a machine has on a board: the device, the memory, and all other logic.

Read from `data/boards.json`. The resources are what Yosys counts of a whole board less those of its
machine (``python -m bench.board --step whole --write``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data

from daedal.codesign.hardware.clock import Clock
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
    name : as `daedal build` has it.
    target : its device.
    memory : preset of its SDRAM, at the fastest clock that the chip allows.
    resources : of all on the device but the machine: the memory's controller, the bridge.
    """

    name: str
    target: Target
    memory: str
    resources: Mapping[str, float]

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


@cache
def board_named(name: str) -> Board:
    """A board that is known. Raises KeyError for others."""
    path = package_data.files("daedal.codesign.hardware") / "data" / "boards.json"
    found = json.loads(path.read_text(encoding="utf-8"))[name]
    return Board(name, Target(found["target"]), found["memory"], found["resources"])
