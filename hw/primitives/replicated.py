"""A register with high fanout or distant readers, replicated for them on ECP5.

Input: a value. Output: a register that holds it one cycle later. Synthesis merges equal registers,
and a single register with hundreds of loads all over the chip becomes the critical path. So ECP5
gets a copy for each reader, as cells by name, which no tool merges.
"""

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Signal, Value

from daedal.hw.family import Family, Platform
from daedal.hw.pipeline import register

__all__ = ["Replicated"]


class Replicated:
    """A register of `value`; `copy_for` gives it to a reader.

    There are as many copies as readers that asked, on ECP5; elsewhere all readers share one
    register. The copies hold the same value in every cycle, so a reader may take any of them.

    Parameters
    ----------
    m : module to add the registers to. platform : of the elaboration. name : prefix of their
        signals.
    reset_less : the domain's reset does not affect them; otherwise it sets them to 0.
    """

    def __init__(
        self,
        m: Module,
        platform: Platform,
        value: Value,
        *,
        name: str,
        reset_less: bool = True,
    ) -> None:
        self._m, self._value, self._name, self._reset_less = m, value, name, reset_less
        self._copies: dict[str | int, Signal] = {}
        self._shared: Signal | None = None
        if platform is not Family.ECP5:
            self._shared = register(m, value, name=name, reset_less=reset_less)

    def copy_for(self, reader: str | int) -> Signal:
        """The register as `reader` sees it: a name, or the number of a slice.

        Readers with the same name share a copy. It may be called inside a condition of the module:
        the register follows its value in every cycle.
        """
        if self._shared is not None:
            return self._shared
        if reader not in self._copies:
            self._copies[reader] = self._cells(f"{self._name}_{reader}")
        return self._copies[reader]

    def _cells(self, name: str) -> Signal:
        value = self._value
        held = Signal(len(value), name=name)
        for k in range(len(value)):
            self._m.submodules[f"{name}_cell{k}"] = Instance(
                "TRELLIS_FF",
                p_GSR="DISABLED",
                p_CEMUX="1",
                p_CLKMUX="CLK",
                p_LSRMUX="LSR",
                p_REGSET="RESET",
                p_SRMODE="LSR_OVER_CE",
                i_CLK=ClockSignal(),
                i_CE=Const(1),
                i_LSR=Const(0) if self._reset_less else ResetSignal(),
                i_DI=value[k],
                o_Q=held[k],
            )
        return held
