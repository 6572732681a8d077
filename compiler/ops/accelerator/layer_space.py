"""`LayerSpace`: the schedules of a layer on a variant, with bounds of cycles and instructions."""

import math

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.ops.space import Column, Config, Space, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["UNBOUNDED", "LayerSpace"]

UNBOUNDED = 1 << 40
"""More instructions than any program has."""


class LayerSpace(Space):
    """All configurations of one template, for one layer on one variant.

    `cycles`, `features` and `default` are for preset `ddr`. There are two estimates: `cycles_alone`
    of a program that has only this layer, which `cycles` is for preset `ddr`, as the tuner measures
    such programs; and `cycles_with` of the layer in a network, where others need rows of the
    scratchpads, too. By these, the compiler chooses.
    """

    def cycles_alone(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        """Estimated cycles of a program of this layer alone, with a memory behind the bus."""
        return self.cycles_with(table, memory)

    def cycles_with(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        """Estimated cycles in a network, with a memory behind the bus."""
        cost = MemoryCost.of(memory)
        return cost.cycles(self.features(table)) if cost.slows_words else self.cycles(table)

    def latency_cycles(self, memory: MemoryModel) -> float:
        """What the estimates have for latencies: of the memory, and from unit to unit."""
        del memory
        return 0.0

    @property
    def default(self) -> Config:
        """`default_with` preset `ddr`."""
        return self.default_with(DDR)

    def default_with(self, memory: MemoryModel) -> Config:
        """The configuration that the compiler builds for a machine with a memory: the one with the
        fewest estimated cycles.

        Raises
        ------
        ScheduleError
            None fits.
        """
        table = self.all()
        found = self.fastest(table, self.cycles_with(table, memory))
        if found is None:
            raise ScheduleError(f"no schedule of {self} fits the variant's scratchpads")
        return found

    def default_cycles(self, memory: MemoryModel) -> float:
        """Estimated cycles of the default in a network."""
        return float(self.cycles_with(self.table([self.default_with(memory)]), memory)[0])

    def fastest(
        self, table: Table, cycles: npt.NDArray[np.float64], most: float = math.inf
    ) -> Config | None:
        """The row of `table` with the fewest `cycles`, one for each row; None where there is none
        with `most` or fewer."""
        if not len(cycles):
            return None
        best = int(np.argmin(cycles))
        return None if cycles[best] > most else self.row(table, best)

    def row(self, table: Table, number: int) -> Config:
        """One row of `table`."""
        rows = {knob: column[number : number + 1] for knob, column in table.items()}
        (config,) = self.configs(rows)
        return config

    def bound(self, table: Table, memory: MemoryModel) -> npt.NDArray[np.float64]:
        """Cycles that no program of each configuration can undercut, proved and not fitted.

        See `daedal.compiler.ops.lower_bound`. Where nothing is proved, 0.
        """
        del memory
        return np.zeros(_length(table))

    def instructions(self, table: Table) -> tuple[Column, Column]:
        """(functions, configurations): bounds of the number of instructions of each function that a
        configuration is built of, along the loops of its template.

        Where nothing is known, 0 and `UNBOUNDED`.
        """
        least = np.zeros((1, _length(table)), dtype=np.int64)
        return least, np.full_like(least, UNBOUNDED)

    def on(self, variant: Variant) -> "LayerSpace | None":
        """The same layer's space on a variant with an equal array and bus; None where only the
        layer's template can make it."""
        del variant
        return None


def _length(table: Table) -> int:
    return len(next(iter(table.values())))
