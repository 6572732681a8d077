"""Converts constants (maps, weights, parameters) to bytes in the machine's format."""

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.vectors import group_pitch, num_rows
from daedal.isa.elements import to_memory
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS, TABLE_ENTRY_BITS, Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["map_bytes", "parameter_bytes", "table_bytes", "weight_bytes"]


def map_bytes(blocked: npt.NDArray[np.integer], bits: int) -> bytes:
    """A map (..., batch, block) of integers of `bits`, as rows of the scratchpad."""
    rows = blocked.astype(np.int64).reshape(-1, blocked.shape[-2] * blocked.shape[-1])
    return to_memory(rows, bits).tobytes()


def table_bytes(entries: npt.NDArray[np.integer]) -> bytes:
    """A table, its entries in the order of the machine."""
    return to_memory(entries.astype(np.int64).reshape(1, -1), TABLE_ENTRY_BITS).tobytes()


def weight_bytes(
    variant: Variant, weights: npt.NDArray[np.integer], *, narrow: bool = False
) -> bytes:
    """Weights, integers of `weight_bits`, as rows of the scratchpad.

    Parameters
    ----------
    narrow : with 4 bits, as LOAD expands them.
    weights : (..., block_out, block_in), or (..., taps, block_in) of a depthwise mode, whose groups
        of channel vectors are put into whole rows (`daedal.compiler.codegen.vectors`).
    """
    array = variant.array
    values = weights.astype(np.int64)
    taps = values.shape[-2]
    if taps != array.block_out:
        groups = values.reshape(-1, taps, array.block_in)
        pitch = group_pitch(taps)
        slots = num_rows(len(groups), taps, array.block_out) * array.block_out // pitch
        values = np.zeros((slots, pitch, array.block_in), dtype=np.int64)
        values[: len(groups), :taps] = groups
    rows = values.reshape(-1, array.block_out * array.block_in)
    return to_memory(rows, NARROW_WEIGHT_BITS if narrow else array.weight_bits).tobytes()


def parameter_bytes(variant: Variant, params: npt.NDArray[np.integer]) -> bytes:
    """Parameters (rows, block_out, 3): bias, multiplier and shift packed into one entry each."""
    acc_bits, m_bits = variant.array.accumulator_bits, variant.units.multiplier_bits
    size = scratchpad(variant, Memory.PAR).memory_bits // 8
    data = bytearray()
    for bias, multiplier, shift in params.reshape(-1, 3).tolist():
        assert 0 <= multiplier < 1 << m_bits and 0 <= shift < 64, (multiplier, shift)
        assert -1 << (acc_bits - 1) <= bias < 1 << (acc_bits - 1), bias
        entry = (
            (bias & ((1 << acc_bits) - 1)) | multiplier << acc_bits | shift << (acc_bits + m_bits)
        )
        data += entry.to_bytes(size, "little")
    return bytes(data)
