"""What VTA instructions do, with micro-ops evaluated: moves, products and vector operations.

Meaning is sequential. Rows of VTA's output buffer do not appear: a STORE takes the low 8 bits of
accumulator rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from daedal.isa.numerics import IntArray
from daedal.isa.table import AluOp, OutMemory
from daedal.isa.vta.stream import VtaMemory

__all__ = [
    "Move",
    "Multiply",
    "Nest",
    "Operation",
    "Vector",
    "acc_reads",
    "acc_writes",
    "listed",
]


@dataclass(frozen=True)
class Nest:
    """Two loops (outer, inner) around a micro-op sequence.

    `factors` and `uops` are keyed by the row fields of our micro-ops; `factors` are per step of the
    outer and the inner loop.
    """

    extents: tuple[int, int]
    factors: Mapping[str, tuple[int, int]]
    uops: Mapping[str, IntArray]

    @property
    def num_uops(self) -> int:
        """Length of the micro-op sequence."""
        return len(next(iter(self.uops.values())))

    def __len__(self) -> int:
        return self.extents[0] * self.extents[1] * self.num_uops

    def rows(self, name: str) -> IntArray:
        """Row numbers in the order of execution."""
        outer, inner = (np.arange(extent, dtype=np.int64) for extent in self.extents)
        first, second = self.factors[name]
        steps = outer[:, None] * first + inner * second
        return (steps[:, :, None] + self.uops[name]).reshape(-1)

    def part(self, outer: slice, inner: slice, uops: slice) -> "Nest":
        """The given iterations as a separate nest; the slices have bounds and no steps."""
        return Nest(
            (outer.stop - outer.start, inner.stop - inner.start),
            self.factors,
            {
                name: column[uops]
                + (outer.start * self.factors[name][0] + inner.start * self.factors[name][1])
                for name, column in self.uops.items()
            },
        )


def listed(**rows: IntArray) -> Nest:
    """A nest that runs once through explicit rows."""
    return Nest((1, 1), dict.fromkeys(rows, (0, 0)), rows)


@dataclass(frozen=True)
class Move:
    """LOAD or STORE of `y` times `x` elements, `stride` elements apart in memory.

    Parameters
    ----------
    memory : where a LOAD goes; OUT for a STORE.
    pads : elements of zero before and after all rows, and before and after each of them.
    address : byte address of the first element; unused where `y` is 0.
    """

    store: bool
    memory: VtaMemory
    row: int
    y: int
    x: int
    stride: int
    address: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def width(self) -> int:
        """Scratchpad rows that one row of the move fills."""
        return self.x + self.pads[2] + self.pads[3]

    @property
    def num_rows(self) -> int:
        """Scratchpad rows touched, dense from `row` on."""
        return (self.y + self.pads[0] + self.pads[1]) * self.width

    @property
    def end(self) -> int:
        """Address past the last byte touched."""
        if self.y == 0:
            return self.address
        return self.address + ((self.y - 1) * self.stride + self.x) * self.memory.element_bytes


@dataclass(frozen=True)
class Multiply:
    """Products; the nest holds acc, inp and wgt.

    With `first`, one flag per micro-op, flagged products overwrite as our GEMM does.
    """

    nest: Nest
    first: IntArray | None = None


@dataclass(frozen=True)
class Vector:
    """A vector operation of our ALU; the nest holds dst and src.

    A MUL multiplies 32-bit numbers here; results to OUT are truncated.
    """

    operation: AluOp
    nest: Nest
    immediate: int | None = None
    destination: OutMemory = field(default=OutMemory.ACC)

    @property
    def reads_destination(self) -> bool:
        """Whether it is of the register form ``dst = op(dst, src)``."""
        return self.immediate is None


Operation = Move | Multiply | Vector

_NONE = np.zeros(0, dtype=np.int64)
_ACC = (VtaMemory.ACC, VtaMemory.ACC_8BIT, VtaMemory.OUT)


def acc_reads(operation: Operation) -> IntArray:
    """Accumulator rows read, in any order and perhaps repeated."""
    if isinstance(operation, Multiply):
        return operation.nest.rows("acc") if operation.first is None else _NONE
    if isinstance(operation, Vector):
        if operation.operation is AluOp.MOV and operation.immediate is not None:
            return _NONE
        source = operation.nest.rows("src")
        if operation.reads_destination:
            return np.concatenate([source, operation.nest.rows("dst")])
        return source
    return _moved(operation) if operation.store else _NONE


def acc_writes(operation: Operation) -> IntArray:
    """Accumulator rows written, in any order and perhaps repeated."""
    if isinstance(operation, Multiply):
        return operation.nest.rows("acc")
    if isinstance(operation, Vector):
        return operation.nest.rows("dst") if operation.destination is OutMemory.ACC else _NONE
    return _NONE if operation.store else _moved(operation)


def _moved(move: Move) -> IntArray:
    if move.memory not in _ACC:
        return _NONE
    return np.arange(move.row, move.row + move.num_rows, dtype=np.int64)
