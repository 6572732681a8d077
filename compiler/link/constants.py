"""Constants as the machine reads them: weights and parameters to bytes."""

import numpy as np
import numpy.typing as npt

from daedal.isa.elements import to_memory
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["parameter_bytes", "weight_bytes"]


def weight_bytes(variant: Variant, weights: npt.NDArray[np.integer]) -> bytes:
    """Weights (..., block_out, block_in), integers of `weight_bits`, as rows of the scratchpad."""
    rows = weights.astype(np.int64).reshape(-1, variant.array.block_out * variant.array.block_in)
    return to_memory(rows, variant.array.weight_bits).tobytes()


def parameter_bytes(variant: Variant, params: npt.NDArray[np.integer]) -> bytes:
    """Parameters (rows, block_out, 3): bias, multiplier and shift packed into one entry each."""
    acc_bits, m_bits = variant.array.accumulator_bits, variant.units.multiplier_bits
    size = scratchpad(variant, Memory.PAR).memory_bits // 8
    data = bytearray()
    for bias, multiplier, shift in params.reshape(-1, 3).tolist():
        assert 0 <= multiplier < 1 << m_bits and 0 <= shift < 64, (multiplier, shift)
        entry = (
            (bias & ((1 << acc_bits) - 1)) | multiplier << acc_bits | shift << (acc_bits + m_bits)
        )
        data += entry.to_bytes(size, "little")
    return bytes(data)
