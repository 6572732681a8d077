"""One lane of the ALU in gateware: the parts that `isa.lane.Lane` names, pipelined.

Input: operands x and y, and the operation. Output: the results of every operation's formula,
selected by the operation. Parts are shared: an operation only sets their controls.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from daedal.hw.family import Platform
from daedal.hw.parts.arithmetic import round_up
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.multiplier import registered_product
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.alu_operations import AluOp
from daedal.isa.lane import AMOUNT_BITS, FACTOR_BITS
from daedal.isa.variant import Variant

__all__ = ["EARLY_STAGE", "LATE_STAGE", "HardwareLane", "Staged", "matches"]

EARLY_STAGE = 1
"""Stage of the registers of operands, adder and multiplier: cycles after x and y."""

LATE_STAGE = 5
"""Stage of the register of the shifter's result."""


def matches(variant: Variant, operation: Value, wanted: Callable[[AluOp], bool]) -> Value:
    """Whether the operation's code is one of those of `variant` that `wanted` selects."""
    codes = [int(op) for op in AluOp.of(variant) if wanted(op)]
    return operation.matches(*codes)


@dataclass(frozen=True)
class Staged:
    """A value that is valid `stage` cycles after the operands."""

    value: Value
    stage: int


class HardwareLane:
    """`isa.lane.Lane` over `Staged` values.

    Parts that no operation uses are not built. Stage 1 adds or subtracts, multiplies and decodes
    the shift; 2 shifts coarsely; 3 finely; 4 selects the half with the result and computes the
    rounding bit; 5 rounds. What a formula builds from these parts is combinational, at the stage of
    its latest operand.

    Parameters
    ----------
    variant : the machine.
    m : where the lane is built. platform : None or a `Family`. name : prefix of its signals.
    x, y : operands.
    operation : code, one cycle before the operands.
    """

    def __init__(
        self,
        variant: Variant,
        m: Module,
        platform: Platform,
        name: str,
        x: Value,
        y: Value,
        operation: Value,
    ) -> None:
        self._variant = variant
        self._m, self._platform, self._name = m, platform, name
        self._x, self._y, self._operation = x, y, operation
        self._built: dict[str, Staged] = {}

    def _part(self, name: str, build: Callable[[], Value], stage: int = EARLY_STAGE) -> Staged:
        """The shared instance of a part; built on first use."""
        if name not in self._built:
            self._built[name] = Staged(build(), stage)
        return self._built[name]

    def _decoded(self, name: str, wanted: Callable[[AluOp], bool]) -> Value:
        """A property of the operation, in the operands' cycle; each lane has its own register."""
        name = f"{self._name}_{name}_decoded"
        flag = matches(self._variant, self._operation, wanted)
        return Replicated(self._m, self._platform, flag, name=name).copy_for("lane")

    @property
    def x(self) -> Staged:
        """First operand."""
        return self._part("x", lambda: register(self._m, self._x, name=f"{self._name}_x"))

    @property
    def y(self) -> Staged:
        """Second operand."""
        return self._part("y", lambda: register(self._m, self._y, name=f"{self._name}_y"))

    def _sum(self) -> Value:
        return self._part("sum", self._add).value

    def _add(self) -> Signal:
        minus = self._decoded("minus", lambda op: "total" not in op.parts)
        # x - y as x + ~y + 1, with the 1 as the carry-in; comparisons use the sign of the result.
        second = Mux(minus, ~self._y, self._y).as_signed()
        carried = Cat(1, self._x).as_signed() + Cat(minus, second).as_signed()
        return register(self._m, carried[1 : len(self._x) + 2], name=f"{self._name}_total")

    def total(self) -> Staged:
        """``x + y``."""
        return self._part("low_sum", lambda: self._sum()[: len(self._x)])

    def difference(self) -> Staged:
        """``x - y``."""
        return self.total()

    def less(self) -> Staged:
        """``x < y``."""
        return self._part("less", lambda: self._sum()[len(self._x)])

    def product(self) -> Staged:
        """The product of the low bits of x and y."""

        def build() -> Value:
            a, b = self._x[:FACTOR_BITS].as_signed(), self._y[:FACTOR_BITS].as_signed()
            return registered_product(self._m, self._platform, a, b, name=f"{self._name}_product")

        return self._part("product", build)

    def left(self) -> Staged:
        """``x << y``."""
        return self._part("shifted", self._shift, LATE_STAGE)

    def right(self) -> Staged:
        """``x >> y``, rounded down."""
        return self.left()

    def right_even(self) -> Staged:
        """``x >> y``, rounded half to even."""
        return self.left()

    def _shift(self) -> Signal:
        """Shift {x, 0} right by the amount: quotient in the upper half, dropped bits in the lower.

        A left shift by n is a right shift by bits - n whose result is the lower half.
        """
        m, name, x = self._m, self._name, self._x
        bits = len(x)
        amount = self._y[:AMOUNT_BITS].as_signed()
        negative = amount[-1]
        size = Mux(negative, -amount, amount)[:AMOUNT_BITS]
        goes_left = self._decoded("left", lambda op: "left" in op.parts) ^ negative
        # Amounts beyond the width: a left shift gives the unshifted lower half, all zeros; a right
        # shift gives the sign. `rest` is not derived from `size`, which would add a second carry
        # chain.
        rest = Mux(negative, bits + amount, bits - amount).as_signed()
        to_left = Mux(rest[-1], 0, rest[:6])
        to_right = Mux(size[-1], (1 << 6) - 1, size[:6])
        left = register(m, goes_left, name=f"{name}_left")
        steps = register(m, Mux(goes_left, to_left, to_right), name=f"{name}_steps")
        rounds = self._decoded("rounds", lambda op: "right_even" in op.parts)
        even = register(m, rounds, name=f"{name}_even")
        wide = Cat(Value.cast(0).replicate(bits), register(m, x, name=f"{name}_shift_x"))

        coarse = wide.as_signed() >> Cat(0, 0, 0, steps[3:])
        wide = register(m, coarse, name=f"{name}_coarse")
        fine = register(m, steps[:3], name=f"{name}_fine")
        wide = register(m, wide >> fine, name=f"{name}_shifted")
        left, even = (
            delay(m, flag, 2, name=f"{name}_{what}_shifted")
            for flag, what in ((left, "left"), (even, "even"))
        )
        lower, upper = wide[:bits], wide[bits : 2 * bits]
        up = ~left & even & round_up(upper, lower[-1], lower[:-1].any())
        up = register(m, up, name=f"{name}_up")
        half = register(m, Mux(left, lower, upper), name=f"{name}_half")
        return register(m, (half + up)[:bits], name=f"{name}_rounded")

    def _align(self, operands: Iterable[Staged]) -> tuple[list[Value], int]:
        """The values of `operands` at the stage of the latest."""
        operands = list(operands)
        stage = max(operand.stage for operand in operands)
        values = [
            delay(self._m, o.value, stage - o.stage, name=f"{self._name}_aligned") for o in operands
        ]
        return values, stage

    def choose(self, flag: Staged, yes: Staged, no: Staged) -> Staged:
        """`yes` where the flag is set."""
        (chosen, a, b), stage = self._align((flag, yes, no))
        return Staged(Mux(chosen, a, b), stage)
