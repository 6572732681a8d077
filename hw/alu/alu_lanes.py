"""The ordinary operations of the ALU, one group of lanes per cycle.

Input: operands x and y and the operation. Output: results of accumulator width.
"""

import enum
from functools import reduce
from operator import or_
from typing import Any, cast

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.alu.hardware_lane import EARLY_STAGE, LATE_STAGE, HardwareLane, Staged
from daedal.hw.family import Platform
from daedal.hw.parts.arithmetic import saturate
from daedal.hw.pipeline import delay, register
from daedal.isa.alu_operations import AluOp
from daedal.isa.variant import Variant

__all__ = ["AluLanes"]

_LATENCY = LATE_STAGE + 2


class AluLanes(wiring.Component):
    """Every `AluOp` with a formula for one lane, in 7 stages.

    Stages 1 to 5 are the parts of `HardwareLane`. In parallel with its shifter, stage 2 selects
    among the other results; stage 6 selects between that result and the shifter's; stage 7
    saturates.

    Members
    -------
    x, y : alu_lanes accumulators. operation : AluOp of the operands of the next cycle.
    saturate : clamp to the output range.
    result : alu_lanes values of accumulator width.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        width = variant.units.alu_lanes * variant.array.accumulator_bits
        super().__init__(
            {
                "x": In(width),
                "y": In(width),
                "operation": In(_names(AluOp.of(variant))),
                "saturate": In(1),
                "result": Out(width),
            }
        )

    @staticmethod
    def latency() -> int:
        """Latency in cycles from the operands to the result."""
        return _LATENCY

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        bits = self._variant.array.accumulator_bits
        code = Value.cast(self.operation)
        saturates = delay(m, self.saturate, LATE_STAGE + 1, name="saturate")
        operations = AluOp.of(self._variant)
        early = _Choice(m, operations, delay(m, code, EARLY_STAGE, name="before_early"), "early")
        late = _Choice(m, operations, delay(m, code, LATE_STAGE, name="before_late"), "late")
        for number in range(self._variant.units.alu_lanes):
            name = f"lane{number}"
            x = self.x.word_select(number, bits).as_signed()
            y = self.y.word_select(number, bits).as_signed()
            lane = HardwareLane(self._variant, m, platform, name, x, y, code)
            results = {
                op: op.formula(lane)
                for op in operations
                if op.formula is not None and not op.over_lanes
            }
            first = early.of(bits, results, EARLY_STAGE)
            first = register(m, first, name=f"{name}_arithmetic")
            first = delay(m, first, LATE_STAGE - EARLY_STAGE - 1, name=f"{name}_value")
            final = late.of(bits, results, LATE_STAGE, first)
            wide = register(m, final, name=f"{name}_wide").as_signed()
            clamped = Signal(signed(bits), name=f"{name}_clamped")
            m.d.comb += clamped.eq(saturate(wide, self._variant.array.output_bits))
            result = register(m, Mux(saturates, clamped, wide), name=f"{name}_result")
            m.d.comb += self.result.word_select(number, bits).eq(result)
        return m


def _names(operations: tuple[AluOp, ...]) -> ShapeLike:
    """Names for waveforms; a machine does not name operations that it does not have."""
    make: Any = enum.IntEnum
    return cast(ShapeLike, make(AluOp.__name__, {op.name: int(op) for op in operations}))


class _Choice:
    """One-hot select of a stage's result by the operation, in registers for all lanes.

    `before` is the operation one cycle before that stage.
    """

    def __init__(self, m: Module, operations: tuple[AluOp, ...], before: Value, name: str) -> None:
        self._m, self._operations, self._before, self._name = m, operations, before, name
        self._flags: list[Signal] = []

    def of(
        self, bits: int, results: dict[AluOp, Staged], stage: int, otherwise: Value | None = None
    ) -> Value:
        """The result of the operation; operations with the same result share a flag.

        Operations of other stages take `otherwise`.
        """
        groups: dict[int, tuple[Value, list[int]]] = {}
        others = []
        for op in self._operations:
            result = results.get(op)
            if result is not None and result.stage == stage:
                groups.setdefault(id(result.value), (result.value, []))[1].append(int(op))
            else:
                others.append(int(op))
        cases = list(groups.values())
        if otherwise is not None:
            cases.append((otherwise, others))
        if not self._flags:
            for number, (_, codes) in enumerate(cases):
                flag = self._before.matches(*codes)
                self._flags.append(register(self._m, flag, name=f"{self._name}_flag{number}"))
        parts = []
        for flag, (value, _) in zip(self._flags, cases, strict=True):
            # A product may be wider than `bits`, a flag narrower; all results wrap to `bits`.
            part = Signal(bits, name=f"{self._name}_part")
            self._m.d.comb += part.eq(value)
            parts.append(Mux(flag, part, 0))
        return reduce(or_, parts)
