"""The accelerator's pins, and the bus interfaces that Vivado knows them by.

Input: a variant. Attributes of the Verilog and IP-XACT are both made from this.

Source: UG994, "Using the Module Reference Feature" (attributes and their parameters); UG1118,
"Inferring Signals" (names of the bus definitions).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Shape
from amaranth.lib.wiring import Out

from daedal.hw.bus.axi import ID_BITS
from daedal.hw.machine import CONTROL_PREFIX, MEMORY_PREFIX, machine_pins
from daedal.isa.latencies import MAX_BURST_BEATS
from daedal.isa.registers import CONTROL_ADDRESS_BITS
from daedal.isa.variant import Variant

__all__ = ["CONTROL", "MEMORY", "BusInterface", "Pin", "bus_interfaces", "pins"]

CLOCK, RESET, INTERRUPT = "ap_clk", "ap_rst_n", "interrupt"
MEMORY, CONTROL = MEMORY_PREFIX.rstrip("_"), CONTROL_PREFIX.rstrip("_")


@dataclass(frozen=True)
class Pin:
    """A port of the top module."""

    name: str
    is_output: bool
    width: int


@dataclass(frozen=True)
class BusInterface:
    """Pins that belong together.

    Attributes
    ----------
    name
        Of the interface; that of the pin where there is one alone.
    library, kind
        The bus definition xilinx.com:library:kind:1.0.
    is_master
        This side starts transfers, or gives the signal.
    ports
        Names of the pins by their names in the bus definition.
    parameters
        What tools need to know of it.
    """

    name: str
    library: str
    kind: str
    is_master: bool
    ports: Mapping[str, str]
    parameters: Mapping[str, str | int]

    @property
    def definition(self) -> str:
        """Vendor, library, name and version of the bus definition."""
        return f"xilinx.com:{self.library}:{self.kind}:1.0"


def pins(variant: Variant) -> tuple[Pin, ...]:
    """All ports of the accelerator."""
    return tuple(
        Pin(name, member.flow is Out, Shape.cast(member.shape).width)
        for name, member in machine_pins(variant).items()
    )


def bus_interfaces(variant: Variant) -> tuple[BusInterface, ...]:
    """The interfaces; each pin belongs to exactly one."""
    clock = {"ASSOCIATED_BUSIF": f"{MEMORY}:{CONTROL}", "ASSOCIATED_RESET": RESET}
    return (
        BusInterface(CLOCK, "signal", "clock", False, {"CLK": CLOCK}, clock),
        BusInterface(RESET, "signal", "reset", False, {"RST": RESET}, {"POLARITY": "ACTIVE_LOW"}),
        BusInterface(
            INTERRUPT,
            "signal",
            "interrupt",
            True,
            {"INTERRUPT": INTERRUPT},
            {"SENSITIVITY": "LEVEL_HIGH"},
        ),
        BusInterface(
            MEMORY,
            "interface",
            "aximm",
            True,
            _bus_ports(variant, MEMORY_PREFIX),
            _memory_parameters(variant),
        ),
        BusInterface(
            CONTROL,
            "interface",
            "aximm",
            False,
            _bus_ports(variant, CONTROL_PREFIX),
            _CONTROL_PARAMETERS,
        ),
    )


def _bus_ports(variant: Variant, prefix: str) -> dict[str, str]:
    names = [pin.name for pin in pins(variant) if pin.name.startswith(prefix)]
    return {name.removeprefix(prefix).upper(): name for name in names}


def _memory_parameters(variant: Variant) -> dict[str, str | int]:
    return {
        "PROTOCOL": "AXI4",
        "DATA_WIDTH": variant.bus.data_bits,
        "ADDR_WIDTH": variant.bus.address_bits,
        "ID_WIDTH": ID_BITS,
        "READ_WRITE_MODE": "READ_WRITE",
        "HAS_BURST": 1,
        "HAS_LOCK": 1,
        "HAS_PROT": 1,
        "HAS_CACHE": 1,
        "HAS_QOS": 1,
        "HAS_REGION": 0,
        "HAS_WSTRB": 1,
        "HAS_BRESP": 1,
        "HAS_RRESP": 1,
        "SUPPORTS_NARROW_BURST": 0,
        "MAX_BURST_LENGTH": MAX_BURST_BEATS,
        "NUM_READ_OUTSTANDING": variant.bus.read_bursts,
        "NUM_WRITE_OUTSTANDING": variant.bus.write_bursts,
    }


_CONTROL_PARAMETERS: dict[str, str | int] = {
    "PROTOCOL": "AXI4LITE",
    "DATA_WIDTH": 32,
    "ADDR_WIDTH": CONTROL_ADDRESS_BITS,
    "ID_WIDTH": 0,
    "READ_WRITE_MODE": "READ_WRITE",
    "HAS_BURST": 0,
    "HAS_LOCK": 0,
    "HAS_PROT": 1,
    "HAS_CACHE": 0,
    "HAS_QOS": 0,
    "HAS_REGION": 0,
    "HAS_WSTRB": 1,
    "HAS_BRESP": 1,
    "HAS_RRESP": 1,
    "SUPPORTS_NARROW_BURST": 0,
    "MAX_BURST_LENGTH": 1,
    "NUM_READ_OUTSTANDING": 1,
    "NUM_WRITE_OUTSTANDING": 1,
}
