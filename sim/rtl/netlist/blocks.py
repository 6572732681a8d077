"""Block RAMs, multipliers and clocks of an ECP5, as instances of the models in `hdl/`.

What the models lack is refused: two clocks at one block RAM, cascaded multipliers, asynchronous
resets, and pins that switch between signed and unsigned at run time.
"""

from collections.abc import Callable, Iterator, Mapping

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.cells import Cell
from daedal.sim.rtl.netlist.flip_flops import clock_net
from daedal.sim.rtl.netlist.logic import bit_text, bus_text

__all__ = ["BLOCKS"]

_SLICES = 64
"""Parameters INITVAL_00 to INITVAL_3F: 16 words each, of 18 bits in 20."""
_GENERATOR_INPUTS = ("CLKI", "CLKFB", "RST", "STDBY")
_GENERATOR_OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3", "LOCK")
_GENERATOR_SWITCH = "CLKOS2_ENABLE"
"""The one parameter that the model has a meaning for."""


def _block_ram(cell: Cell, number: int) -> Iterator[str]:
    widths = {port: cell.number(f"DATA_WIDTH_{port}", 18) for port in "AB"}
    settings = {"CONTENTS": _contents(cell)}
    pins = {"CLK": _only_clock(cell), "SEED": f"32'd{number}"}
    for port in "AB":
        cell.require(f"CLK{port}MUX", f"CLK{port}", f"CLK{port}")
        registered = cell.require(f"REGMODE_{port}", "NOREG", "NOREG", "OUTREG") == "OUTREG"
        mode = cell.require(
            f"WRITEMODE_{port}", "NORMAL", "NORMAL", "WRITETHROUGH", "READBEFOREWRITE"
        )
        settings |= {
            f"WIDTH_{port}": str(widths[port]),
            f"REGISTER_{port}": str(int(registered)),
            f"WRITEMODE_{port}": f'"{mode}"',
            f"SELECT_{port}": f"3'b{cell.text(f'CSDECODE_{port}', '0b000').removeprefix('0b')}",
        }
        clocked = isinstance(cell.bit(f"CLK{port}"), int)
        pins |= {
            f"CE{port}": bit_text(cell.bit(f"CE{port}", "1")) if clocked else "1'b0",
            f"OCE{port}": bit_text(cell.bit(f"OCE{port}", "1")),
            f"RST{port}": _block_ram_reset(cell, port),
            f"WE{port}": bit_text(cell.bit(f"WE{port}")),
            f"CS{port}": bus_text(cell.bus(f"CS{port}", 3)),
            f"AD{port}": bus_text(cell.bus(f"AD{port}", 14)),
            f"DI{port}": bus_text(cell.bus(f"DI{port}", 18)),
        }
    _check_widths(cell, widths)
    yield from _instance(cell, "ecp5_dp16kd", number, settings, pins, {"DOA": 18, "DOB": 18})


def _check_widths(cell: Cell, widths: Mapping[str, int]) -> None:
    for width in widths.values():
        if width not in (1, 2, 4, 9, 18, 36):
            raise ToolError(f"a DP16KD must be 1, 2, 4, 9, 18 or 36 bits wide, not {width}")
    if widths["B"] < 36:
        return
    if cell.bit("WEB") != "0":
        raise ToolError(
            "port B of a DP16KD that is 36 bits wide must only read: WEB must be 0, not "
            f"{cell.bit('WEB')} (cell {cell.name})"
        )
    modes = {cell.text(f"REGMODE_{port}", "NOREG") for port in "AB"}
    if modes == {"NOREG"}:
        return
    # Half of the word passes through port A's output register.
    if len(modes) > 1 or cell.bit("OCEA", "1") != cell.bit("OCEB", "1"):
        raise ToolError(
            "a DP16KD that reads words of 36 bits must have both output registers or none, and one "
            f"enable for them, to be simulated (cell {cell.name})"
        )


def _only_clock(cell: Cell) -> str:
    clocks = {bit for port in "AB" if isinstance(bit := cell.bit(f"CLK{port}"), int)}
    if len(clocks) != 1:
        raise ToolError(
            f"both ports of a DP16KD must have one clock to be simulated, not {len(clocks)} "
            f"(cell {cell.name})"
        )
    return bit_text(clocks.pop())


def _block_ram_reset(cell: Cell, port: str) -> str:
    reset = cell.bit(f"RST{port}")
    if reset != "0":
        cell.require("RESETMODE", "SYNC", "SYNC")
    return bit_text(reset)


def _contents(cell: Cell) -> str:
    """1024 words of 18 bits, the first in the lowest bits."""
    words = 0
    for part in range(_SLICES):
        packed = cell.number(f"INITVAL_{part:02X}")
        for word in range(16 if packed else 0):
            words |= (packed >> 20 * word & (1 << 18) - 1) << 18 * (16 * part + word)
    return f"18432'h{words:x}"


def _multiplier(cell: Cell, number: int) -> Iterator[str]:
    for pin in ("SOURCEA", "SOURCEB"):
        if cell.bit(pin) != "0":
            raise ToolError(
                f"{pin} of a MULT18X18D must be 0 to be simulated: no cascades (cell {cell.name})"
            )
    cell.require("MULT_BYPASS", "DISABLED", "DISABLED")
    settings, pins = {}, {}
    for port in "AB":
        signed = cell.bit(f"SIGNED{port}")
        if isinstance(signed, int):
            raise ToolError(
                f"SIGNED{port} of a MULT18X18D must be constant to be simulated (cell {cell.name})"
            )
        settings[f"SIGNED_{port}"] = signed
        pins[port] = bus_text(cell.bus(port, 18))
    clocks = set()
    for stage, name in (("INPUTA", "A"), ("INPUTB", "B"), ("PIPELINE", "M"), ("OUTPUT", "P")):
        clock = cell.require(f"REG_{stage}_CLK", "NONE", "NONE", "CLK0", "CLK1", "CLK2", "CLK3")
        settings[f"REGISTER_{name}"] = str(int(clock != "NONE"))
        if clock != "NONE":
            clocks.add(clock_net(cell, clock))
            enable = cell.text(f"REG_{stage}_CE", "CE0")
            reset = cell.text(f"REG_{stage}_RST", "RST0")
            pins[f"CE{name}"] = bit_text(cell.bit(enable, "1"))
            pins[f"RST{name}"] = bit_text(cell.bit(reset))
            cell.require("RESETMODE", "SYNC", "SYNC")
    if len(clocks) > 1:
        raise ToolError(
            f"a MULT18X18D must have one clock to be simulated, not {len(clocks)} "
            f"(cell {cell.name})"
        )
    pins["CLK"] = clocks.pop() if clocks else "1'b0"
    yield from _instance(cell, "ecp5_mult18x18d", number, settings, pins, {"P": 36})


def _clock_generator(cell: Cell, number: int) -> Iterator[str]:
    """Unchanged: the board's simulator supplies its model (`hdl/ehxplll.v`)."""
    pins = {name: bits for name, bits in cell.pins.items() if bits}
    unknown = sorted(set(pins) - {*_GENERATOR_INPUTS, *_GENERATOR_OUTPUTS})
    if unknown:
        raise ToolError(
            f"an EHXPLLL must have no pins but {', '.join(_GENERATOR_INPUTS + _GENERATOR_OUTPUTS)} "
            f"to be simulated, not {', '.join(unknown)} (cell {cell.name})"
        )
    wires = ",".join(f".{name}({bit_text(bits[0])})" for name, bits in pins.items())
    enabled = cell.require(_GENERATOR_SWITCH, "DISABLED", "DISABLED", "ENABLED")
    yield f'EHXPLLL #(.{_GENERATOR_SWITCH}("{enabled}")) u{number}({wires});'


def _instance(
    cell: Cell,
    model: str,
    number: int,
    settings: Mapping[str, str],
    pins: Mapping[str, str],
    outputs: Mapping[str, int],
) -> Iterator[str]:
    """An instance of a model; the bits of each output bus are assigned to the cell's nets."""
    buses = {name: f"{name.lower()}{number}" for name in outputs}
    for name, width in outputs.items():
        yield f"wire [{width - 1}:0] {buses[name]};"
    values = ",".join(f".{name}({value})" for name, value in settings.items())
    wires = ",".join(f".{name}({value})" for name, value in {**pins, **buses}.items())
    yield f"{model} #({values}) u{number}({wires});"
    for name, width in outputs.items():
        for place in range(width):
            for bit in cell.pins.get(f"{name}{place}", ()):
                yield f"assign {bit_text(bit)}={buses[name]}[{place}];"


BLOCKS: Mapping[str, Callable[[Cell, int], Iterator[str]]] = {
    "DP16KD": _block_ram,
    "EHXPLLL": _clock_generator,
    "MULT18X18D": _multiplier,
}
"""Verilog of a block of each kind; the number makes instance names unique."""
