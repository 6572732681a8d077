"""On-chip memory in banks of block RAM: bus words with a write strobe for each byte."""

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.pipeline import register
from daedal.hw.primitives.block_ram import BlockRam

__all__ = ["BANK_WORDS", "READ_LATENCY_CYCLES", "BlockMemory"]

BANK_WORDS = 2048
"""Words of a bank: one byte of each fills one DP16KD (2,048 x 9). Source: Lattice FPGA-TN-02204."""

READ_LATENCY_CYCLES = 5
"""Latency from a read to its word: two request registers, RAM, RAM output register, bank mux."""


class BlockMemory(wiring.Component):
    """Words from address 0 on, zero at first; a read and a write in each cycle.

    Every register-to-register path passes at most one mux, whatever the size. A write is visible to
    reads of later cycles; a read in the same cycle as a write of the same word returns an undefined
    word. Addresses from `num_words` on must not be used.

    Parameters
    ----------
    num_words
        A multiple of `BANK_WORDS`.
    word_bytes
        Bytes of a word.

    Members
    -------
    read : `enable` and `address`; `data` follows after `READ_LATENCY_CYCLES`.
    write : `enable` has a bit for each byte.
    """

    def __init__(self, *, num_words: int, word_bytes: int) -> None:
        if num_words < 1 or num_words % BANK_WORDS:
            raise ValueError(f"num_words must be a multiple of {BANK_WORDS}, not {num_words!r}")
        self._num_banks = num_words // BANK_WORDS
        self._word_bytes = word_bytes
        address = range(num_words)
        super().__init__(
            {
                "read": In(
                    wiring.Signature(
                        {"enable": Out(1), "address": Out(address), "data": In(8 * word_bytes)}
                    )
                ),
                "write": In(
                    wiring.Signature(
                        {
                            "enable": Out(word_bytes),
                            "address": Out(address),
                            "data": Out(8 * word_bytes),
                        }
                    )
                ),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        bank_bits = (BANK_WORDS - 1).bit_length()
        # The first register of a request is near what chooses it, the second near the banks, which
        # may be anywhere on the chip.
        read_address, read_enable = (
            register(m, value, name=name)
            for name, value in (
                ("read_address", self.read.address),
                ("read_enable", self.read.enable),
            )
        )
        write_address, write_enable, word = (
            register(m, value, name=name)
            for name, value in (
                ("write_address", self.write.address),
                ("write_enable", self.write.enable),
                ("word", self.write.data),
            )
        )
        read_row = register(m, read_address[:bank_bits], name="read_row")
        write_row = register(m, write_address[:bank_bits], name="write_row")
        write_data = register(m, word, name="write_data")
        words = []
        for number in range(self._num_banks):
            reading = Signal(name=f"reading{number}", reset_less=True)
            writing = Signal(self._word_bytes, name=f"writing{number}", reset_less=True)
            here = read_address[bank_bits:] == number
            with m.If(write_address[bank_bits:] == number):
                m.d.sync += writing.eq(write_enable)
            with m.Else():
                m.d.sync += writing.eq(0)
            m.d.sync += reading.eq(read_enable & here)
            parts = []
            for lane in range(self._word_bytes):
                ram = BlockRam(depth=BANK_WORDS, width=8)
                m.submodules[f"bank{number}_{lane}"] = ram
                m.d.comb += [
                    ram.write_enable.eq(writing[lane]),
                    ram.write_row.eq(write_row),
                    ram.write_data.eq(write_data.word_select(lane, 8)),
                    ram.read_enable.eq(reading),
                    ram.read_row.eq(read_row),
                ]
                parts.append(ram.read_data)
            words.append(Cat(parts))
        self._choose(m, words)
        return m

    def _choose(self, m: Module, words: list[Value]) -> None:
        """The word of the bank that was read, two cycles after its RAM."""
        bank = self.read.address[(BANK_WORDS - 1).bit_length() :]
        for stage in range(READ_LATENCY_CYCLES - 1):
            later = Signal.like(bank, name=f"bank_later{stage}", reset_less=True)
            m.d.sync += later.eq(bank)
            bank = later
        chosen = Signal.like(self.read.data, name="chosen", reset_less=True)
        m.d.sync += chosen.eq(Array(words)[bank] if len(words) > 1 else words[0])
        m.d.comb += self.read.data.eq(chosen)
