"""`BuildableSpace`: the schedules of a layer that do not take too many instructions.

The spaces of the templates hold whatever fits the scratchpads. A layer of a large map has schedules
of so small tiles that their programs exceed the compiler's limits. Bounds of the number of
instructions (`LayerSpace.instructions`) decide on nearly all of them. Where the limit lies between
them, a schedule is made and counted if its lower bound is at most half of the limit; others, which
are slow anyway, are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.accelerator import MAX_LAYER_INSTRUCTIONS
from daedal.compiler.cost.memory import DDR
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, chosen
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import MAX_INSTRUCTIONS
from daedal.isa.variant import Variant

__all__ = ["BuildableSpace"]


class BuildableSpace(LayerSpace):
    """The configurations of `space` whose programs are surely within the limits.

    Parameters
    ----------
    counts : the instructions of each function of a configuration on a variant.
    memory : behind the machine, that `cycles` and `default` are for.
    """

    def __init__(
        self,
        space: LayerSpace,
        variant: Variant,
        counts: Callable[[Variant, Config], Sequence[int]],
        memory: MemoryModel = DDR,
    ) -> None:
        self._memory = memory
        self._space = space
        self._variant = variant
        self._counts = counts
        self._counted: dict[Config, bool] = {}

    def __str__(self) -> str:
        return str(self._space)

    @property
    def template(self) -> LayerSpace:
        """The template's space: whatever fits the scratchpads."""
        return self._space

    def on(self, variant: Variant) -> "BuildableSpace | None":
        moved = self._space.on(variant)
        return None if moved is None else BuildableSpace(moved, variant, self._counts, self._memory)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        return self._space.knobs

    @property
    def added(self) -> Mapping[str, int]:
        return self._space.added

    def latency_cycles(self, memory: MemoryModel) -> float:
        return self._space.latency_cycles(memory)

    def possible(self, table: Table) -> Mask:
        return self._space.possible(table)

    def fits(self, table: Table) -> Mask:
        fitting = self._space.fits(table)
        fitting[fitting] = self._builds(chosen(table, fitting))
        return fitting

    def all(self) -> Table:
        return self._all

    @cached_property
    def _all(self) -> Table:
        table = self._space.all()
        return chosen(table, self._builds(table))

    def combinations(self) -> Table:
        return self._space.combinations()

    def cycles(self, table: Table) -> Floats:
        return self.cycles_alone(table, self._memory)

    def bound(self, table: Table, memory: MemoryModel) -> Floats:
        return self._space.bound(table, memory)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        return self._space.instructions(table)

    def features(self, table: Table) -> dict[str, Floats]:
        return self._space.features(table)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        return self._space.cycles_with(table, memory)

    def cycles_alone(self, table: Table, memory: MemoryModel) -> Floats:
        return self._space.cycles_alone(table, memory)

    @property
    def default(self) -> Config:
        """`default_with` its memory."""
        return self.default_with(self._memory)

    def default_with(self, memory: MemoryModel) -> Config:
        """That of the template, which is what the compiler builds by default.

        If it takes too many instructions, the one of the others with the fewest estimated cycles;
        if all do, that of the template, whose error tells it. Raises ScheduleError where nothing
        fits the scratchpads.
        """
        usual = self._space.default_with(memory)
        if self._is_built(usual):
            return usual
        table = self.all()
        cycles = self.cycles_with(table, memory)
        return self.row(table, int(np.argmin(cycles))) if len(cycles) else usual

    def _builds(self, table: Table) -> npt.NDArray[np.bool_]:
        """Whether each configuration, which fits, is within the limits; those that take about as
        many instructions are left out, but the template's default."""
        least, most = self._space.instructions(table)
        found, few = _within(most), _within(2 * least)
        unknown = np.flatnonzero(~found & _within(least))
        usual = self._space.default_with(self._memory) if len(unknown) else None
        for row, config in zip(unknown, self.configs(chosen(table, unknown)), strict=True):
            found[row] = (few[row] or config == usual) and self._is_built(config)
        return found

    def _is_built(self, config: Config) -> bool:
        """Whether the instructions of a configuration, counted, are within the limits."""
        if config not in self._counted:
            _, most = self._space.instructions(self.table([config]))
            if not _within(most).all():
                most = np.array([self._counts(self._variant, config)]).T
            self._counted[config] = bool(_within(most).all())
        return self._counted[config]


def _within(counts: Column) -> npt.NDArray[np.bool_]:
    """Whether functions are within the limit of a layer's code, and all together within that of a
    program, which has one instruction more."""
    within: npt.NDArray[np.bool_] = np.all(counts <= MAX_LAYER_INSTRUCTIONS, axis=0)
    within &= np.sum(counts, axis=0) < MAX_INSTRUCTIONS
    return within
