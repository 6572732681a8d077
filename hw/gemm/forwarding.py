"""GEMM's accumulation: read-modify-write of accumulator rows, with forwarding of sums in flight.

Input: which rows are read, and the sums of the products. Output: the rows' new values.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from daedal.hw.contracts import at_most_one, contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.latencies import (
    ACC_READ_CYCLES,
    ACC_READ_TO_SUM_CYCLES,
    ACC_READ_TO_WRITE_CYCLES,
    GEMM_AHEAD_CYCLES,
)

__all__ = ["Accumulation"]

_SLICES = 4
"""Slices of a row; each has its own copy of the forwarding mux's select bits."""


class Accumulation:
    """Reads, adds and writes rows; the logic is added to GEMM's own module.

    With the read in cycle 0 and its data in cycle r (`ACC_READ_CYCLES`): 0 compare with the rows of
    the previous products; 1 choose the nearest match at distance 2 or more; r data arrives,
    register; r + 1 forwarding mux, register; r + 2 write, and add (distance 1 takes the result
    register itself), register; r + 3 the result is the data of that write. A read sees writes up to
    the previous cycle, so products at distance r + 3 or more are already in the RAM.

    Parameters
    ----------
    m : module to add to. platform : of the elaboration.
    read, write : GEMM's ports of the accumulators, `gemm_read` and `gemm_write` of
        `interfaces.accumulator_ports`.
    bits : width of an element.
    """

    def __init__(self, m: Module, platform: Platform, *, read: Any, write: Any, bits: int) -> None:
        _check_latencies()
        self._m, self._platform = m, platform
        self._read, self._write, self._bits = read, write, bits

    def add(self, *, valid: Value, row: Value, restart: Value, totals: list[Value]) -> None:
        """Add the sums of products; to be called once.

        Parameters
        ----------
        valid, row : announce a read, `GEMM_AHEAD_CYCLES` before it.
        restart : in the cycle of the read, the product overwrites its row.
        totals : signed addends, one per element of a row, `ACC_READ_TO_SUM_CYCLES` after the read.
        """
        m, write = self._m, self._write
        valids, rows = self._announce(valid, row)
        match, nearest = self._compare(valids, rows, restart)
        result = Signal(len(write.data), name="result", reset_less=True)
        operand = self._operand(match, nearest, result, min(len(totals), _SLICES))
        m.d.sync += result.eq(
            Cat(
                (operand.word_select(k, self._bits).as_signed() + total)[: self._bits]
                for k, total in enumerate(totals)
            )
        )
        m.d.comb += [
            write.enable.eq(valids[-1 - GEMM_AHEAD_CYCLES]),
            write.row.eq(rows[-1 - GEMM_AHEAD_CYCLES]),
            write.data.eq(result),
        ]

    def _announce(self, valid: Value, row: Value) -> tuple[list[Value], list[Value]]:
        """Read a row; return (products, their rows), by their age since the read."""
        m, read = self._m, self._read
        m.d.comb += [read.enable.eq(valid), read.row.eq(row)]
        valids: list[Value] = [register(m, valid, name="reads", reset_less=False)]
        rows: list[Value] = [register(m, row, name="read_row")]
        for age in range(1, ACC_READ_TO_WRITE_CYCLES + 1):
            valids.append(register(m, valids[-1], name=f"write_valid_{age}", reset_less=False))
            rows.append(register(m, rows[-1], name=f"write_row_{age}"))
        return valids, rows

    def _compare(
        self, valids: list[Value], rows: list[Value], restart: Value
    ) -> tuple[Value, Value]:
        """Return (which previous products have this row, the nearest source of the row).

        Bit d - 1 of the first is the product at distance d. Bit 0 of the second: the row from the
        RAM; bit d - 1: forward from the product at distance d. No bit is set where the product
        overwrites.
        """
        m, row = self._m, rows[0]
        distances = range(1, ACC_READ_TO_WRITE_CYCLES + 1)
        match = Signal(len(distances), reset_less=True)
        m.d.sync += match.eq(Cat(valids[d] & (rows[d] == row) & ~restart for d in distances))
        nearest = Signal(ACC_READ_TO_WRITE_CYCLES, reset_less=True)
        fresh = register(m, restart, name="restart_match")
        m.d.sync += nearest.eq(
            Cat(
                ~fresh & ~match[1:].any(),
                *(match[d] & ~match[1:d].any() for d in range(1, ACC_READ_TO_WRITE_CYCLES)),
            )
        )
        return match, nearest

    def _operand(self, match: Value, nearest: Value, result: Signal, slices: int) -> Signal:
        """The row as the previous product leaves it, `ACC_READ_TO_SUM_CYCLES` after its read.

        An AND-OR mux: each slice of the elements has its own copy of the select bits.
        """
        m, platform = self._m, self._platform
        sources: list[Value] = [register(m, self._read.data, name="stored"), result]
        for age in range(1, ACC_READ_TO_WRITE_CYCLES - 1):
            sources.append(register(m, sources[-1], name=f"result_{age}"))
        choice_next = delay(m, nearest, ACC_READ_CYCLES - 2, name="choice")
        contract(m, platform, at_most_one(nearest), "one source of a row must be chosen")
        choice = Replicated(m, platform, choice_next, name="slice_choice")
        again_next = delay(m, match[0], ACC_READ_CYCLES, name="again")
        again = Replicated(m, platform, again_next, name="slice_again")
        bits = len(result) // slices
        operands, addends = [], []
        for number in range(slices):
            chosen = [
                Mux(choice.copy_for(number)[k], source.word_select(number, bits), 0)
                for k, source in enumerate(sources)
            ]
            operands.append(register(m, reduce(or_, chosen), name=f"operand_{number}"))
            own_result = result.word_select(number, bits)
            addends.append(Mux(again.copy_for(number), own_result, operands[number]))
        addend = Signal(len(result))
        m.d.comb += addend.eq(Cat(addends))
        return addend


def _check_latencies() -> None:
    """Check that row, sum and write of a product meet at the addition."""
    require_at_elaboration(
        ACC_READ_TO_SUM_CYCLES == ACC_READ_CYCLES + 2,
        "a product must be added when its row is there: ACC_READ_TO_SUM_CYCLES must be "
        "ACC_READ_CYCLES and two registers",
    )
    require_at_elaboration(
        ACC_READ_TO_WRITE_CYCLES == ACC_READ_TO_SUM_CYCLES,
        "a row must be written when its sum is there: ACC_READ_TO_WRITE_CYCLES must be "
        "ACC_READ_TO_SUM_CYCLES",
    )
