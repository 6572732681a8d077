"""The ECP5's clock generator: which frequencies it reaches, and an instance of it.

The output is CLKOS, and the feedback is CLKOP: the output's divider is then not in the feedback
loop, which gives finer steps than the input's multiples.
"""

from dataclasses import dataclass

from amaranth.hdl import Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.common.errors import UserError
from daedal.hw.family import Platform

__all__ = ["Pll", "PllSettings", "pll_settings"]

# Source: Lattice FPGA-DS-02012, ECP5 and ECP5-5G Family Data Sheet, "sysCLOCK PLL Timing".
_LEAST_PHASE_HZ = 10_000_000
_VCO_HZ = (400_000_000, 800_000_000)
_LEAST_OUTPUT_HZ = 3_125_000
_MOST_OUTPUT_HZ = 400_000_000
_MOST_DIVIDER = 128


@dataclass(frozen=True)
class PllSettings:
    """Dividers of an EHXPLLL whose CLKOP feeds back.

    VCO = input / `input_divider` * `feedback_divider` * `loop_divider`; output = VCO /
    `output_divider`.
    """

    input_hz: int
    input_divider: int
    feedback_divider: int
    loop_divider: int
    output_divider: int

    @property
    def vco_hz(self) -> float:
        """Frequency of the VCO."""
        return self.input_hz / self.input_divider * self.feedback_divider * self.loop_divider

    @property
    def output_hz(self) -> int:
        """Frequency of the output, rounded down to whole Hertz."""
        return int(self.vco_hz / self.output_divider)


def pll_settings(input_hz: int, wanted_hz: float) -> PllSettings:
    """The fastest output not above `wanted_hz`, with the slowest VCO that gives it.

    Raises UserError for a frequency that the PLL does not reach.
    """
    if not _LEAST_OUTPUT_HZ <= wanted_hz <= _MOST_OUTPUT_HZ:
        raise UserError(
            f"a clock must be {_LEAST_OUTPUT_HZ / 1e6:g} to {_MOST_OUTPUT_HZ / 1e6:g} MHz "
            f"(the PLL reaches no other), not {wanted_hz / 1e6:g}"
        )
    best: tuple[float, float, PllSettings] | None = None
    for input_divider in range(1, input_hz // _LEAST_PHASE_HZ + 1):
        # Only the product of the loop divider and the feedback divider matters.
        for loop in range(1, int(_VCO_HZ[1] * input_divider / input_hz) + 1):
            vco = input_hz / input_divider * loop
            if not _VCO_HZ[0] <= vco <= _VCO_HZ[1]:
                continue
            divider = min(int(-(-vco // wanted_hz)), _MOST_DIVIDER)
            if vco / divider > wanted_hz:
                continue
            settings = PllSettings(input_hz, input_divider, 1, loop, divider)
            key = (vco / divider, -vco, settings)
            if best is None or key[:2] > best[:2]:
                best = key
    assert best is not None, "every frequency in the range has dividers"
    return best[2]


class Pll(wiring.Component):
    """One EHXPLLL. `clock` is good while `locked`, which is asynchronous.

    Source: Lattice FPGA-TN-02200, ECP5 and ECP5-5G sysClock PLL/DLL Design and Usage Guide.
    """

    def __init__(self, *, settings: PllSettings) -> None:
        self._settings = settings
        super().__init__({"input": In(1), "clock": Out(1), "locked": Out(1)})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        settings = self._settings
        feedback = Signal()
        m.submodules.pll = Instance(
            "EHXPLLL",
            # Charge pump current and filter as Lattice's tools choose them for such settings.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            p_CLKI_DIV=settings.input_divider,
            p_CLKFB_DIV=settings.feedback_divider,
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=settings.loop_divider,
            p_CLKOP_CPHASE=settings.loop_divider - 1,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=settings.output_divider,
            p_CLKOS_CPHASE=settings.output_divider - 1,
            i_RST=0,
            i_STDBY=0,
            i_CLKI=self.input,
            i_CLKFB=feedback,
            o_CLKOP=feedback,
            o_CLKOS=self.clock,
            o_LOCK=self.locked,
        )
        return m
