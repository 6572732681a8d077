"""Scratchpads: block RAM that LOAD fills by bus words and a unit reads by rows.

Input: fills (`fill_signature`) or, for the output scratchpad, rows from the ALU. Output: registered
read ports. Reads never depend on a write of the same cycle: tokens order the units.

A write reaches the RAM two cycles after it is accepted. A token takes longer, so no reader that
waits for one reads before the data is there.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import (
    fill_signature,
    out_write_signature,
    pad_signature,
    scratchpad_read_signature,
)
from daedal.hw.layouts import micro_op_struct
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.memory.sliding_rows import SlidingRows
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.block_ram import BlockRam
from daedal.isa.latencies import BANK_CYCLES
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS, Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant

__all__ = [
    "WRITE_CYCLES",
    "MicroOpMemory",
    "OutScratchpad",
    "Scratchpad",
    "collides_with",
    "out_group",
    "read_shape",
    "read_signature",
    "register_write",
]

WRITE_CYCLES = BANK_CYCLES
"""Write registers before the RAMs of all scratchpads; the same number as in accumulator banks."""


def read_shape(variant: Variant, memory: Memory) -> tuple[int, int]:
    """Widths (row number, data of one read) of a scratchpad.

    Parameters are read in slices of a row: as many entries as are requantized per cycle, but at
    least a bus word. A narrower RAM takes fewer blocks. The row number is then row * slices +
    slice.
    """
    pad = scratchpad(variant, memory)
    width = pad.row_bits
    if memory is Memory.PAR:
        lanes_bits = variant.units.requantize_lanes * pad.element_bits
        width = min(width, max(lanes_bits, variant.bus.data_bits))
    slices = pad.row_bits // width
    return pad.index_bits + (slices - 1).bit_length(), width


def out_group(variant: Variant) -> int:
    """Elements of an output row that share a write enable: the ALU's smallest group of lanes."""
    return min(variant.units.alu_lanes, variant.units.requantize_lanes)


def read_signature(variant: Variant, memory: Memory) -> wiring.Signature:
    """Read port of INP, WGT or PAR; of INP it has as many consecutive rows as depthwise taps.

    The first row is in the lowest bits.
    """
    row_width, data_width = read_shape(variant, memory)
    slides = memory is Memory.INP and variant.array.depthwise_taps > 1
    rows = variant.array.depthwise_taps if slides else 1
    return scratchpad_read_signature(row_width, rows * data_width)


class Scratchpad(wiring.Component):
    """INP, WGT or PAR: written by LOAD, read by GEMM or ALU, once per cycle.

    WGT also takes words of WGT_NARROW, if the variant has it; such a word becomes two words of a
    row, which are written in the same cycle.

    Parameters
    ----------
    variant : the machine.
    memory : which scratchpad.

    Members
    -------
    fill : takes the fills addressed to this memory and never waits; others are ignored.
    pads : (INP only) words of one row, written in the same cycle as the word of `fill` but never
    the same one.
    read : a row two cycles after `enable`; of PAR a slice, of INP with three depthwise taps three
        rows.

    `rows` is the RAM.
    """

    def __init__(self, *, variant: Variant, memory: Memory) -> None:
        if memory not in (Memory.INP, Memory.WGT, Memory.PAR):
            raise ValueError(f"a scratchpad that LOAD fills must be INP, WGT or PAR, not {memory}")
        self._variant = variant
        self._memory = memory
        super().__init__(
            {
                "fill": In(fill_signature(variant)),
                "read": In(read_signature(variant, memory)),
                **({"pads": In(pad_signature(variant))} if memory is Memory.INP else {}),
            }
        )
        pad = scratchpad(variant, memory)
        row_width, data_width = read_shape(variant, memory)
        kind = RowMemory if len(self.read.data) == data_width else SlidingRows
        self.rows = kind(
            depth=pad.depth_rows << (row_width - pad.index_bits),
            columns=data_width // variant.bus.data_bits,
            column_bits=variant.bus.data_bits,
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        pad = scratchpad(self._variant, self._memory)
        row_width, data_width = read_shape(self._variant, self._memory)
        words = data_width // self._variant.bus.data_bits
        m.submodules.rows = rows = self.rows
        wiring.connect(m, wiring.flipped(self.read), rows.read)

        # First of the two write registers before the RAM, for the route over the chip.
        fill = self.fill.p
        widens = self._memory is Memory.WGT and self._variant.units.narrow_weights
        narrow = fill.memory == LoadMemory.WGT_NARROW
        own = fill.memory == LoadMemory[self._memory.name]
        hit = self.fill.valid & (own | narrow if widens else own)
        hit = register(m, hit, name="fills", reset_less=False)
        fill = register(m, fill, name="fill")
        word_bits = (words - 1).bit_length()
        row = Cat(fill.beat[word_bits:][: row_width - pad.index_bits], fill.row[: pad.index_bits])
        write = rows.write.signature.create(path=("write",))
        m.d.comb += [
            self.fill.ready.eq(1),
            write.data.eq(fill.data.replicate(words)),
            *(write.row[number].eq(row) for number in range(words)),
        ]
        with m.If(hit):
            m.d.comb += write.enable.eq(1 << fill.beat[:word_bits])
        if widens:
            narrow = register(m, narrow, name="narrow")
            self._widen(m, write, fill, hit & narrow)
        outside = fill.row[pad.index_bits :].any() if len(fill.row) > pad.index_bits else 0
        contract(m, platform, ~(hit & outside), "LOAD must not fill a row that is not there")
        if self._memory is Memory.INP:
            enable = register(m, self.pads.enable, name="pads", reset_less=False)
            pad_row = register(m, self.pads.row, name="pad_row")
            value = register(m, self.pads.data, name="pad_data")
            meets = hit & enable.bit_select(fill.beat[:word_bits], 1)
            contract(m, platform, ~meets, "a pad must not go where a word goes in the same cycle")
            for number in range(words):
                with m.If(enable[number]):
                    m.d.comb += [
                        write.enable[number].eq(1),
                        write.row[number].eq(pad_row),
                        write.data.word_select(number, len(fill.data)).eq(value),
                    ]
        register_write(m, write, rows.write)
        return m

    def _widen(self, m: Module, write: Any, fill: Any, hit: Value) -> None:
        """Let a word of WGT_NARROW become two neighbouring words of 8-bit weights."""
        weights = [
            fill.data.word_select(k, NARROW_WEIGHT_BITS).as_signed()
            for k in range(len(fill.data) // NARROW_WEIGHT_BITS)
        ]
        bits = scratchpad(self._variant, self._memory).element_bits
        pair = Cat(Cat(weight, weight[-1].replicate(bits - len(weight))) for weight in weights)
        words = len(write.enable)
        pairs_bits = (words // 2 - 1).bit_length()
        with m.If(hit):
            m.d.comb += [
                write.data.eq(pair.replicate(words // 2)),
                write.enable.eq(0b11 << (fill.beat[:pairs_bits] << 1)),
            ]

    def collides(self, three: ValueLike = 0) -> Value:
        """Whether the row being read at the RAM is written in this cycle.

        With `three`, the two rows after it are read for use, too; otherwise what SlidingRows reads
        of them is left.
        """
        return collides_with(self.rows, three)


def register_write(m: Module, write: Any, *ports: Any) -> None:
    """Drive write ports of RAMs, all alike, through a register."""
    enable = register(m, write.enable, name="write_enable", reset_less=False)
    row = register(m, write.row, name="write_row")
    data = register(m, write.data, name="write_data")
    for port in ports:
        m.d.comb += [port.enable.eq(enable), port.row.eq(row), port.data.eq(data)]


def collides_with(rows: Any, three: ValueLike = 0) -> Value:
    """Whether a row is read in the cycle in which one of its columns is written; with `three`, that
    row or one of the next two."""
    write, row = rows.write, rows.read.row

    def is_read(written: Value) -> Value:
        after = (written == (row + 1)[: len(row)]) | (written == (row + 2)[: len(row)])
        return (written == row) | (three & after)

    meets = [on & is_read(write.row[k]) for k, on in enumerate(write.enable)]
    return rows.read.enable & Cat(meets).any()


class OutScratchpad(wiring.Component):
    """OUT: written by the ALU in groups of lanes, read by STORE, and by GEMM if it multiplies
    results (`units.gemm_reads_out`).

    Members
    -------
    write : some elements of a row; elements of one group of lanes share a mask bit's value.
    read : a row `ACC_READ_CYCLES` after `enable`, as in the accumulators; it sees the writes of the
        cycles before `enable`.
    operand : for GEMM, a row two cycles after `enable`, as of INP.

    `rows` is the RAM that STORE reads, `operands` the one that GEMM reads, or None; both have all
    rows.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        read = scratchpad_read_signature(*read_shape(variant, Memory.OUT))
        copied = variant.units.gemm_reads_out
        super().__init__(
            {
                "write": In(out_write_signature(variant)),
                "read": In(read),
                **({"operand": In(read)} if copied else {}),
            }
        )
        pad, group = scratchpad(variant, Memory.OUT), out_group(variant)
        self.rows, *copies = (
            RowMemory(
                depth=pad.depth_rows,
                columns=pad.elements // group,
                column_bits=group * pad.element_bits,
            )
            for _ in range(2 if copied else 1)
        )
        self.operands = copies[0] if copies else None

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.rows = rows = self.rows
        pad, group = scratchpad(self._variant, Memory.OUT), out_group(self._variant)
        late = WRITE_CYCLES
        columns = pad.elements // group
        enable = Mux(self.write.enable, Cat(self.write.mask[::group]), 0)
        data = self.write.data
        operands = self.operands
        if operands is not None:
            m.submodules.operands = operands
            wiring.connect(m, wiring.flipped(self.operand), operands.read)
            m.d.comb += [
                operands.write.enable.eq(rows.write.enable),
                operands.write.row.eq(rows.write.row),
                operands.write.data.eq(rows.write.data),
            ]
        m.d.comb += [
            rows.write.enable.eq(delay(m, enable, late, name="write_enable", reset_less=False)),
            rows.write.row.eq(delay(m, self.write.row, late, name="write_row").replicate(columns)),
            rows.write.data.eq(delay(m, data, late, name="write_data")),
            rows.read.enable.eq(delay(m, self.read.enable, late, name="reads", reset_less=False)),
            rows.read.row.eq(delay(m, self.read.row, late, name="read_row")),
            self.read.data.eq(rows.read.data),
        ]
        masks = [self.write.mask[k : k + group] for k in range(0, pad.elements, group)]
        whole = Cat((mask == 0) | mask.all() for mask in masks).all()
        contract(m, platform, ~self.write.enable | whole, "elements must be written by groups")
        return m

    def collides(self) -> Value:
        """Whether the row being read at the RAM is written in this cycle."""
        meets = collides_with(self.rows)
        return meets if self.operands is None else meets | collides_with(self.operands)


class MicroOpMemory(wiring.Component):
    """Micro-ops of GEMM or ALU; of their 64 bits in memory only the used ones are kept.

    Members
    -------
    fill : takes the fills addressed to this memory and never waits; others are ignored.
    advance : both pipeline registers of the read port advance in this cycle; otherwise they hold.
    index : number of the micro-op to read.
    data : the micro-op whose number was at `index` two advances ago.

    `needed`, for contracts only: the micro-op that an advance reads will be used.
    """

    def __init__(self, *, variant: Variant, unit: Unit) -> None:
        self._variant = variant
        self._load = {Unit.GEMM: LoadMemory.UOP_GEMM, Unit.ALU: LoadMemory.UOP_ALU}[unit]
        self._layout = micro_op_struct(variant, unit)
        pad = scratchpad(variant, self._load.memory)
        super().__init__(
            {
                "fill": In(fill_signature(variant)),
                "advance": In(1),
                "index": In((pad.depth_rows * pad.elements - 1).bit_length()),
                "data": Out(self._layout),
            }
        )
        self.needed = Signal()

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        pad = scratchpad(self._variant, self._load.memory)
        used, per_row = self._layout.size, pad.elements
        select_bits = (per_row - 1).bit_length()
        m.submodules.ram = ram = BlockRam(depth=pad.depth_rows, width=used * per_row)
        fill = self.fill.p
        hit = self.fill.valid & (fill.memory == self._load)
        values = [fill.data.word_select(k, pad.element_bits)[:used] for k in range(per_row)]
        late = WRITE_CYCLES
        m.d.comb += [
            self.fill.ready.eq(1),
            ram.write_enable.eq(delay(m, hit, late, name="fills", reset_less=False)),
            ram.write_row.eq(delay(m, fill.row, late, name="fill_row")),
            ram.write_data.eq(delay(m, Cat(values), late, name="fill_data")),
            ram.read_enable.eq(self.advance),
            ram.read_row.eq(self.index[select_bits:]),
            ram.advance.eq(self.advance),
        ]
        # The micro-op's position in its row is delayed like the RAM's read, by two registers.
        select, select_out = (Signal(select_bits, reset_less=True) for _ in range(2))
        with m.If(self.advance):
            m.d.sync += [select.eq(self.index[:select_bits]), select_out.eq(select)]
        m.d.comb += self.data.eq(ram.read_data.word_select(select_out, used))
        meets = ram.write_enable & (ram.write_row == ram.read_row)
        collides = self.needed & self.advance & meets
        rule = "a micro-op must not be read while it is written: a token is missing"
        contract(m, platform, ~collides, rule)
        return m
