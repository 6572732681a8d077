"""DP16KD by name, with its output registers: `RowMemory`'s columns on ECP5.

Synthesis infers DP16KD without output registers. Their outputs then come 5.8 ns after the clock
(speed grade 6), which leaves little of a cycle for the way to a flip-flop. From output registers
it is a fraction of that, and the flip-flops are not needed. docs/hardware.md has the measurements.

Source of widths, ports and registers: Lattice FPGA-TN-02204.
"""

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Ecp5BlockRam"]

_ADDRESS_BITS = 14
_HALF_BITS = 18

_WIDTHS = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
"""Bits of a word, and words, of one block."""

_TABLES_PER_BLOCK = 32
"""16 x 4 memories of look-up tables that a block must replace: Yosys weighs them so."""


class Ecp5BlockRam(wiring.Component):
    """`depth` rows of `width` bits, all zero at first, in DP16KD side by side.

    Members
    -------
    read_enable, read_row, read_data : the row of two cycles before, where `read_enable` was set;
        else the row before that. Undefined if it was written in the cycle in which it was read.
    write_enable, write_row, write_data : visible to reads from the next cycle on.
    """

    def __init__(self, *, depth: int, width: int) -> None:
        self._depth = depth
        address = In((depth - 1).bit_length())
        super().__init__(
            {
                "read_enable": In(1),
                "read_row": address,
                "read_data": Out(width),
                "write_enable": In(1),
                "write_row": address,
                "write_data": In(width),
            }
        )

    @staticmethod
    def _block_width(depth: int) -> int:
        """Widest word of a block with so many rows; 0 where there is none."""
        return next((bits for bits, rows in _WIDTHS if depth <= rows), 0)

    @staticmethod
    def suits(depth: int, width: int) -> bool:
        """Whether one row of blocks is deep enough, and look-up tables would take more."""
        block = Ecp5BlockRam._block_width(depth)
        if not block:
            return False
        tables = -(-depth // 16) * -(-width // 4)
        return tables >= _TABLES_PER_BLOCK * -(-width // block)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        block = self._block_width(self._depth)
        for number, first in enumerate(range(0, len(self.write_data), block)):
            bits = slice(first, first + block)
            data = Signal(2 * _HALF_BITS, name=f"data{number}")
            word = Signal(2 * _HALF_BITS, name=f"word{number}")
            m.d.comb += data.eq(self.write_data[bits])
            m.submodules[f"block{number}"] = self._block(block, data, word)
            # Words of 36 bits come out of both halves, narrower ones of port B alone.
            out = word if block > _HALF_BITS else word[_HALF_BITS:]
            m.d.comb += self.read_data[bits].eq(out)
        return m

    def _block(self, width: int, data: Value, word: Value) -> Instance:
        """One DP16KD: port A writes, port B reads; words of 36 bits take the pins of both."""
        ports: dict[str, Any] = {
            "p_DATA_WIDTH_A": width,
            "p_DATA_WIDTH_B": width,
            # Of a 36-bit word, the lower half passes the output register of port A.
            "p_REGMODE_A": "OUTREG",
            "p_REGMODE_B": "OUTREG",
            "p_CSDECODE_A": "0b000",
            "p_CSDECODE_B": "0b000",
            "p_RESETMODE": "SYNC",
            "p_ASYNC_RESET_RELEASE": "SYNC",
            "p_GSR": "DISABLED",
            "i_CLKA": ClockSignal(),
            "i_CLKB": ClockSignal(),
            "i_CEA": self.write_enable,
            "i_CEB": self.read_enable,
            "i_WEA": Const(1),
            "i_WEB": Const(0),
            "i_OCEA": Const(1),
            "i_OCEB": Const(1),
            "i_RSTA": Const(0),
            "i_RSTB": Const(0),
        }
        ports |= {f"i_CS{side}{k}": Const(0) for side in "AB" for k in range(3)}
        # A row's number ends at the top bit. Below it, ports of 18 bits and more take the enables
        # of their bytes, of nine bits each.
        skipped = {36: 5, 18: 4, 9: 3, 4: 2, 2: 1, 1: 0}[width]
        enables = {36: 0b1111, 18: 0b11}.get(width, 0)
        write, read = (
            Cat(Const(enables, skipped), self.write_row),
            Cat(Const(0, skipped), self.read_row),
        )
        for side, address in (("A", write), ("B", read)):
            used = [address[k] if k < len(address) else Const(0) for k in range(_ADDRESS_BITS)]
            ports |= {f"i_AD{side}{k}": bit for k, bit in enumerate(used)}
        for k in range(_HALF_BITS):
            ports |= {
                f"i_DIA{k}": data[k],
                f"i_DIB{k}": data[_HALF_BITS + k],
                f"o_DOA{k}": word[k],
                f"o_DOB{k}": word[_HALF_BITS + k],
            }
        return Instance("DP16KD", **ports)
