"""`InstructionCost`: how long instructions occupy their units, or the bus."""

import math
from collections import Counter
from collections.abc import Iterable

from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.cost.machine import SHARED_BUS, TRANSFER_CYCLES, machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import EXTENTS, AluOp, Unit
from daedal.isa.variant import Variant

__all__ = ["InstructionCost", "num_steps"]


class InstructionCost:
    """Cycles of instructions on each unit and on the bus, without what they wait for."""

    def __init__(self, variant: Variant, memory: MemoryModel = DDR) -> None:
        self._machine = machine_cost(variant, memory)

    @property
    def latency(self) -> int:
        """Of a tile that goes through all units: LOAD, GEMM, ALU, STORE."""
        return sum(self._machine.latency.values())

    def of(self, instruction: Instruction, steps: int) -> int:
        """Those of one; `steps` are the micro-ops that GEMM or the ALU executes."""
        if instruction.unit is Unit.GEMM:
            return steps
        if instruction.unit is Unit.ALU:
            return steps * self._machine.alu(AluOp(instruction.values.get("operation", 0)))
        get = instruction.values.get
        row = self._machine.transfer_cycles.get((instruction.opcode, get("memory", 0)), 0)
        return round(get("blocks", 0) * get("rows", 0) * get("cols", 0) * row)

    def alone(self, instruction: Instruction) -> int:
        """Those of one of a chain, as the layers of a decoder are: operations of the ALU wait for
        the results of those before them."""
        cycles = self.of(instruction, instruction.steps)
        return cycles + self._machine.dependent * (instruction.unit is Unit.ALU)

    def undisturbed(self, instruction: Instruction) -> int:
        """Those of one while nothing else uses the bus."""
        transfer = instruction.unit not in (Unit.GEMM, Unit.ALU)
        return self.of(instruction, instruction.steps) + TRANSFER_CYCLES * transfer

    def shared(self, instruction: Instruction) -> int:
        """Those of one while the bus is busy, so that a transfer takes longer than its words."""
        cycles = self.of(instruction, instruction.steps)
        if instruction.unit in (Unit.GEMM, Unit.ALU):
            return cycles
        return int(cycles * SHARED_BUS) + TRANSFER_CYCLES

    def by_unit(self, items: Iterable[SegmentInstruction]) -> Counter[str]:
        """The sums of GEMM, of the ALU, and of all others on the bus."""
        busy: Counter[str] = Counter()
        for item in items:
            unit = item.unit
            if unit is Unit.GEMM:
                busy["GEMM"] += num_steps(item)
            elif unit is Unit.ALU:
                busy["ALU"] += self.of(item.template, num_steps(item))
            else:
                busy["bus"] += self.of(item.template, 0)
        return busy


def num_steps(item: SegmentInstruction) -> int:
    """Micro-ops that an instruction of GEMM or ALU executes."""
    get = item.template.values.get
    return len(item.uops or ()) * math.prod([get(name, 1) for name in EXTENTS])
