"""Cells at the pins of an ECP5, as instances of the models in `hdl/ecp5_pads.v`, which keep the
cells' names and pins.

The models have no resets: a netlist that uses one is refused.
"""

from collections.abc import Callable, Iterator, Mapping

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.cells import Bit, Cell, Port
from daedal.sim.rtl.netlist.flip_flops import clock_net
from daedal.sim.rtl.netlist.logic import bit_text

__all__ = ["DATA_PAD", "PADS", "data_pad", "pin_names"]

DATA_PAD = "BB"
"""The cell of a pin that both ends drive."""


def _register(reset: str) -> Callable[[Cell, int], Iterator[str]]:
    def instance(cell: Cell, number: int) -> Iterator[str]:
        _never(cell, reset)
        clock_net(cell, "SCLK")
        yield _instance(cell, number, ("D", "SP", "SCLK", reset), "Q")

    return instance


def _double_rate(cell: Cell, number: int) -> Iterator[str]:
    _never(cell, "RST")
    clock_net(cell, "SCLK")
    yield _instance(cell, number, ("SCLK", "RST", "D0", "D1"), "Q")


def _never(cell: Cell, reset: str) -> None:
    if cell.bit(reset) != "0":
        raise ToolError(f"{reset} of a {cell.kind} must be 0 to be simulated (cell {cell.name})")


def _instance(cell: Cell, number: int, inputs: tuple[str, ...], output: str) -> str:
    wires = ",".join(f".{pin}({bit_text(cell.bit(pin))})" for pin in inputs)
    return f"{cell.kind} u{number}({wires},.{output}({bit_text(cell.bit(output))}));"


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
        The cell is not at a pin of the design.
    """
    pin = pins.get(cell.bit("B"))
    if pin is None:
        raise ToolError(f"B of a {cell.kind} must be a pin of the design (cell {cell.name})")
    out, away, came = (bit_text(cell.bit(name)) for name in ("I", "T", "O"))
    return f"{cell.kind} u{number}(.I({out}),.T({away}),.O({came}),.B({pin}));"


PADS: Mapping[str, Callable[[Cell, int], Iterator[str]]] = {
    "IFS1P3DX": _register("CD"),
    "ODDRX1F": _double_rate,
    "OFS1P3BX": _register("PD"),
    "OFS1P3DX": _register("CD"),
}
"""Verilog of a cell of each kind that has one direction."""
