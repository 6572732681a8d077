"""Translates a netlist to Verilog that can be simulated, with behavioural models of its cells.

Input: what Yosys wrote as JSON after mapping to an ECP5, the input of place and route. Output:
Verilog-2005 with the same pins; nets are numbered as in the netlist.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.blocks import BLOCKS
from daedal.sim.rtl.netlist.cells import Bit, Cell, Netlist, read_netlist
from daedal.sim.rtl.netlist.flip_flops import flip_flops, small_memory
from daedal.sim.rtl.netlist.logic import LOGIC, bus_text
from daedal.sim.rtl.netlist.pads import DATA_PAD, PADS, data_pad, pin_names

__all__ = ["netlist_verilog"]

_MODELS = Path(__file__).parents[1] / "hdl" / "ecp5_cells.v"
_FLIP_FLOP = "TRELLIS_FF"
_CELLS = {**LOGIC, **BLOCKS, **PADS, "TRELLIS_DPR16X4": small_memory}
_KINDS = {*_CELLS, _FLIP_FLOP, DATA_PAD}


def netlist_verilog(text: str, top: str, *, seed: int = 0, models: bool = True) -> str:
    """Translate a mapped netlist.

    Parameters
    ----------
    text
        JSON from Yosys: a flat design of ECP5 cells.
    top
        Its module.
    seed
        Determines what the netlist leaves undefined; in block RAMs, also the result of a read of a
        word that is being written.
    models
        With the models of the cells; the second netlist of a design finds those of the first.

    Raises
    ------
    ToolError
        The text is not such a netlist, or a cell or one of its options has no model.
    """
    netlist = read_netlist(text, top, seed=seed)
    unknown = {cell.kind for cell in netlist.cells} - _KINDS
    if unknown:
        raise ToolError(
            f"cells of a netlist must be {', '.join(sorted(_KINDS))} to be simulated, not "
            f"{', '.join(sorted(unknown))}"
        )
    lines = [
        "/* verilator lint_off WIDTH */",
        "`default_nettype none",
        *_module(netlist, seed),
        "`default_nettype wire",
    ]
    if models:
        lines.append(_MODELS.read_text(encoding="utf-8"))
    return "\n".join(lines)


def _module(netlist: Netlist, seed: int) -> Iterator[str]:
    pins = ", ".join(
        f"{port.direction} wire [{len(port.bits) - 1}:0] {name}"
        for name, port in netlist.ports.items()
    )
    yield f"`define ECP5_SEED 32'd{seed}"
    yield f"module {netlist.top}({pins});"
    registers = [cell for cell in netlist.cells if cell.kind == _FLIP_FLOP]
    pads = [cell for cell in netlist.cells if cell.kind == DATA_PAD]
    others = [cell for cell in netlist.cells if cell.kind not in (_FLIP_FLOP, DATA_PAD)]
    shared = pin_names(netlist.ports)
    yield from (f"wire n{net};" for net in _wires(netlist, registers, shared))
    yield from flip_flops(registers)
    for name, port in netlist.ports.items():
        bits = bus_text(port.bits)
        if port.direction == "input":
            yield f"assign {bits}={name};"
        elif port.direction == "output":
            yield f"assign {name}={bits};"
    for number, cell in enumerate(others):
        yield from _CELLS[cell.kind](cell, number)
    for number, cell in enumerate(pads, len(others)):
        yield data_pad(cell, number, shared)
    yield "endmodule"
    if pads:  # `hdl/board_sdram.v` asks it who drives the pins
        yield f"`define DAEDAL_DATA_PAD u{len(others)}"


def _wires(netlist: Netlist, registers: list[Cell], pins: Mapping[Bit, str]) -> list[int]:
    """Every net that is no register and not at a pin that both ends drive, in order."""
    groups = [port.bits for port in netlist.ports.values()]
    groups += [bits for cell in netlist.cells for bits in cell.pins.values()]
    nets = {bit for bits in groups for bit in bits if isinstance(bit, int) and bit not in pins}
    return sorted(nets - {bit for cell in registers for bit in cell.pins["Q"]})
