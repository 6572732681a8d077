"""SUM_LANES and MAX_LANES: one result from all lanes of a batch row, one group per cycle.

Input: elements of accumulator rows and the operation. Output: a result for each batch row.
"""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.alu.hardware_lane import EARLY_STAGE, HardwareLane
from daedal.hw.family import Platform
from daedal.hw.parts.arithmetic import saturate
from daedal.hw.pipeline import delay, register
from daedal.isa.alu_operations import AluOp
from daedal.isa.latencies import adder_tree_cycles
from daedal.isa.variant import Variant

__all__ = ["LaneReductions"]

_LEVEL_CYCLES = EARLY_STAGE + 1
"""Latency of a level: the parts of its lanes, and the select of the operation's result."""


class LaneReductions(wiring.Component):
    """A tree of lanes for each batch row of a group; every `AluOp` over lanes.

    A node of the tree is a `HardwareLane` with the adder alone, whose x and y are two results of
    the level before. A group with less than a batch row takes the whole row, which the ALU holds,
    so no result depends on another group; throughput is that of other operations.

    Members
    -------
    y : `row_lanes` accumulators. operation : code of the elements of the next cycle.
    saturate : clamp to the output range.
    result : a value of accumulator width for each batch row.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        bits, lanes = variant.array.accumulator_bits, self.row_lanes(variant)
        super().__init__(
            {
                "y": In(lanes * bits),
                "operation": In(max(AluOp).bit_length()),
                "saturate": In(1),
                "result": Out(lanes // variant.array.block_out * bits),
            }
        )

    @staticmethod
    def row_lanes(variant: Variant) -> int:
        """Elements of a group: those of the ordinary lanes, at least a batch row."""
        return max(variant.units.alu_lanes, variant.array.block_out)

    @staticmethod
    def latency(variant: Variant) -> int:
        """Latency in cycles from the elements to the result."""
        return adder_tree_cycles(variant.array.block_out) * _LEVEL_CYCLES + 1

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        array = self._variant.array
        bits, count = array.accumulator_bits, self.row_lanes(self._variant)
        values = [self.y.word_select(lane, bits).as_signed() for lane in range(count)]
        late = 0
        while count // (1 << late) > len(self.result) // bits:
            operation = delay(m, self.operation, late * _LEVEL_CYCLES, name=f"operation{late}")
            values = self._level(m, platform, f"level{late}", operation, values)
            late += 1
        saturates = delay(m, self.saturate, late * _LEVEL_CYCLES, name="saturate")
        for number, value in enumerate(values):
            clamped = Signal(signed(bits), name=f"row{number}_clamped")
            m.d.comb += clamped.eq(saturate(value, array.output_bits))
            result = register(m, Mux(saturates, clamped, value), name=f"row{number}_result")
            m.d.comb += self.result.word_select(number, bits).eq(result)
        return m

    def _level(
        self, m: Module, platform: Platform, name: str, operation: Value, values: list[Value]
    ) -> list[Value]:
        """Combine neighbours; `operation` comes one cycle before `values`."""
        bits = self._variant.array.accumulator_bits
        operations = [op for op in AluOp.of(self._variant) if op.over_lanes]
        before = delay(m, operation, EARLY_STAGE, name=f"{name}_before")
        flags = {
            op: register(m, before == op, name=f"{name}_is_{op.name.lower()}")
            for op in operations[1:]
        }
        results = []
        for number in range(len(values) // 2):
            node = f"{name}_node{number}"
            x, y = values[2 * number : 2 * number + 2]
            lane = HardwareLane(self._variant, m, platform, node, x, y, operation)
            first, *others = (op.formula(lane).value for op in operations if op.formula is not None)
            chosen = first
            for flag, other in zip(flags.values(), others, strict=True):
                chosen = Mux(flag, other, chosen)
            held = register(m, chosen[:bits], name=f"{node}_result")
            results.append(held.as_signed())
        return results
