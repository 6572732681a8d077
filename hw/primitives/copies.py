"""Copies of a register with high fanout or distant loads.

Input: a value. Output: registers that all hold it one cycle later. Synthesis merges equal
registers, and a single register with hundreds of loads all over the chip becomes the critical path.
So ECP5 gets the cells by name, which no tool merges.
"""

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Signal, Value

from daedal.hw.family import Family, Platform
from daedal.hw.parts.pipeline import register

__all__ = ["copies"]


def copies(
    m: Module, platform: Platform, value: Value, count: int, *, name: str, reset_less: bool = True
) -> list[Value]:
    """`count` registers of `value`, which synthesis does not merge.

    Parameters
    ----------
    m : module to add them to. platform : None or a `Family`. name : prefix of their signals.
    reset_less : the domain's reset does not affect them; otherwise it sets them to 0.
    """
    if platform is not Family.ECP5:
        return [register(m, value, name=name, reset_less=reset_less)] * count
    return [_cells(m, value, f"{name}_{number}", reset_less) for number in range(count)]


def _cells(m: Module, value: Value, name: str, reset_less: bool) -> Signal:
    held = Signal(len(value), name=name)
    for k in range(len(value)):
        m.submodules[f"{name}_cell{k}"] = Instance(
            "TRELLIS_FF",
            p_GSR="DISABLED",
            p_CEMUX="1",
            p_CLKMUX="CLK",
            p_LSRMUX="LSR",
            p_REGSET="RESET",
            p_SRMODE="LSR_OVER_CE",
            i_CLK=ClockSignal(),
            i_CE=Const(1),
            i_LSR=Const(0) if reset_less else ResetSignal(),
            i_DI=value[k],
            o_Q=held[k],
        )
    return held
