"""Products whose registers lie inside the hardware multiplier.

Input: two operands, each a register, or a register and its input. Output: their product,
registered.

Synthesis infers MULT18X18D without its registers. The path from a flip-flop through routing, the
whole multiplier and routing again to another flip-flop is then the critical path of an array. So
ECP5 gets the cell by name, with its output registers, and with its input registers if an operand
gives its register's input. docs/hardware.md has the measurements.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, Value

from daedal.hw.family import Family, Platform
from daedal.hw.pipeline import register

__all__ = ["Operand", "registered_product"]

_OPERAND_BITS = 18


@dataclass(frozen=True)
class Operand:
    """An operand in a register: `value` is the register's input, `held` its output.

    A multiplier uses the shared register `held`, or loads `value` into an input register of its
    own.
    """

    value: Value
    held: Value


def registered_product(
    m: Module, platform: Platform, a: Operand | Value, b: Operand | Value, *, name: str
) -> Value:
    """``a * b`` of two registered operands, one cycle later and exact.

    Parameters
    ----------
    m : module to add it to. platform : None or a `Family`. name : prefix of its signals.
    a, b : operands; of an `Operand`, `held` is multiplied, which comes one cycle after its `value`.
    """
    x, y = (o.held if isinstance(o, Operand) else o for o in (a, b))
    if platform is not Family.ECP5 or max(len(x), len(y)) > _OPERAND_BITS:
        return register(m, x * y, name=name)
    ports: dict[str, Any] = {"i_CLK0": ClockSignal(), "i_CE0": Const(1), "i_RST0": Const(0)}
    for side, operand in (("A", a), ("B", b)):
        inside = isinstance(operand, Operand)
        value = operand.value if isinstance(operand, Operand) else operand
        # The cell's operand has the width and sign of the register that it replaces.
        bits = Signal(18, name=f"{name}_{side.lower()}")
        m.d.comb += bits.eq(value)
        ports |= {f"i_{side}{k}": bits[k] for k in range(_OPERAND_BITS)}
        ports |= {
            f"p_REG_INPUT{side}_CLK": "CLK0" if inside else "NONE",
            f"i_SIGNED{side}": Const(int(value.shape().signed)),
            # The operand comes from the fabric, not from the shift chain of the next cell.
            f"i_SOURCE{side}": Const(0),
        }
    product = Signal((x * y).shape(), name=name)
    ports |= {f"o_P{k}": product[k] for k in range(len(product))}
    # The registers have no reset: the initial value of data does not matter.
    ports |= {"p_REG_OUTPUT_CLK": "CLK0", "p_GSR": "DISABLED"}
    m.submodules[f"{name}_cell"] = Instance("MULT18X18D", **ports)
    return product
