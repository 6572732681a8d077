"""A fill of the accumulators as a full row: a bus word of ACC or ACC_NARROW, or a pad.

Input: the fill port. Output: a row, and which of its columns are written.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["acc_grain", "widen_fill"]


def acc_grain(variant: Variant) -> int:
    """Elements of a row that share a write enable: those of the narrowest write.

    That is a bus word of LOAD or a group of lanes.
    """
    return min(
        variant.bus.data_bits // scratchpad(variant, Memory.ACC).memory_bits or 1,
        variant.units.alu_lanes,
        variant.units.requantize_lanes,
    )


def widen_fill(m: Module, variant: Variant, fill: data.View) -> tuple[Value, Value]:
    """A fill as a full row of accumulators and its write enables, one per `acc_grain` elements."""
    pad, grain = scratchpad(variant, Memory.ACC), acc_grain(variant)
    rows, masks = [], []
    for bits in (pad.memory_bits, variant.array.input_bits):
        count = variant.bus.data_bits // bits
        elements = [fill.data.word_select(k, bits).as_signed() for k in range(count)]
        word = Cat(_resize(value, pad.element_bits) for value in elements)
        rows.append(word.replicate(pad.elements // count))
        beats = pad.elements // count
        beat = fill.beat[: (beats - 1).bit_length()]
        enables = (1 << (count // grain)) - 1
        masks.append(
            Mux(
                fill.pad,
                (1 << (pad.elements // grain)) - 1,
                (enables << (beat * (count // grain)))[: pad.elements // grain],
            )
        )
    narrow = fill.memory == LoadMemory.ACC_NARROW
    row, mask = Signal(pad.row_bits), Signal(pad.elements // grain)
    m.d.comb += [
        row.eq(Mux(narrow, rows[1], rows[0])),
        mask.eq(Mux(narrow, masks[1], masks[0])),
    ]
    return row, mask


def _resize(value: Value, bits: int) -> Value:
    """A signed value cut or sign-extended to `bits` bits."""
    if len(value) >= bits:
        return value[:bits]
    return Cat(value, value[-1].replicate(bits - len(value)))
