"""`MemoryCost`: what a memory makes of the estimates of tiles, derived from its rules.

`MachineCost` has the rates of a variant with a memory, for cost models that count transfers. For
all others, `MemoryCost.cycles` converts an estimate for preset `ddr`, which moves a word in every
cycle: where the bus was the busiest part of a layer, or becomes it, the layer takes as long as its
words do; all else that the estimate has, which does not overlap, stays.

The words of an SDRAM are those of long bursts, less what refreshes take. A row is opened while
words of another bank move, and neighbouring rows are in different banks, so other rows cost
nothing; neither are reads that wait for writes counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.sdram_memory import (
    ANSWER_CYCLES,
    REQUEST_CYCLES,
    SLOT_CYCLES,
    SPLIT_CYCLES,
    WHOLE_CYCLES,
    SdramMemory,
)

__all__ = ["DDR", "LAST_WRITE_CYCLES", "MemoryCost", "first_read_cycles", "latencies"]

Floats = npt.NDArray[np.float64]

LAST_WRITE_CYCLES = WHOLE_CYCLES + SPLIT_CYCLES + 2 * SLOT_CYCLES + ANSWER_CYCLES
"""From the W of a lone write of one word, whose row is open, to its B."""

DDR = PRESETS["ddr"]
"""The memory for which the compiler chooses tiles unless it is given another one."""


@dataclass(frozen=True)
class MemoryCost:
    """What words cost.

    Attributes
    ----------
    word_cycles : of a word in long transfers.
    """

    word_cycles: float

    @classmethod
    def of(cls, memory: MemoryModel) -> "MemoryCost":
        """That of a memory, without random delays."""
        if memory.sdram is None:
            return cls(float(memory.beat_cycles))
        return cls(_sdram_word_cycles(memory.sdram))

    @property
    def slows_words(self) -> bool:
        """Whether a word takes longer than with preset `ddr`, so that other tiles may be faster."""
        return self.word_cycles != 1

    def cycles(self, features: Mapping[str, Floats]) -> Floats:
        """Those of schedules with these `LayerSpace.features`."""
        estimate, words = features["estimate"], features["beats"]
        nothing = np.zeros_like(estimate)
        computing = np.maximum(
            features.get("product_cycles", nothing), features.get("vector_cycles", nothing)
        )
        before, after = (
            np.maximum(computing, words),
            np.maximum(computing, self.word_cycles * words),
        )
        found: Floats = np.maximum(estimate - before, 0) + after
        return found


def first_read_cycles(sdram: SdramMemory) -> int:
    """From AR to the first R of a lone read whose row is open: it is taken, split, accepted as
    next and started, each in the next decision; then its word moves."""
    taken = REQUEST_CYCLES + SPLIT_CYCLES
    return taken + 2 * SLOT_CYCLES + sdram.read_word_cycles


def latencies(memory: MemoryModel) -> tuple[int, int]:
    """Cycles from AR to the first R of a lone read, and from the last W of a lone write to its
    B."""
    if memory.sdram is None:
        return memory.read_latency_cycles, memory.write_latency_cycles
    return first_read_cycles(memory.sdram), LAST_WRITE_CYCLES


def _sdram_word_cycles(sdram: SdramMemory) -> float:
    """Slots of words, and those of a refresh in every interval: rows are closed, the chip is
    refreshed, the row is opened again."""
    times = sdram.times
    lost = times.precharge_to_row + times.refresh_to_any + times.row_to_data
    return SLOT_CYCLES * times.refresh_interval / (times.refresh_interval - lost)
