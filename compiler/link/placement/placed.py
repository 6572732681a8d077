"""`PlacedInstruction`: an instruction with the rows and bus words it touches.

They are named tuples for speed: a network has a hundred thousand of them.
"""

from typing import NamedTuple

from daedal.compiler.codegen.segment import Runs
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit

__all__ = ["BeatRange", "PlacedInstruction", "PlacedRows"]


class PlacedRows(NamedTuple):
    """Rows of a scratchpad that an instruction reads, writes, or both.

    Parameters
    ----------
    first : the row from which `runs` count. These are the same objects in many instructions.
    """

    memory: Memory
    first: int
    runs: Runs
    reads: bool
    writes: bool


class BeatRange(NamedTuple):
    """Bus words of a region: `blocks` times `rows` runs of `cols` beats, `stride`s apart."""

    base: int
    offset: int
    blocks: int
    rows: int
    cols: int
    row_stride: int
    block_stride: int

    @property
    def end(self) -> int:
        """One past the last word."""
        last = (self.blocks - 1) * self.block_stride + (self.rows - 1) * self.row_stride
        return self.offset + last + self.cols


class PlacedInstruction(NamedTuple):
    """One instruction of the program, before tokens are inserted.

    Parameters
    ----------
    layer : number of its segment.
    tensor : what a LOAD or STORE moves; offset_beats is relative to it until memory is planned.
    beats : the memory it touches, if that is ever written; None before memory is planned.
    """

    instruction: Instruction
    layer: int
    rows: tuple[PlacedRows, ...]
    tensor: str | None = None
    beats: BeatRange | None = None

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return self.instruction.unit
