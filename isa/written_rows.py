"""Finds reads of scratchpad rows that nothing before them in the program wrote.

Scratchpads keep what an earlier program left in them, so such a read gives another program's data.
Input: a program's instructions in order, with their accesses. Micro-ops have a rule of their own
(`footprints`): they must be known, not only written.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.footprints import Footprints, Touch
from daedal.isa.instruction import Instruction, reads_destination
from daedal.isa.microcode import Expansion
from daedal.isa.scratchpad import Memory
from daedal.isa.table import OutMemory, Unit

__all__ = ["WrittenRows"]

_DATA = tuple(memory.value for memory in Memory if memory not in (Memory.UOP_GEMM, Memory.UOP_ALU))


class WrittenRows:
    """Rows that a program has written so far, by scratchpad."""

    def __init__(self, footprints: Footprints) -> None:
        self._footprints = footprints
        self._written = {
            name: np.zeros(footprints.sizes[name], dtype=np.bool_)
            for name in _DATA
            if name in footprints.sizes
        }

    def follow(self, instruction: Instruction, touches: Sequence[Touch]) -> None:
        """Check the reads of the next instruction and record its writes.

        Raises ProgramError where it reads a row that neither an earlier instruction nor an earlier
        step of its own has written. A product that overwrites its accumulators does not read them.
        """
        for touch in touches:
            written = self._written.get(touch.space)
            if written is None:
                continue
            if touch.write:
                written[touch.places] = True
            elif not written[touch.places].all():
                rows = np.arange(len(written))[touch.places]
                self._check(instruction, touch.space, rows[~written[rows]])

    def _check(
        self, instruction: Instruction, space: str, unwritten: npt.NDArray[np.int64]
    ) -> None:
        """Raise ProgramError for the first of the `unwritten` rows whose old contents count."""
        if space == Memory.ACC.value:
            own = self._own_rows(instruction)
            unwritten = unwritten[~np.isin(unwritten, own)]
        if unwritten.size:
            raise ProgramError(
                f"every row that is read must be written before; row {int(unwritten.min())} of "
                f"scratchpad {space!r} is not"
            )

    def _own_rows(self, instruction: Instruction) -> npt.NDArray[np.int64]:
        """Accumulator rows that the instruction itself writes before it reads them."""
        if instruction.unit is Unit.GEMM:
            return self._footprints.overwritten(instruction)
        if instruction.unit is Unit.ALU and instruction.destination == OutMemory.ACC:
            return _written_first(self._footprints.steps(instruction), instruction)
        return np.zeros(0, dtype=np.int64)


def _written_first(steps: Expansion | None, instruction: Instruction) -> npt.NDArray[np.int64]:
    """Accumulator rows that a step of an ALU instruction writes before the first one reads them."""
    if steps is None:
        return np.zeros(0, dtype=np.int64)
    targets, first_write = np.unique(steps.rows["dst"], return_index=True)
    reads = [steps.rows["src"], *([steps.rows["dst"]] if reads_destination(instruction) else [])]
    first_read = np.full(int(max(rows.max() for rows in (targets, *reads))) + 1, len(steps))
    for rows in reads:
        read, first = np.unique(rows, return_index=True)
        first_read[read] = np.minimum(first_read[read], first)
    found: npt.NDArray[np.int64] = targets[first_write < first_read[targets]]
    return found
