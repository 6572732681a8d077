"""Micro-ops: their encoding, and the row numbers that an instruction computes from them.

`expand` is the definition of the hardware loops: row = base + micro-op field + sum of loop index
times factor, loop 0 outermost, the micro-op sequence innermost. The base makes a sequence
relocatable: one copy serves a tile at any position.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction, reads_destination
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import EXTENTS, LOOPS, GemmMode, OutMemory, Unit, micro_op_layout
from daedal.isa.variant import Variant

__all__ = ["Expansion", "UopArray", "decode_uops", "encode_uops", "expand", "row_limits"]

UopArray = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Expansion:
    """Row numbers of every product or vector of an instruction, in order: arrays of one length.

    `rows` is keyed by micro-op field (acc, inp, wgt or dst, src, par); `restart` marks the
    products that overwrite (GEMM only, else all False).
    """

    rows: Mapping[str, IntArray]
    restart: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.restart)


def encode_uops(variant: Variant, unit: Unit, fields: Mapping[str, npt.ArrayLike]) -> UopArray:
    """Pack columns of micro-op fields (each of length n) into n 64-bit words.

    Raises ProgramError for a value that its field cannot hold.
    """
    layout = micro_op_layout(variant, unit)
    columns = {name: np.asarray(column, dtype=np.int64) for name, column in fields.items()}
    length = max((column.size for column in columns.values()), default=0)
    words = np.zeros(length, dtype=np.uint64)
    for name, column in columns.items():
        item = layout.get(name)
        if item is None:
            raise ProgramError(f"a micro-op of {unit.name} has no field {name!r}")
        if column.size and (column.min() < 0 or column.max() >> item.width):
            offender = int(column.max() if column.max() >> item.width else column.min())
            raise ProgramError(
                f"micro-op field {unit.name}.{name} must be 0 to {(1 << item.width) - 1}, "
                f"not {offender}"
            )
        words |= column.astype(np.uint64) << np.uint64(item.offset)
    return words


def decode_uops(variant: Variant, unit: Unit, words: UopArray) -> dict[str, IntArray]:
    """Unpack 64-bit words into columns of micro-op fields; unused bits are ignored."""
    return {
        name: (words >> np.uint64(item.offset)).astype(np.int64) & ((1 << item.width) - 1)
        for name, item in micro_op_layout(variant, unit).items()
    }


def row_limits(variant: Variant, instruction: Instruction) -> dict[str, int]:
    """For each micro-op field of the instruction's unit, the number of rows (or vectors).

    A field that names the first of several rows has a lower limit, so that the last row exists.
    """
    if instruction.unit is Unit.GEMM:
        mode = GemmMode(instruction.mode)
        taps = mode.taps
        vectors = variant.array.block_out if taps else 1
        return {
            "acc": scratchpad(variant, Memory.ACC).depth_rows,
            "inp": scratchpad(variant, mode.operand).depth_rows - max(0, taps - 1),
            "wgt": scratchpad(variant, Memory.WGT).depth_rows * vectors,
        }
    # The register form reads ACC[dst], whichever memory it writes.
    targets = {OutMemory(instruction.destination).memory}
    if reads_destination(instruction):
        targets.add(Memory.ACC)
    return {
        "dst": min(scratchpad(variant, memory).depth_rows for memory in targets),
        "src": scratchpad(variant, Memory.ACC).depth_rows,
        "par": scratchpad(variant, Memory.PAR).depth_rows,
    }


def expand(variant: Variant, instruction: Instruction, words: UopArray) -> Expansion:
    """Row numbers of a GEMM or ALU instruction, given its unit's micro-op memory `words`.

    Raises ProgramError where a row number is outside its scratchpad. An instruction without steps
    does nothing, whatever micro-ops and rows it names.
    """
    unit = instruction.unit
    begin, end = instruction.uop_begin, instruction.uop_end
    if not instruction.steps:
        nothing = {name: np.zeros(0, dtype=np.int64) for name in row_limits(variant, instruction)}
        return Expansion(nothing, np.zeros(0, dtype=bool))
    if end > len(words):
        raise ProgramError(
            f"{unit.name}.uop_end must be at most {len(words)}, the micro-op memory, not {end}"
        )
    columns = decode_uops(variant, unit, words[begin:end])
    extents = [getattr(instruction, name) for name in EXTENTS]
    rows = {}
    for name, limit in row_limits(variant, instruction).items():
        flat = getattr(instruction, f"{name}_base") + columns[name]
        for level in reversed(range(LOOPS)):  # the first loop is the outermost
            if extents[level] != 1:
                factor = getattr(instruction, f"{name}_factor{level}")
                steps = np.arange(extents[level], dtype=np.int64) * factor
                flat = np.add.outer(steps, flat).reshape(-1)
        if flat.size and flat.max() >= limit:
            raise ProgramError(
                f"{unit.name}.{name} must stay below {limit} rows, not reach {int(flat.max())}"
            )
        rows[name] = flat
    if unit is Unit.GEMM:
        _check_vectors(variant, GemmMode(instruction.mode), rows["wgt"])
    restart = np.zeros((*extents, end - begin), dtype=bool)
    if unit is Unit.GEMM and instruction.overwrite:
        restart[...] = columns["first"].astype(bool)
        for level in range(LOOPS):
            if getattr(instruction, f"acc_factor{level}") == 0:
                restart &= (np.arange(extents[level]) == 0).reshape((-1,) + (1,) * (LOOPS - level))
    return Expansion(rows, restart.reshape(-1))


def _check_vectors(variant: Variant, mode: GemmMode, wgt: IntArray) -> None:
    """Raise ProgramError where the vectors of a product are not all in one weight row."""
    last = wgt % variant.array.block_out + mode.taps - 1
    if mode.taps and last.size and last.max() >= variant.array.block_out:
        offender = int(wgt[np.argmax(last)])
        raise ProgramError(
            f"GEMM.wgt must name {mode.taps} vectors of one weight row of "
            f"{variant.array.block_out}, not vector {offender} and those after it"
        )
