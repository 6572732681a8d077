"""`EarlierLoads`: which LOADs wrote the rows of a LOAD before."""

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placement.touched_rows import ROW_FIELDS, TouchedRows
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.table import Unit
from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64

__all__ = ["EarlierLoads"]

EACH = 4
"""Earlier LOADs of an instruction, on average, that there is space for at first."""

_LOAD = int(Unit.LOAD)


class EarlierLoads:
    """For each LOAD of a program, the last ones before it into its rows, ascending: several can
    fill a tile and its padding.

    Attributes
    ----------
    ends : by the number of an instruction, where its LOADs end in `numbers`; they begin where those
        of the instruction before it end.
    """

    def __init__(self, touched: TouchedRows) -> None:
        count = len(touched.units)
        self.ends: npt.NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        space, used = EACH * count + 16, -1
        while used < 0:
            numbers = np.zeros(space, dtype=np.int32)
            used = _find(
                touched.units,
                touched.counts,
                touched.accesses.reshape(-1),
                touched.ranges,
                np.full(touched.depth, NO_INSTRUCTION, dtype=np.int32),
                self.ends,
                numbers,
            )
            space *= 4
        self.numbers: npt.NDArray[np.int32] = numbers[:used].copy()

    def of(self, number: int) -> list[int]:
        """Those of an instruction."""
        begin = int(self.ends[number - 1]) if number else 0
        found: list[int] = self.numbers[begin : self.ends[number]].tolist()
        return found


@kernel
def _find(
    units: Array[i64],
    counts: Array[i64],
    accesses: Array[i64],
    ranges: Array[i64],
    latest: Array[i32],
    ends: Array[i64],
    numbers: Array[i32],
) -> i64:
    """Fill `ends` and `numbers`; how many numbers there are, -1 if there is no space for them.

    `latest` has the last LOAD of each row.
    """
    access = used = 0
    for number in range(len(units)):
        until = access + counts[number]
        begin = used
        for k in range(access, until if units[number] == _LOAD else access):
            if accesses[k * ROW_FIELDS + 4] == 0:
                continue
            first = accesses[k * ROW_FIELDS]
            for run in range(accesses[k * ROW_FIELDS + 1], accesses[k * ROW_FIELDS + 2]):
                for row in range(first + ranges[2 * run], first + ranges[2 * run + 1]):
                    before = latest[row]
                    latest[row] = number
                    if before < 0 or before == number:
                        continue
                    place = used
                    while place > begin and numbers[place - 1] > before:
                        place -= 1
                    if place > begin and numbers[place - 1] == before:
                        continue
                    if used == len(numbers):
                        return -1
                    for other in range(used - place):
                        numbers[used - other] = numbers[used - other - 1]
                    numbers[place] = before
                    used += 1
        ends[number] = used
        access = until
    return used
