"""The emitted machine as a black box in a larger design: its module name and pins."""

from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.register_master import register_bus
from daedal.hw.bus.axi import (
    address_channel,
    axi4_pins,
    read_channel,
    response_channel,
    write_channel,
)
from daedal.hw.emit import TOP_MODULE
from daedal.hw.family import Platform
from daedal.hw.machine import CONTROL_PREFIX, MEMORY_PREFIX
from daedal.isa.variant import Variant

__all__ = ["MachineInstance"]


class MachineInstance(wiring.Component):
    """The module that `hw.emit` emits for `variant`, in the clock domain `sync`.

    So the machine in a bitstream is the same Verilog that is simulated and synthesized standalone.
    It leaves reset one cycle after `sync`.

    Members
    -------
    ar, aw : ``Out(stream.Signature(address_channel(variant)))``
    r : ``In(stream.Signature(read_channel(variant)))``
    w : ``Out(stream.Signature(write_channel(variant)))``
    b : ``In(stream.Signature(response_channel()))``
    registers : ``In(register_bus())``
    reset : ``In(1)``, for the machine alone.
    interrupt : ``Out(1)``
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        address = stream.Signature(address_channel(variant))
        super().__init__(
            {
                "ar": Out(address),
                "r": In(stream.Signature(read_channel(variant))),
                "aw": Out(address),
                "w": Out(stream.Signature(write_channel(variant))),
                "b": In(stream.Signature(response_channel())),
                "registers": In(register_bus()),
                "reset": In(1),
                "interrupt": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        # The reset is distributed over the whole chip, so it is registered.
        running = Signal()
        m.d.sync += running.eq(~(self.reset | ResetSignal()))
        m.submodules.machine = Instance(
            TOP_MODULE,
            i_ap_clk=ClockSignal(),
            i_ap_rst_n=running,
            o_interrupt=self.interrupt,
            **self._memory_pins(),
            **self._register_pins(),
        )
        return m

    def _memory_pins(self) -> dict[str, Any]:
        """AXI4 pins, without the constant fields."""
        pins = {}
        for name, member in axi4_pins(self._variant, "").items():
            channel = name[0] if name[0] in "rwb" else name[:2]
            port, field = getattr(self, channel), name.removeprefix(channel)
            way = "o" if member.flow is Out else "i"
            if field in ("valid", "ready"):
                pins[f"{way}_{MEMORY_PREFIX}{name}"] = getattr(port, field)
            elif field in port.payload.shape().members:
                pins[f"{way}_{MEMORY_PREFIX}{name}"] = port.payload[field]
        return pins

    def _register_pins(self) -> dict[str, Any]:
        """AXI4-Lite: what is an output of the master is an input of the machine."""
        pins: dict[str, Any] = {
            f"{'i' if member.flow is Out else 'o'}_{CONTROL_PREFIX}{name}": getattr(
                self.registers, name
            )
            for name, member in register_bus().members.items()
        }
        unused = {f"i_{CONTROL_PREFIX}{name}": 0 for name in ("awprot", "arprot")}
        return pins | unused
