"""One bank of the accumulators: RAM, and the registers before it.

Input: the row to read, the writer and its row, and one cycle later each writer's data. Output: the
row, four cycles after its number.

A bank is dozens of block RAMs that lie far apart on the chip. So two registers lie before them: one
for the route to the bank, and one per slice of the row for the route to the RAMs.
"""

import enum

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import at_most_one, contract
from daedal.hw.family import Platform
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.pipeline import register
from daedal.hw.primitives.replicated import Replicated

__all__ = ["AccumulatorBank", "Writer"]

_SLICE_BITS = 128
"""Bits of a row that share one copy of the control registers: four 36-bit block RAMs."""


class Writer(enum.IntFlag):
    """Who writes a bank in a cycle, one-hot."""

    NONE = 0
    GEMM = 1
    ALU = 2
    FILL = 4


def _slice_columns(columns: int, column_bits: int) -> int:
    """Columns of one slice: a power of two, as `columns` is."""
    return min(columns, 1 << (max(1, _SLICE_BITS // column_bits).bit_length() - 1))


class AccumulatorBank(wiring.Component):
    """`depth` rows of `columns` x `column_bits` bits; a read and a write in every cycle.

    A read sees the writes of previous cycles; reading and writing one row in the same cycle is
    undefined (`RowMemory`).

    Members
    -------
    read_row, read_data : a row's number, and four cycles later the row.
    writer, write_row : who writes (`Writer`) which row. The data follows in the next cycle:
    gemm_data : a whole row. alu_data, fill_data : the columns whose bits of alu_columns,
    fill_columns are set.

    `slices` are the RAMs; a write reaches their ports `BANK_CYCLES` after `writer`.
    """

    def __init__(self, *, depth: int, columns: int, column_bits: int) -> None:
        self._columns, self._column_bits = columns, column_bits
        row, width = In((depth - 1).bit_length()), columns * column_bits
        super().__init__(
            {
                "read_row": row,
                "read_data": Out(width),
                "writer": In(3),
                "write_row": row,
                "gemm_data": In(width),
                "alu_data": In(width),
                "alu_columns": In(columns),
                "fill_data": In(width),
                "fill_columns": In(columns),
            }
        )
        per_slice = _slice_columns(columns, column_bits)
        self.slices = [
            RowMemory(depth=depth, columns=per_slice, column_bits=column_bits)
            for _ in range(columns // per_slice)
        ]

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        num_slices = len(self.slices)
        writer = Replicated(m, platform, self.writer, name="writer")
        read_next = register(m, self.read_row, name="next_read_row")
        write_next = register(m, self.write_row, name="next_write_row")
        read_row = Replicated(m, platform, read_next, name="read_row")
        write_row = Replicated(m, platform, write_next, name="write_row")
        per_slice = self._columns // num_slices
        bits = per_slice * self._column_bits
        outputs = []
        for number, rows in enumerate(self.slices):
            m.submodules[f"slice{number}"] = rows
            gemm, alu, fill = writer.copy_for(number)
            here = write_row.copy_for(number)
            columns = [
                ports.word_select(number, per_slice)
                for ports in (self.alu_columns, self.fill_columns)
            ]
            enable = Signal(per_slice, name=f"enable{number}")
            data = Signal(bits, name=f"data{number}", reset_less=True)
            gemm_data, alu_data, fill_data = (
                row.word_select(number, bits)
                for row in (self.gemm_data, self.alu_data, self.fill_data)
            )
            m.d.sync += [
                enable.eq(Mux(gemm, ~0, 0) | Mux(alu, columns[0], 0) | Mux(fill, columns[1], 0)),
                data.eq(Mux(gemm, gemm_data, Mux(alu, alu_data, fill_data))),
            ]
            m.d.comb += [
                rows.read.enable.eq(1),
                rows.read.row.eq(read_row.copy_for(number)),
                rows.write.enable.eq(enable),
                rows.write.data.eq(data),
                *(rows.write.row[column].eq(here) for column in range(per_slice)),
            ]
            outputs.append(rows.read.data)
        m.d.comb += self.read_data.eq(Cat(outputs))
        contract(m, platform, at_most_one(self.writer), "one unit must write a bank at a time")
        return m
