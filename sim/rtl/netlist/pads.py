"""Cells at the pins of an ECP5, as instances of the models in `hdl/ecp5_pads.v`.

Registers in pads are flip-flops as others are: Yosys maps `IFS1P3DX` and its like to TRELLIS_FF.
The models have no resets: a netlist that uses one is refused.

Source: `techlibs/ecp5/cells_map.v` of Yosys, which names what is left after synthesis.
"""

from collections.abc import Callable, Iterator, Mapping

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.cells import Bit, Cell, Port
from daedal.sim.rtl.netlist.flip_flops import clock_net
from daedal.sim.rtl.netlist.logic import bit_text

__all__ = ["DATA_PAD", "PADS", "data_pad", "pin_names"]

DATA_PAD = "TRELLIS_IO"
"""The cell of a pin that both ends drive; before synthesis, a `BB`."""


def _double_rate(cell: Cell, number: int) -> Iterator[str]:
    if cell.bit("RST") != "0":
        raise ToolError(f"RST of a {cell.kind} must be 0 to be simulated (cell {cell.name})")
    clock_net(cell, "SCLK")
    pins = ("SCLK", "RST", "D0", "D1", "Q")
    wires = ",".join(f".{pin}({bit_text(cell.bit(pin))})" for pin in pins)
    yield f"{cell.kind} u{number}({wires});"


def pin_names(ports: Mapping[str, Port]) -> dict[Bit, str]:
    """The nets at pins that both ends drive, as bits of the design's ports."""
    return {
        bit: f"{name}[{place}]"
        for name, port in ports.items()
        if port.direction == "inout"
        for place, bit in enumerate(port.bits)
    }


def data_pad(cell: Cell, number: int, pins: Mapping[Bit, str]) -> str:
    """A data pin, one of `pins`. Its model lies between the net and the pin.

    Raises
    ------
    ToolError
        The cell is not at a pin of the design, or has one direction.
    """
    cell.require("DIR", "INPUT", "BIDIR")
    pin = pins.get(cell.bit("B"))
    if pin is None:
        raise ToolError(f"B of a {cell.kind} must be a pin of the design (cell {cell.name})")
    out, away, came = (bit_text(cell.bit(name)) for name in ("I", "T", "O"))
    return f"BB u{number}(.I({out}),.T({away}),.O({came}),.B({pin}));"


PADS: Mapping[str, Callable[[Cell, int], Iterator[str]]] = {"ODDRX1F": _double_rate}
"""Verilog of a cell of each kind that has one direction."""
