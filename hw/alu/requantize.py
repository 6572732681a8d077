"""REQUANTIZE: accumulators to outputs in one pass, one group of lanes per cycle.

Input: accumulators, their channels' parameters, zero point and bounds. Output: output elements.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.parts.arithmetic import clamp, multiply_wide, round_up, saturate
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.multiplier import Operand
from daedal.isa.latencies import multiply_latency_cycles
from daedal.isa.scratchpad import SHIFT_BITS, Memory, scratchpad
from daedal.isa.table import IMMEDIATE_BITS
from daedal.isa.variant import Variant

__all__ = ["Requantizer", "parameter_layout"]

_FIXED_STAGES = 6
"""Stages other than the multiplier's: bias, two for the shift, limit, zero point, bounds."""

_LIMIT_BITS = IMMEDIATE_BITS + 2
"""A shifted value saturates to this width before the zero point is added: anything larger exceeds
every bound with any zero point, because outputs have at most 16 bits."""


def parameter_layout(variant: Variant) -> data.StructLayout:
    """One channel's entry of a parameter row, from bit 0 on; the rest of the entry is unused."""
    bits = variant.array.accumulator_bits
    used = {"bias": signed(bits), "multiplier": variant.units.multiplier_bits}
    spare = scratchpad(variant, Memory.PAR).element_bits - bits - used["multiplier"] - SHIFT_BITS
    return data.StructLayout({**used, "shift": SHIFT_BITS, "spare": spare})


class Requantizer(wiring.Component):
    """``clip(rhe((acc + bias) * multiplier * 2**-shift) + zero_point, low, high)`` per lane.

    Equals `isa.numerics.requantize` exactly. Throughput: one group per cycle; latency: `latency`
    cycles.

    Members
    -------
    acc : requantize_lanes accumulators. parameters : as many entries (`parameter_layout`).
    zero_point, low, high, wide : of this group's instruction (`wide` : only with such results).
    result : signed, of `Variant.result_bits` bits.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        lanes = variant.units.requantize_lanes
        array = variant.array
        super().__init__(
            {
                "acc": In(lanes * array.accumulator_bits),
                "parameters": In(data.ArrayLayout(parameter_layout(variant), lanes)),
                "zero_point": In(signed(IMMEDIATE_BITS)),
                "low": In(signed(array.output_bits)),
                "high": In(signed(array.output_bits)),
                **({"wide": In(1)} if variant.units.wide_requantize else {}),
                "result": Out(lanes * variant.result_bits),
            }
        )

    @staticmethod
    def _multiply_latency(variant: Variant) -> int:
        total_bits = variant.array.accumulator_bits + 1
        return multiply_latency_cycles(total_bits, variant.units.multiplier_bits)

    @staticmethod
    def latency(variant: Variant) -> int:
        """Latency in cycles from the operands to the result."""
        return _FIXED_STAGES + Requantizer._multiply_latency(variant)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        late = self._multiply_latency(self._variant) + 4
        require_at_elaboration(
            late + 2 == self.latency(self._variant),
            "the zero point must meet its lane two stages before the result: _FIXED_STAGES must be "
            "two more than the stages before the addition",
        )
        zero_point = delay(m, self.zero_point, late, name="zero_point")
        # If `low` exceeds `high`, `low` is set equal to `high`.
        crossed = self.low > self.high
        ordered = Mux(crossed, self.high, self.low)
        if self._variant.units.wide_requantize:
            low, high = self._wide_bounds(m, crossed, ordered, late)
        else:
            low = delay(m, ordered, late + 1, name="low")
            high = delay(m, self.high, late + 1, name="high")
        bits = self._variant.array.accumulator_bits
        for number in range(self._variant.units.requantize_lanes):
            acc = self.acc.word_select(number, bits).as_signed()
            result = self._lane(
                m, platform, f"lane{number}", acc, self.parameters[number], zero_point, low, high
            )
            width = self._variant.result_bits
            m.d.comb += self.result.word_select(number, width).eq(result)
        return m

    def _wide_bounds(
        self, m: Module, crossed: Value, ordered: Value, late: int
    ) -> tuple[Value, Value]:
        """`numerics.wide_bounds`, `late` + 1 cycles later; or the bounds as they are."""
        bits = self._variant.array.output_bits
        wide = delay(m, self.wide, late, name="wide")
        fill = delay(m, crossed, late, name="crossed")
        bounds = []
        for name, bound, below in (("low", ordered, fill), ("high", self.high, Const(1, 1))):
            narrow = delay(m, bound, late, name=f"{name}_narrow").as_signed()
            extended = Mux(wide, Cat(below.replicate(bits), narrow).as_signed(), narrow)
            bounds.append(register(m, extended.as_signed(), name=name))
        return bounds[0], bounds[1]

    def _lane(
        self, m: Module, platform: Platform, name: str, acc: Value, parameters: Any,
        zero_point: Value, low: Value, high: Value,
    ) -> Value:  # fmt: skip
        total = register(m, acc + parameters.bias, name=f"{name}_total")
        multiplier = register(m, parameters.multiplier, name=f"{name}_multiplier")
        product = multiply_wide(
            m,
            platform,
            Operand(acc + parameters.bias, total),
            Operand(parameters.multiplier, multiplier),
            name=name,
        )
        shift = delay(
            m, parameters.shift, self._multiply_latency(self._variant), name=f"{name}_shift"
        )

        # One fraction bit keeps the guard bit; sticky collects the bits dropped below it. Which
        # bits are dropped is decoded one cycle before the product.
        value = Cat(0, product).as_signed()
        falls = register(m, _fallen(shift[3:]), name=f"{name}_falls_coarse")
        shift = register(m, shift, name=f"{name}_shift_last")
        sticky = register(m, _dropped(value, falls, 8), name=f"{name}_sticky_coarse")
        value = register(m, value >> Cat(0, 0, 0, shift[3:]), name=f"{name}_shifted_coarse")
        falls = register(m, _fallen(shift[:3]), name=f"{name}_falls_fine")
        fine = register(m, shift[:3], name=f"{name}_fine")
        sticky = register(m, sticky | _dropped(value, falls, 1), name=f"{name}_sticky")
        value = register(m, value >> fine, name=f"{name}_shifted")

        floor, guard = value[1:].as_signed(), value[0]
        up = register(m, round_up(floor, guard, sticky), name=f"{name}_up")
        limited = register(m, saturate(floor, _LIMIT_BITS), name=f"{name}_limited")
        # The rounding bit is the carry-in of the zero point's addition.
        carried = Cat(1, limited).as_signed() + Cat(up, zero_point).as_signed()
        moved = register(m, carried[1:].as_signed(), name=f"{name}_moved")
        return register(m, clamp(moved, low, high), name=f"{name}_result")


def _fallen(steps: Value) -> Value:
    """Thermometer code of `steps`: bit n is set if a shift by `steps` drops piece n."""
    return Cat(steps > number for number in range((1 << len(steps)) - 1))


def _dropped(value: Value, falls: Value, step_bits: int) -> Value:
    """Whether any 1 is dropped when `value` shifts right by steps of `step_bits` (`_fallen`)."""
    pieces = [value[k * step_bits : (k + 1) * step_bits] for k in range(len(falls))]
    return Cat(piece.any() & fallen for piece, fallen in zip(pieces, falls, strict=True)).any()
