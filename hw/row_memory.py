"""Block RAM of wide rows: one read port with a registered output, one write port by columns."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory as Ram
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.primitives.ecp5_block_ram import Ecp5BlockRam
from daedal.hw.synth.families import Family

__all__ = ["RowMemory"]


class RowMemory(wiring.Component):
    """`depth` rows of `columns` x `column_bits` bits, each column a RAM of its own.

    A read in the cycle of a write of the same row gives the old row in simulation and must not be
    depended on: synthesis may drop the logic for it (FPGA block RAM leaves the result open).

    Members
    -------
    read : `data` is the row of two cycles before.
    write : columns whose bit of `enable` is set, each of a row of its own; visible to reads from
        the next cycle on.
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

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if platform is Family.ECP5 and Ecp5BlockRam.suits(self._depth, self._column_bits):
            self._blocks(m)
        else:
            self._portable(m)
        return m

    def _portable(self, m: Module) -> None:
        parts = []
        for number in range(len(self.write.enable)):
            ram = Ram(shape=self._column_bits, depth=self._depth, init=[])
            m.submodules[f"column{number}"] = ram
            write, read = ram.write_port(), ram.read_port()
            m.d.comb += [
                write.en.eq(self.write.enable[number]),
                write.addr.eq(self.write.row[number]),
                write.data.eq(self.write.data.word_select(number, self._column_bits)),
                read.en.eq(self.read.enable),
                read.addr.eq(self.read.row),
            ]
            parts.append(read.data)
        output = Signal(len(self.read.data), reset_less=True)
        m.d.sync += output.eq(Cat(parts))
        m.d.comb += self.read.data.eq(output)

    def _blocks(self, m: Module) -> None:
        """The same in ECP5's block RAM, which has the output registers inside."""
        for number in range(len(self.write.enable)):
            ram = Ecp5BlockRam(depth=self._depth, width=self._column_bits)
            m.submodules[f"column{number}"] = ram
            m.d.comb += [
                ram.write_enable.eq(self.write.enable[number]),
                ram.write_row.eq(self.write.row[number]),
                ram.write_data.eq(self.write.data.word_select(number, self._column_bits)),
                ram.read_enable.eq(self.read.enable),
                ram.read_row.eq(self.read.row),
                self.read.data.word_select(number, self._column_bits).eq(ram.read_data),
            ]
