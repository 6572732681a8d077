"""Products whose registers lie inside the hardware multiplier.

Input: two operands, each a register or one together with what it is loaded from. Output: their
product, registered.

Synthesis infers MULT18X18D without its registers, and a path from a flip-flop through routing, the
whole multiplier and routing again to another flip-flop is the slowest of an array. So ECP5 gets the
cell by name, with its output registers, and with its input registers where an operand says what
they would be loaded from. docs/hardware.md has the measurements.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, Value

from daedal.hw.family import Family, Platform
from daedal.hw.parts.pipeline import register

__all__ = ["Operand", "registered_product"]

_OPERAND_BITS = 18


@dataclass(frozen=True)
class Operand:
    """An operand in a register: `value` is what the register is loaded from, `held` its output.

    Multipliers may share `held`, or keep `value` in registers of their own.
    """

    value: Value
    held: Value


def registered_product(
    m: Module, platform: Platform, a: Operand | Value, b: Operand | Value, *, name: str
) -> Value:
    """``a * b`` of two registered operands, one cycle later and exact.

    Parameters
    ----------
    m : where it is built. platform : None or a `Family`. name : prefix of its signals.
    a, b : operands; a plain `Value` is taken as it is, any `Operand` one cycle after its `value`.
    """
    x, y = (o.held if isinstance(o, Operand) else o for o in (a, b))
    if platform is not Family.ECP5 or max(len(x), len(y)) > _OPERAND_BITS:
        return register(m, x * y, name=name)
    ports: dict[str, Any] = {"i_CLK0": ClockSignal(), "i_CE0": Const(1), "i_RST0": Const(0)}
    for side, operand in (("A", a), ("B", b)):
        inside = isinstance(operand, Operand)
        value = operand.value if isinstance(operand, Operand) else operand
        # What is loaded has the width and sign of the register that the cell replaces.
        bits = Signal(18, name=f"{name}_{side.lower()}")
        m.d.comb += bits.eq(value)
        ports |= {f"i_{side}{k}": bits[k] for k in range(_OPERAND_BITS)}
        ports |= {
            f"p_REG_INPUT{side}_CLK": "CLK0" if inside else "NONE",
            f"i_SIGNED{side}": Const(int(value.shape().signed)),
            # The operand comes from the fabric, not from the next cell's shift register.
            f"i_SOURCE{side}": Const(0),
        }
    product = Signal((x * y).shape(), name=name)
    ports |= {f"o_P{k}": product[k] for k in range(len(product))}
    # Nothing resets the registers: data does not care what it starts with.
    ports |= {"p_REG_OUTPUT_CLK": "CLK0", "p_GSR": "DISABLED"}
    m.submodules[f"{name}_cell"] = Instance("MULT18X18D", **ports)
    return product
