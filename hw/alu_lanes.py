"""The ordinary operations of the ALU, one group of lanes per cycle.

Input: operands x and y and the operation. Output: results of accumulator width.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.arithmetic import saturate
from daedal.hw.hardware_lane import EARLY_STAGE, LATE_STAGE, HardwareLane, Staged
from daedal.hw.pipeline import delay, register
from daedal.isa.alu_operations import AluOp
from daedal.isa.variant import Variant

__all__ = ["AluLanes"]

_LATENCY = LATE_STAGE + 2


class AluLanes(wiring.Component):
    """Every `AluOp` with a formula, in 7 stages.

    Stages 1 to 5 are the parts of `HardwareLane`; beside its shifter, 2 chooses among the other
    results; 6 chooses between those and the shifter's; 7 saturates.

    Members
    -------
    x, y : alu_lanes accumulators. operation : AluOp. saturate : clamp to the output range.
    result : alu_lanes values of accumulator width.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        width = variant.units.alu_lanes * variant.array.accumulator_bits
        for op in AluOp:
            op.check()
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
        code = Value.cast(self.operation)
        early = delay(m, code, EARLY_STAGE, name="operation_early")
        late = delay(m, early, LATE_STAGE - EARLY_STAGE, name="operation_late")
        saturates = delay(m, self.saturate, LATE_STAGE + 1, name="saturate")
        for number in range(self._variant.units.alu_lanes):
            name = f"lane{number}"
            x = self.x.word_select(number, bits).as_signed()
            y = self.y.word_select(number, bits).as_signed()
            lane = HardwareLane(m, platform, name, x, y, code)
            results = {op: op.formula(lane) for op in AluOp if op.formula is not None}
            first = _select(m, f"{name}_early", bits, early, results, EARLY_STAGE)
            first = register(m, first, name=f"{name}_arithmetic")
            first = delay(m, first, LATE_STAGE - EARLY_STAGE - 1, name=f"{name}_value")
            final = _select(m, f"{name}_late", bits, late, results, LATE_STAGE, first)
            wide = register(m, final, name=f"{name}_wide").as_signed()
            clamped = Signal(signed(bits), name=f"{name}_clamped")
            m.d.comb += clamped.eq(saturate(wide, self._variant.array.output_bits))
            result = register(m, Mux(saturates, clamped, wide), name=f"{name}_result")
            m.d.comb += self.result.word_select(number, bits).eq(result)
        return m


def _select(
    m: Module,
    name: str,
    bits: int,
    operation: Value,
    results: dict[AluOp, Staged],
    stage: int,
    otherwise: Value | None = None,
) -> Signal:
    """The result of `operation` among those of a stage; operations that share one share a case."""
    groups: dict[int, tuple[Value, list[int]]] = {}
    for op, result in results.items():
        if result.stage == stage:
            groups.setdefault(id(result.value), (result.value, []))[1].append(int(op))
    chosen = Signal(bits, name=name)
    *cases, last = groups.values()
    if otherwise is not None:
        cases, last = [*cases, last], (otherwise, [])
    with m.Switch(operation):
        for value, codes in cases:
            with m.Case(*codes):
                # A product may be wider, a flag narrower; all results wrap to `bits`.
                m.d.comb += chosen.eq(value)
        with m.Default():
            m.d.comb += chosen.eq(last[0])
    return chosen
