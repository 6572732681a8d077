"""An ECP5's cells at the pins of an SDRAM: a register in each pad, and the chip's clock.

Input: the controller's pins. Output: the FPGA's. A signal takes `OUT_CLOCKS` clocks of the domain
`pins` to get out and `IN_CLOCKS` to get in, so that both ends of the path between the controller's
registers and the pads have a clock, wherever they are placed.
"""

from amaranth.hdl import ClockSignal, Instance, IOPort, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.sdram.layouts import sdram_pins
from daedal.hw.family import Platform
from daedal.isa.sdram_chip import SdramChip

__all__ = ["IN_CLOCKS", "OUT_CLOCKS", "SdramPads"]

OUT_CLOCKS = 1
IN_CLOCKS = 1


class SdramPads(wiring.Component):
    """Source: Lattice FPGA-TN-02032 (sysI/O) and FPGA-TN-02035 (ODDRX1F), ECP5 and ECP5-5G.

    Parameters
    ----------
    chip
        Widths of the pins.
    data
        The data pins.

    Members
    -------
    controller : ``In(sdram_pins(chip))``
    chip_clock : ``In(1)``
        Clock of the chip; it leaves through a double data rate register, which gives it the delay
        of the other pins.
    clk, cke, csn, rasn, casn, wen, ba, a, dqm : ``Out``
        The FPGA's other pins.
    """

    def __init__(self, *, chip: SdramChip, data: IOPort) -> None:
        pins = sdram_pins(chip)
        self._data = data
        widths = {name: pins.members[name].shape for name in ("ba", "a", "dqm")}
        super().__init__(
            {
                "controller": In(pins),
                "chip_clock": In(1),
                **{name: Out(1) for name in ("clk", "cke", "csn", "rasn", "casn", "wen")},
                **{name: Out(width) for name, width in widths.items()},
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        controller = self.controller
        m.d.comb += [self.cke.eq(1), self.csn.eq(0)]
        m.submodules.clk_cell = Instance(
            "ODDRX1F", i_SCLK=self.chip_clock, i_RST=0, i_D0=1, i_D1=0, o_Q=self.clk
        )
        # Until the first clock the command is none: a chip that is powering up must get no other.
        for pin, source in (
            (self.rasn, controller.ras_n),
            (self.casn, controller.cas_n),
            (self.wen, controller.we_n),
        ):
            self._leave(m, source, pin, init=1)
        for pin, source in (
            (self.ba, controller.ba),
            (self.a, controller.a),
            (self.dqm, controller.dqm),
        ):
            self._leave(m, source, pin)
        out, away = Signal.like(controller.dq_o, name="data_out"), Signal(init=1)
        came, here = Signal.like(controller.dq_i, name="data_in"), controller.dq_i
        self._leave(m, controller.dq_o, out)
        m.d.pins += away.eq(~controller.dq_oe)
        for bit in range(len(out)):
            m.submodules[f"data_pad{bit}"] = Instance(
                "BB", i_I=out[bit], i_T=away, o_O=came[bit], io_B=self._data[bit]
            )
            m.submodules[f"data_in{bit}"] = _register("IFS1P3DX", came[bit], here[bit])
        return m

    def _leave(self, m: Module, source: Value, pin: Signal, *, init: int = 0) -> None:
        """`init`: the pin's level from configuration to the first clock."""
        kind = "OFS1P3BX" if init else "OFS1P3DX"
        for bit in range(len(pin)):
            m.submodules[f"{pin.name}_cell{bit}"] = _register(kind, source[bit], pin[bit])


def _register(kind: str, value: Value, result: Value) -> Instance:
    """A register in a pad, in the domain `pins`; one ending with BX is 1 at first."""
    reset = "i_PD" if kind.endswith("BX") else "i_CD"
    clock = ClockSignal("pins")
    return Instance(kind, i_D=value, i_SP=1, i_SCLK=clock, o_Q=result, **{reset: 0})
