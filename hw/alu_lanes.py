"""The ordinary operations of the ALU, one group of lanes per cycle.

Input: operands x and y and the operation. Output: results of accumulator width.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.arithmetic import round_up, saturate
from daedal.hw.pipeline import delay, register
from daedal.isa.table import AluOp
from daedal.isa.variant import Variant

__all__ = ["AluLanes"]

_LATENCY = 7
_FACTOR_BITS = 18
_AMOUNT_BITS = 7


class AluLanes(wiring.Component):
    """Every `AluOp` but REQUANTIZE, as `isa.semantics` defines it, in 7 stages.

    1 add or subtract, multiply, decode the shift; 2 choose among those, coarse shift; 3 fine
    shift; 4 half of the shifter that counts, rounding bit; 5 round; 6 choose; 7 saturate.

    Members
    -------
    x, y : alu_lanes accumulators. operation : AluOp. saturate : clamp to the output range.
    result : alu_lanes values of accumulator width.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        width = variant.units.alu_lanes * variant.array.accumulator_bits
        super().__init__(
            {
                "x": In(width),
                "y": In(width),
                "operation": In(AluOp),
                "saturate": In(1),
                "result": Out(width),
            }
        )

    @staticmethod
    def latency() -> int:
        """Cycles from the operands to the result."""
        return _LATENCY

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = self._variant.array.accumulator_bits
        operation = register(m, self.operation, name="operation_1")
        late = delay(m, operation, 4, name="operation_late")
        shifts = (late == AluOp.SHL) | (late == AluOp.SHR) | (late == AluOp.SHR_EVEN)
        saturates = delay(m, self.saturate, 6, name="saturate")
        for number in range(self._variant.units.alu_lanes):
            name = f"lane{number}"
            x = self.x.word_select(number, bits).as_signed()
            y = self.y.word_select(number, bits).as_signed()
            value = delay(m, self._arithmetic(m, name, x, y, operation), 3, name=f"{name}_value")
            shifted = self._shift(m, name, x, y)
            wide = register(m, Mux(shifts, shifted, value), name=f"{name}_wide").as_signed()
            clamped = Signal(signed(bits), name=f"{name}_clamped")
            m.d.comb += clamped.eq(saturate(wide, self._variant.array.output_bits))
            final = register(m, Mux(saturates, clamped, wide), name=f"{name}_result")
            m.d.comb += self.result.word_select(number, bits).eq(final)
        return m

    def _arithmetic(self, m: Module, name: str, x: Value, y: Value, operation: Value) -> Signal:
        """Stages 1 and 2 of everything but shifts."""
        bits = len(x)
        minus = self.operation != AluOp.ADD
        # x - y as x + ~y + 1, with the 1 as the carry: MIN and MAX compare by its sign.
        second = Mux(minus, ~y, y).as_signed()
        carried = Cat(1, x).as_signed() + Cat(minus, second).as_signed()
        total = register(m, carried[1 : bits + 2], name=f"{name}_total")
        a, b = x[:_FACTOR_BITS].as_signed(), y[:_FACTOR_BITS].as_signed()
        product = register(m, a * b, name=f"{name}_product")
        x, y = register(m, x, name=f"{name}_x"), register(m, y, name=f"{name}_y")
        less = total[bits]
        result = Signal(bits, name=f"{name}_arithmetic")
        with m.Switch(operation):
            with m.Case(AluOp.ADD, AluOp.SUB):
                m.d.sync += result.eq(total)
            with m.Case(AluOp.MUL):
                m.d.sync += result.eq(product)
            with m.Case(AluOp.MIN):
                m.d.sync += result.eq(Mux(less, x, y))
            with m.Case(AluOp.MAX):
                m.d.sync += result.eq(Mux(less, y, x))
            with m.Default():
                m.d.sync += result.eq(y)
        return result

    def _shift(self, m: Module, name: str, x: Value, y: Value) -> Signal:
        """Stages 1 to 5 of the shifts.

        {x, 0} moves right by the amount: the upper half is the quotient, the lower half what was
        dropped. Left by n is right by bits - n, taking the lower half.
        """
        bits = len(x)
        amount = y[:_AMOUNT_BITS].as_signed()
        negative = amount[-1]
        size = Mux(negative, -amount, amount)[:_AMOUNT_BITS]
        goes_left = (self.operation == AluOp.SHL) ^ negative
        # Amounts beyond the width: the lower half before any shift, all zeros, to the left; the
        # sign to the right.
        rest = bits - size
        to_left = Mux(size > bits, 0, rest[:6])
        to_right = Mux(size[-1], (1 << 6) - 1, size[:6])
        left = register(m, goes_left, name=f"{name}_left")
        steps = register(m, Mux(goes_left, to_left, to_right), name=f"{name}_steps")
        even = register(m, self.operation == AluOp.SHR_EVEN, name=f"{name}_even")
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
