"""`TransferBeats`: the bus words that a LOAD or a STORE touches."""

import numpy as np
import numpy.typing as npt

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.link.placement.placed import BeatRange
from daedal.isa.instruction import Instruction
from daedal.isa.variant import Variant

__all__ = ["TransferBeats", "entries"]


class TransferBeats:
    """Bus words of the transfers of a variant."""

    def __init__(self, variant: Variant) -> None:
        self._row_beats = machine_cost(variant).transfer_beats

    def of(self, instruction: Instruction, base: int = 0) -> BeatRange | None:
        """The words of a LOAD or STORE in region `base`; None if it loads nothing but pads."""
        get = instruction.values.get
        blocks, rows, cols = get("blocks", 0), get("rows", 0), get("cols", 0)
        if not blocks * rows * cols:
            return None
        beats = cols * self._row_beats[instruction.opcode, get("memory", 0)]
        strides = get("row_stride_beats", 0), get("block_stride_beats", 0)
        return BeatRange(base, get("offset_beats", 0), blocks, rows, beats, *strides)


def entries(table: npt.NDArray[np.int32], beats: BeatRange) -> npt.NDArray[np.int32]:
    """A writable view (blocks, rows, cols) of the entries of a table that has one for each word."""
    _, offset, blocks, rows, cols, row_stride, block_stride = beats
    assert offset >= 0 and beats.end <= len(table), (
        f"{beats} leaves its region of {len(table)} beats"
    )
    step = table.itemsize
    return np.ndarray(
        (blocks, rows, cols),
        table.dtype,
        table,
        offset * step,
        (block_stride * step, row_stride * step, step),
    )
