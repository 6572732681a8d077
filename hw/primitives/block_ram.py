"""RAM with a registered output: one write port, one read port.

Input: rows to write, numbers of rows to read. Output: a row two cycles after its number.

Synthesis infers ECP5's DP16KD without output registers. Its clock-to-output delay is then 5.8 ns
(speed grade 6), which leaves little of a cycle for routing to a flip-flop. With output registers it
is a fraction of that, and the flip-flops are not needed. So ECP5 gets the cell by name.
docs/hardware.md has the measurements.

Source of widths, ports and registers: Lattice FPGA-TN-02204.
"""

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory as Ram
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Family, Platform

__all__ = ["BlockRam"]

_ADDRESS_BITS = 14
_HALF_BITS = 18

_WIDTHS = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
"""Shapes of one DP16KD: bits of a word, number of words."""

_TABLES_PER_BLOCK = 32
"""Minimum number of 16 x 4 look-up-table memories that a DP16KD must replace, as in Yosys."""


class BlockRam(wiring.Component):
    """`depth` rows of `width` bits, all zero at first.

    Two registers lie between a row's number and the row: the RAM's own, which loads a row if
    `read_enable` is set and otherwise holds, and the output register.

    Members
    -------
    read_enable, read_row : number of a row. If it is written in the same cycle, the portable form
        gives the old row; nothing may depend on that (undefined in FPGA block RAM).
    advance : the output register loads (the default if undriven); otherwise it holds.
    read_data : the output register.
    write_enable, write_row, write_data : visible to reads from the next cycle on.
    """

    def __init__(self, *, depth: int, width: int) -> None:
        self._depth = depth
        row = In((depth - 1).bit_length())
        super().__init__(
            {
                "read_enable": In(1),
                "read_row": row,
                "advance": In(1, init=1),
                "read_data": Out(width),
                "write_enable": In(1),
                "write_row": row,
                "write_data": In(width),
            }
        )

    @property
    def _block_width(self) -> int:
        """Widest word of a DP16KD that has at least the needed rows; 0 if there is none."""
        return next((bits for bits, rows in _WIDTHS if self._depth <= rows), 0)

    def _pays_on_ecp5(self) -> bool:
        """Whether a DP16KD is deep enough, and look-up tables would cost more."""
        if not self._block_width:
            return False
        width = len(self.write_data)
        tables = -(-self._depth // 16) * -(-width // 4)
        return tables >= _TABLES_PER_BLOCK * -(-width // self._block_width)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        if platform is Family.ECP5 and self._pays_on_ecp5():
            self._ecp5(m)
        else:
            self._portable(m)
        return m

    def _portable(self, m: Module) -> None:
        m.submodules.ram = ram = Ram(shape=len(self.write_data), depth=self._depth, init=[])
        write, read = ram.write_port(), ram.read_port()
        output = Signal(len(self.read_data), reset_less=True)
        m.d.comb += [
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_row),
            write.data.eq(self.write_data),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_row),
            self.read_data.eq(output),
        ]
        with m.If(self.advance):
            m.d.sync += output.eq(read.data)

    def _ecp5(self, m: Module) -> None:
        """Blocks side by side."""
        block = self._block_width
        for number, first in enumerate(range(0, len(self.write_data), block)):
            bits = slice(first, first + block)
            data = Signal(2 * _HALF_BITS, name=f"data{number}")
            word = Signal(2 * _HALF_BITS, name=f"word{number}")
            m.d.comb += data.eq(self.write_data[bits])
            m.submodules[f"block{number}"] = self._dp16kd(data, word)
            # Words of 36 bits use the outputs of both ports, narrower ones those of port B alone.
            out = word if block > _HALF_BITS else word[_HALF_BITS:]
            m.d.comb += self.read_data[bits].eq(out)

    def _dp16kd(self, data: Value, word: Value) -> Instance:
        """One DP16KD: port A writes, port B reads; words of 36 bits use the data pins of both."""
        width = self._block_width
        ports: dict[str, Any] = {
            "p_DATA_WIDTH_A": width,
            "p_DATA_WIDTH_B": width,
            # The lower half of a 36-bit word goes through port A's output register.
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
            "i_OCEA": self.advance,
            "i_OCEB": self.advance,
            "i_RSTA": Const(0),
            "i_RSTB": Const(0),
        }
        ports |= {f"i_CS{side}{k}": Const(0) for side in "AB" for k in range(3)}
        # A row's number is aligned to the top address bit. On ports of 18 bits and more, the lowest
        # address bits are the enables of nine-bit bytes.
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
