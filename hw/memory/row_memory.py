"""Block RAM of wide rows: one read port with a registered output, one write port per column."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.primitives.block_ram import BlockRam

__all__ = ["RowMemory"]


class RowMemory(wiring.Component):
    """`depth` rows of `columns` x `column_bits` bits, each column a RAM of its own.

    A read in the same cycle as a write of the same row returns the old row in simulation. Do not
    depend on it: in FPGA block RAM the result is undefined, and synthesis may drop the logic for
    it.

    Members
    -------
    read : `data` is the row of two cycles before.
    write : columns whose bit of `enable` is set; each column has its own row number. Visible to
        reads from the next cycle on.
    """

    def __init__(self, *, depth: int, columns: int, column_bits: int) -> None:
        self._depth = depth
        self._column_bits = column_bits
        row_width = (depth - 1).bit_length()
        width = columns * column_bits
        super().__init__(
            {
                "read": In(scratchpad_read_signature(row_width, width)),
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
        parts = []
        for number in range(len(self.write.enable)):
            ram = BlockRam(depth=self._depth, width=self._column_bits)
            m.submodules[f"column{number}"] = ram
            m.d.comb += [
                ram.write_enable.eq(self.write.enable[number]),
                ram.write_row.eq(self.write.row[number]),
                ram.write_data.eq(self.write.data.word_select(number, self._column_bits)),
                ram.read_enable.eq(self.read.enable),
                ram.read_row.eq(self.read.row),
            ]
            parts.append(ram.read_data)
        m.d.comb += self.read.data.eq(Cat(parts))
        return m
