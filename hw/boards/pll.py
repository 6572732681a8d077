"""The ECP5's clock generator: which frequencies it reaches, and an instance of it.

The output is CLKOS, and the feedback is CLKOP: the output's divider is then not in the feedback
loop, which gives finer steps than the input's multiples. A board with SDRAM has two more clocks of
twice the frequency: CLKOS2 for the registers at the pins, in phase with the output, and CLKOS3 for
the chip, which lags behind.
"""

from dataclasses import dataclass, replace
from typing import Any

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

_PHASES = 8
"""Steps of a phase in a period of the VCO."""


@dataclass(frozen=True)
class PllSettings:
    """Dividers of an EHXPLLL whose CLKOP feeds back.

    VCO = input / `input_divider` * `feedback_divider` * `loop_divider`; output = VCO /
    `output_divider`. With a `lag`, clocks of twice the output's frequency are made, too, and the
    chip's is `lag` eighths of a period of the VCO behind.
    """

    input_hz: int
    input_divider: int
    feedback_divider: int
    loop_divider: int
    output_divider: int
    lag: int | None = None

    @property
    def vco_hz(self) -> float:
        """Frequency of the VCO."""
        return self.input_hz / self.input_divider * self.feedback_divider * self.loop_divider

    @property
    def output_hz(self) -> int:
        """Frequency of the output, rounded down to whole Hertz."""
        return int(self.vco_hz / self.output_divider)

    @property
    def chip_phase(self) -> float:
        """Degrees by which the chip's clock lags behind that of the pins' registers."""
        return 360 * (self.lag or 0) / (_PHASES * self.output_divider / 2)


def pll_settings(input_hz: int, wanted_hz: float, chip_phase: float | None = None) -> PllSettings:
    """The fastest output not above `wanted_hz`, with the slowest VCO that gives it.

    With a `chip_phase`, in degrees from 0 to below 360, there are clocks of twice that frequency,
    the chip's as near to that phase as the PLL comes; of equal outputs, the one with the fastest
    VCO is taken, which has the finest steps.

    Raises UserError for a frequency that the PLL does not reach, and for another phase.
    """
    if chip_phase is not None and not 0 <= chip_phase < 360:
        raise UserError(
            f"the phase of the memory's clock must be 0 to below 360 degrees, not {chip_phase:g}"
        )
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
            if chip_phase is not None:
                divider += divider % 2
            if vco / divider > wanted_hz:
                continue
            settings = PllSettings(input_hz, input_divider, 1, loop, divider)
            key = (vco / divider, -vco if chip_phase is None else vco, settings)
            if best is None or key[:2] > best[:2]:
                best = key
    assert best is not None, "every frequency in the range has dividers"
    found = best[2]
    if chip_phase is None:
        return found
    steps = _PHASES * found.output_divider // 2
    return replace(found, lag=round(chip_phase / 360 * steps) % steps)


class Pll(wiring.Component):
    """One EHXPLLL. The clocks are good while `locked`, which is asynchronous.

    Source: Lattice FPGA-TN-02200, ECP5 and ECP5-5G sysClock PLL/DLL Design and Usage Guide.

    Members
    -------
    input : the oscillator.
    clock : ``Out(1)``, the output of `settings`.
    pins_clock, chip_clock : ``Out(1)``, of twice the frequency; 0 without a `lag`.
    locked : ``Out(1)``
    """

    def __init__(self, *, settings: PllSettings) -> None:
        self._settings = settings
        super().__init__(
            {
                "input": In(1),
                "clock": Out(1),
                "pins_clock": Out(1),
                "chip_clock": Out(1),
                "locked": Out(1),
            }
        )

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
            **self._memory_clocks(),
        )
        return m

    def _memory_clocks(self) -> dict[str, Any]:
        """Parameters and pins of CLKOS2 and CLKOS3. A phase of 0 is a CPHASE of the divider - 1."""
        if self._settings.lag is None:
            return {}
        divider = self._settings.output_divider // 2
        coarse, fine = divmod(self._settings.lag, _PHASES)
        return {
            "p_CLKOS2_ENABLE": "ENABLED",
            "p_CLKOS2_DIV": divider,
            "p_CLKOS2_CPHASE": divider - 1,
            "o_CLKOS2": self.pins_clock,
            "p_CLKOS3_ENABLE": "ENABLED",
            "p_CLKOS3_DIV": divider,
            "p_CLKOS3_CPHASE": divider - 1 + coarse,
            "p_CLKOS3_FPHASE": fine,
            "o_CLKOS3": self.chip_clock,
        }
