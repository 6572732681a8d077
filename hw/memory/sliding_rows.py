"""Block RAM that reads three consecutive rows per cycle: `RowMemory` in four banks of rows."""

from amaranth.hdl import Array, Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.pipeline import delay

__all__ = ["SlidingRows"]

_BANK_BITS = 2
_BANKS = 1 << _BANK_BITS
_ROWS = 3


class SlidingRows(wiring.Component):
    """`depth` rows (at least four) of `columns` x `column_bits` bits, row r in bank r % 4.

    Three rows from any one on lie in three banks, so that one read port per bank is enough. No
    more block RAM than for a `RowMemory`, where a bank fills its blocks.

    Members
    -------
    read : `data` is the row of two cycles before, and above it the next two; of rows past the last
        one the first ones instead. What `RowMemory` says about a write in the same cycle holds.
    write : as that of `RowMemory`.
    """

    def __init__(self, *, depth: int, columns: int, column_bits: int) -> None:
        if depth < _BANKS:
            raise ValueError(f"sliding rows need a depth of at least {_BANKS}, not {depth}")
        self._depth = depth
        self._column_bits = column_bits
        row_width = (depth - 1).bit_length()
        width = columns * column_bits
        super().__init__(
            {
                "read": In(scratchpad_read_signature(row_width, _ROWS * width)),
                "write": In(
                    wiring.Signature(
                        {
                            "enable": Out(columns),
                            "row": Out(data.ArrayLayout(row_width, columns)),
                            "data": Out(width),
                        }
                    )
                ),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        columns = len(self.write.enable)
        first, place = self.read.row[:_BANK_BITS], self.read.row[_BANK_BITS:]
        outputs = []
        for number in range(_BANKS):
            bank = RowMemory(
                depth=self._depth // _BANKS, columns=columns, column_bits=self._column_bits
            )
            m.submodules[f"bank{number}"] = bank
            m.d.comb += [
                bank.read.enable.eq(self.read.enable),
                # Banks below the first row's come round again one place further on.
                bank.read.row.eq(place + (first > number)),
                bank.write.data.eq(self.write.data),
            ]
            for column in range(columns):
                row = self.write.row[column]
                m.d.comb += [
                    bank.write.row[column].eq(row[_BANK_BITS:]),
                    bank.write.enable[column].eq(
                        self.write.enable[column] & (row[:_BANK_BITS] == number)
                    ),
                ]
            outputs.append(bank.read.data)
        first = delay(m, first, 2, name="first")
        m.d.comb += self.read.data.eq(
            Cat(
                Array(outputs[(number + k) % _BANKS] for number in range(_BANKS))[first]
                for k in range(_ROWS)
            )
        )
        return m
