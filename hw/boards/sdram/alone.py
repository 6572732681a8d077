"""The SDRAM controller as a design of its own, for its simulation and its synthesis."""

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from daedal.hw.boards.sdram.controller import SdramController
from daedal.hw.emit import emit_component
from daedal.hw.family import Family, Platform
from daedal.isa.sdram_slots import CAPTURE_CLOCKS, SlotTimes
from daedal.isa.variant import Variant

__all__ = ["TOP_MODULE", "emit_alone"]

TOP_MODULE = "sdram_controller"


class _Alone(wiring.Component):
    """The controller with its clocks as inputs: `clk`, and `pins_clk` of twice its frequency."""

    def __init__(self, controller: SdramController) -> None:
        self._controller = controller
        clocks = {name: In(1) for name in ("clk", "pins_clk", "rst")}
        super().__init__(clocks | dict(controller.signature.members))

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.domains.sync, m.domains.pins = domains = (ClockDomain("sync"), ClockDomain("pins"))
        for domain, clock in zip(domains, (self.clk, self.pins_clk), strict=True):
            m.d.comb += [domain.clk.eq(clock), domain.rst.eq(self.rst)]
        m.submodules.controller = controller = self._controller
        for name, member in controller.signature.members.items():
            inner, outer = getattr(controller, name), getattr(self, name)
            if member.is_signature:
                connect(m, inner, flipped(outer))
            else:
                m.d.comb += inner.eq(outer)
        return m


def emit_alone(
    variant: Variant,
    times: SlotTimes,
    family: Family | None = None,
    *,
    capture_clocks: int = CAPTURE_CLOCKS,
    assertions: bool = False,
) -> str:
    """Verilog of the controller alone, top module `TOP_MODULE`; options as of `SdramController` and
    `emit_component`."""
    title = f"SDRAM controller, chip {times.chip.name}, {times.clock_hz / 1e6:g} MHz at the pins."
    controller = SdramController(variant=variant, times=times, capture_clocks=capture_clocks)
    return emit_component(_Alone(controller), TOP_MODULE, title, family, assertions=assertions)
