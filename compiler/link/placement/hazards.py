"""Finds the earlier instructions that an instruction depends on: hazards on rows and on memory.

For every scratchpad row, and every bus word of writable memory, tables hold the last reader and the
last writer of each unit. A kernel goes through the program once.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placement.placed_program import BEAT_FIELDS, PlacedProgram
from daedal.compiler.link.placement.touched_rows import ROW_FIELDS
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.table import Unit
from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64

__all__ = ["NUM_QUEUES", "hazards"]

NUM_QUEUES = 4
"""LOAD, GEMM, ALU and STORE."""

_NONE = int(NO_INSTRUCTION)
_LOAD, _STORE = int(Unit.LOAD), int(Unit.STORE)


def hazards(program: PlacedProgram) -> npt.NDArray[np.int32]:
    """Per instruction and unit, the latest one that it has to wait for, or NO_INSTRUCTION.

    There is nothing for an instruction's own unit.
    """
    touched = program.touched
    found = np.full(len(program.items) * NUM_QUEUES, NO_INSTRUCTION, dtype=np.int32)
    _find(
        touched.units,
        touched.counts,
        touched.accesses.reshape(-1),
        touched.ranges,
        program.beats.reshape(-1),
        _table(2 * NUM_QUEUES * touched.depth),
        touched.depth,
        _table(program.num_words),
        _table(program.num_words),
        found,
    )
    return found.reshape(-1, NUM_QUEUES)


def _table(size: int) -> npt.NDArray[np.int32]:
    return np.full(size, NO_INSTRUCTION, dtype=np.int32)


@kernel
def _find(
    units: Array[i64],
    row_counts: Array[i64],
    rows: Array[i64],
    ranges: Array[i64],
    beats: Array[i64],
    touched: Array[i32],
    depth: i64,
    stored: Array[i32],
    loaded: Array[i32],
    found: Array[i32],
) -> None:
    """Fill `found`.

    `rows` are the accesses of `TouchedRows`.

    `touched` has `depth` rows per unit for its last writer, then as many for its last reader. Only
    STORE writes memory, and only LOAD reads what is ever written.
    """
    access = 0
    for number in range(len(units)):
        unit = units[number]
        until = access + row_counts[number]
        for k in range(access, until):
            first = rows[k * ROW_FIELDS]
            for table in range(2 * NUM_QUEUES if rows[k * ROW_FIELDS + 4] != 0 else NUM_QUEUES):
                other = table % NUM_QUEUES
                if other == unit:
                    continue
                at = table * depth + first
                for run in range(rows[k * ROW_FIELDS + 1], rows[k * ROW_FIELDS + 2]):
                    latest = _last_row(touched, at + ranges[2 * run], at + ranges[2 * run + 1])
                    if latest > found[number * NUM_QUEUES + other]:
                        found[number * NUM_QUEUES + other] = latest
        for k in range(access, until):
            first = rows[k * ROW_FIELDS]
            for how in range(2):
                if rows[k * ROW_FIELDS + 4 - how] != 0:
                    at = (how * NUM_QUEUES + unit) * depth + first
                    for run in range(rows[k * ROW_FIELDS + 1], rows[k * ROW_FIELDS + 2]):
                        for row in range(at + ranges[2 * run], at + ranges[2 * run + 1]):
                            touched[row] = number
        access = until
        if unit == _LOAD:
            _move(beats, number, stored, loaded, found, _STORE)
        elif unit == _STORE:
            _move(beats, number, loaded, stored, found, _LOAD)


@kernel
def _last_row(touched: Array[i32], begin: i64, end: i64) -> i64:
    latest = _NONE
    for row in range(begin, end):
        latest = max(latest, touched[row])
    return latest


@kernel
def _move(
    beats: Array[i64],
    number: i64,
    others: Array[i32],
    own: Array[i32],
    found: Array[i32],
    other: i64,
) -> None:
    """The bus words of a transfer: those that the `other` unit touched last, then its own."""
    k = number * BEAT_FIELDS
    latest = _NONE
    for block in range(beats[k + 1]):
        for row in range(beats[k + 2]):
            begin = beats[k] + block * beats[k + 5] + row * beats[k + 4]
            for word in range(begin, begin + beats[k + 3]):
                latest = max(latest, others[word])
                own[word] = number
    if latest > found[number * NUM_QUEUES + other]:
        found[number * NUM_QUEUES + other] = latest
