"""Flip-flops and small memories of an ECP5's slices, as Verilog.

Flip-flops with the same clock, enable and reset share one block, so that a simulator evaluates the
condition once. What `hw` does not use is refused: asynchronous resets, falling edges, and values
from M.

Source: Lattice FPGA-DS-02012, slices (registers, distributed memory).
"""

from collections.abc import Iterable, Iterator

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.cells import Bit, Cell
from daedal.sim.rtl.netlist.logic import bit_text, bus_text

__all__ = ["clock_net", "flip_flops", "small_memory"]


def clock_net(cell: Cell, pin: str) -> str:
    """The net at a clock pin. Raises ToolError where it is a constant."""
    bit = cell.bit(pin)
    if not isinstance(bit, int):
        raise ToolError(
            f"{pin} of a {cell.kind} must have a clock, not a constant (cell {cell.name})"
        )
    return bit_text(bit)


def flip_flops(cells: Iterable[Cell]) -> Iterator[str]:
    """Registers of a design's TRELLIS_FF cells, and one block per (clock, reset, enable)."""
    groups: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for cell in cells:
        out = bit_text(cell.bit("Q"))
        cell.require("CLKMUX", "CLK", "CLK")
        cell.require("LSRMODE", "LSR", "LSR")
        value = "1'b1" if cell.require("REGSET", "RESET", "RESET", "SET") == "SET" else "1'b0"
        yield f"reg {out}={value};"  # the chip's initial value, too
        key = (clock_net(cell, "CLK"), _reset(cell), _enable(cell))
        groups.setdefault(key, []).append((out, bit_text(cell.bit("DI")), value))
    for (clock, reset, enable), registers in groups.items():
        yield f"always@(posedge {clock})"
        if reset != "1'b0":
            yield f"if({reset})begin"
            yield from (f"{out}<={value};" for out, _, value in registers)
            yield "end else"
        yield f"if({enable})begin"
        yield from (f"{out}<={data};" for out, data, _ in registers)
        yield "end"


def _reset(cell: Cell) -> str:
    """Condition on which a flip-flop takes its reset value; it has priority over the enable."""
    inverted = cell.require("LSRMUX", "LSR", "LSR", "INV") == "INV"
    condition = _maybe_inverted(cell.bit("LSR"), inverted)
    if condition != "1'b0":  # those of pads are asynchronous, and never reset
        cell.require("SRMODE", "LSR_OVER_CE", "LSR_OVER_CE")
    return condition


def _enable(cell: Cell) -> str:
    choice = cell.require("CEMUX", "1", "1", "CE", "INV")
    return "1'b1" if choice == "1" else _maybe_inverted(cell.bit("CE", "1"), choice == "INV")


def _maybe_inverted(bit: Bit, inverted: bool) -> str:
    if isinstance(bit, int):
        return f"!{bit_text(bit)}" if inverted else bit_text(bit)
    return bit_text("1" if (bit == "1") != inverted else "0")


def small_memory(cell: Cell, number: int) -> Iterator[str]:
    """16 words of 4 bits: synchronous write, asynchronous read (TRELLIS_DPR16X4)."""
    cell.require("WCKMUX", "WCK", "WCK")
    cell.require("WREMUX", "WRE", "WRE")
    name, contents = f"m{number}", cell.number("INITVAL")
    yield f"reg [3:0] {name}[0:15];"
    words = (f"{name}[{row}]=4'd{contents >> 4 * row & 15};" for row in range(16))
    yield f"initial begin {' '.join(words)} end"
    yield (
        f"always@(posedge {clock_net(cell, 'WCK')}) if({bit_text(cell.bit('WRE'))}) "
        f"{name}[{bus_text(cell.pins['WAD'])}]<={bus_text(cell.pins['DI'])};"
    )
    yield f"assign {bus_text(cell.pins['DO'])}={name}[{bus_text(cell.pins['RAD'])}];"
