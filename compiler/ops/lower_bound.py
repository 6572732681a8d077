"""`least_cycles`: a lower bound on the cycles of schedules, proved from the work of each unit.

Input: for an array of schedules, what each unit has to do at least (`Work`), the variant and the
memory. Output: cycles that no run of them can undercut. Nothing is fitted.

The proof. A program's first instruction arrives one read latency after the start, and the first
data another one later. The first product needs the operands of one step; the first vector
operation needs the products of one tile; the first store needs a vector. After the last product,
the last tile has still to be processed by the ALU, written, and acknowledged by the memory. Each
unit takes one product, vector step or beat per cycle. So for each unit: cycles before its first
work, plus all its work, plus cycles after its last.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["Work", "least_cycles"]

Amounts = npt.NDArray[np.float64]
"""One amount for each schedule."""


@dataclass(frozen=True)
class Work:
    """What the units do at least, one value for each schedule.

    Parameters
    ----------
    products : cycles of GEMM.
    vectors : cycles of the ALU.
    read, written : bytes of data.
    instructions : instructions fetched.
    first_read : bytes read before the first product, or before the first vector operation where
        there are no products.
    first_products : cycles of GEMM before the first vector operation.
    last_vectors : cycles of the ALU after the last product.
    last_written : bytes written after the last vector operation.
    """

    products: Amounts
    vectors: Amounts
    read: Amounts
    written: Amounts
    instructions: Amounts
    first_read: Amounts
    first_products: Amounts
    last_vectors: Amounts
    last_written: Amounts

    @classmethod
    def of(cls, count: int, **amounts: npt.ArrayLike) -> "Work":
        """Of `count` schedules; an amount may be one number for all of them."""
        return cls(
            **{
                name: np.broadcast_to(np.asarray(amount, np.float64), (count,))
                for name, amount in amounts.items()
            }
        )


def least_cycles(work: Work, variant: Variant, memory: MemoryModel) -> Amounts:
    """A lower bound on the cycles of each schedule."""
    beat = memory.beat_cycles / variant.bus_bytes
    start = 2 * memory.read_latency_cycles
    end = work.last_written * beat + memory.write_latency_cycles
    computing = start + work.first_read * beat
    multiplying = computing + work.products + work.last_vectors + end
    vectors = computing + work.first_products + work.vectors + end
    fetched = work.instructions * instruction_bytes(variant)
    if memory.shared_bus:
        data = start + (work.read + work.written) * beat + memory.write_latency_cycles
        every = memory.read_latency_cycles + (work.read + work.written + fetched) * beat
    else:
        read = start + work.read * beat
        data = np.maximum(read, start + work.written * beat) + memory.write_latency_cycles
        every = memory.read_latency_cycles + (work.read + fetched) * beat
    least: Amounts = np.maximum.reduce([multiplying, vectors, data, every])
    return least
