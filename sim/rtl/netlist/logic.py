"""The small cells of an ECP5 as 1-bit Verilog expressions.

16-bit lookup tables, multiplexers and carry chains. They are written inline, not as instances, as a
design has tens of thousands of them.

Source: Lattice FPGA-DS-02012, slices (LUT4, PFUMX, L6MUX21, the carry chain of CCU2C).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from daedal.sim.rtl.netlist.cells import Bit, Cell

__all__ = ["LOGIC", "bit_text", "bus_text", "table"]

_INPUTS = "ABCD"


def bit_text(bit: Bit) -> str:
    """A bit in Verilog."""
    if isinstance(bit, int):
        return f"n{bit}"
    return "1'b1" if bit == "1" else "1'b0"


def bus_text(bits: Sequence[Bit]) -> str:
    """Bits, lowest first, as one value."""
    return f"{{{','.join(bit_text(bit) for bit in reversed(bits))}}}"


def table(entries: int, inputs: Sequence[Bit]) -> str:
    """Bit ``inputs[0] + 2 inputs[1] + ...`` of a lookup table; bit 0 is the lowest."""
    size = len(inputs)
    for place in reversed(range(size)):
        low, high = _halves(entries, size, place)
        bit = inputs[place]
        if isinstance(bit, str) or low == high:
            rest = [*inputs[:place], *inputs[place + 1 :]]
            return table(high if bit == "1" else low, rest)
    _, formula = _formula(entries, size)
    return formula.translate(_placed(bit_text(bit) for bit in inputs))


@cache
def _formula(entries: int, size: int) -> tuple[int, str]:
    """Number of operations of a table of `size` inputs, and its formula; ``A`` is the first input.

    Most tables are a few gates, and a simulator spends its time on them. So the cheapest
    decomposition, one input at a time, is worth a search.
    """
    if size == 0:
        return 0, f"1'b{entries}"
    whole = (1 << (1 << size - 1)) - 1
    found = []
    for place, name in enumerate(_INPUTS[:size]):
        low, high = _halves(entries, size, place)
        if low == 0 and high == whole:
            return 0, name
        if low == whole and high == 0:
            return 1, f"~{name}"
        (first, zero), (second, one) = (_without(half, size, place) for half in (low, high))
        found.append((first + second + 4, f"(({name}&{one})|(~{name}&{zero}))"))
        for possible, cost, text in (
            (low == 0, second + 1, f"({name}&{one})"),
            (high == 0, first + 2, f"(~{name}&{zero})"),
            (low == whole, second + 2, f"(~{name}|{one})"),
            (high == whole, first + 1, f"({name}|{zero})"),
            (low == whole - high, first + 1, f"({name}^{zero})"),
        ):
            if possible:
                found.append((cost, text))
    return min(found)


def _without(entries: int, size: int, place: int) -> tuple[int, str]:
    """The formula of a cofactor without input `place`, in the letters of the full table."""
    cost, text = _formula(entries, size - 1)
    return cost, text.translate(_placed(_INPUTS[:place] + _INPUTS[place + 1 : size]))


def _placed(names: Iterable[str]) -> dict[int, str]:
    """Translation from the letters of a formula to names."""
    return {ord(letter): name for letter, name in zip(_INPUTS, names, strict=False)}


def _halves(entries: int, size: int, place: int) -> tuple[int, int]:
    """The two cofactors: the table without input `place`, for its value 0 and for 1."""
    halves = [0, 0]
    for index in range(1 << size):
        side, rest = index >> place & 1, index & (1 << place) - 1 | index >> place + 1 << place
        halves[side] |= (entries >> index & 1) << rest
    return halves[0], halves[1]


def _lut(cell: Cell, _number: int) -> Iterator[str]:
    inputs = [cell.bit(pin) for pin in "ABCD"]
    yield f"assign {bit_text(cell.bit('Z'))}={table(cell.number('INIT'), inputs)};"


def _select(cell: Cell, select: str, one: str, zero: str) -> Iterator[str]:
    chosen, first, second = (bit_text(cell.bit(pin)) for pin in (select, one, zero))
    yield f"assign {bit_text(cell.bit('Z'))}=({chosen}&{first})|(~{chosen}&{second});"


def _carry(cell: Cell, number: int) -> Iterator[str]:
    """Two bits of a carry chain: each propagates the carry or generates its own."""
    carry = bit_text(cell.bit("CIN"))
    for half in "01":
        cell.require(f"INJECT1_{half}", "YES", "NO")
        entries = cell.number(f"INIT{half}")
        inputs = [cell.bit(pin + half) for pin in "ABCD"]
        made = table(entries & 0xF, inputs[:2])
        passes, out = f"p{number}_{half}", f"c{number}_{half}"
        yield f"wire {passes}={table(entries, inputs)};"
        yield f"wire {out}=({passes}&{carry})|(~{passes}&{made});"
        if sums := cell.pins.get(f"S{half}"):
            yield f"assign {bit_text(sums[0])}={passes}^{carry};"
        carry = out
    if outs := cell.pins.get("COUT"):
        yield f"assign {bit_text(outs[0])}={carry};"


LOGIC: Mapping[str, Callable[[Cell, int], Iterator[str]]] = {
    "LUT4": _lut,
    "PFUMX": lambda cell, _number: _select(cell, "C0", "ALUT", "BLUT"),
    "L6MUX21": lambda cell, _number: _select(cell, "SD", "D1", "D0"),
    "CCU2C": _carry,
}
"""Verilog of a cell of each kind; the number makes the names inside a cell unique."""
