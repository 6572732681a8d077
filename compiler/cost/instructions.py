"""`InstructionCost`: how long instructions occupy their units, or the bus."""

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.cost.machine import SHARED_BUS, TRANSFER_CYCLES, machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import EXTENTS, AluOp, Unit
from daedal.isa.variant import Variant

__all__ = ["InstructionCost", "num_steps", "shared", "undisturbed"]

Integers = npt.NDArray[np.int64]


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

    def of_each(self, instructions: Iterable[Instruction]) -> Integers:
        """Those of each."""
        return np.fromiter((self.of(x, x.steps) for x in instructions), dtype=np.int64)

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


def undisturbed(cycles: Integers, units: Integers) -> Integers:
    """Cycles of instructions of these units while nothing else uses the bus."""
    return cycles + TRANSFER_CYCLES * _is_transfer(units)


def shared(cycles: Integers, units: Integers) -> Integers:
    """Those while the bus is busy, so that a transfer takes longer than its words."""
    longer = (cycles * SHARED_BUS).astype(np.int64) + TRANSFER_CYCLES
    return np.where(_is_transfer(units), longer, cycles)


def _is_transfer(units: Integers) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (units != Unit.GEMM) & (units != Unit.ALU)
    return found


def num_steps(item: SegmentInstruction) -> int:
    """Micro-ops that an instruction of GEMM or ALU executes."""
    get = item.template.values.get
    return len(item.uops or ()) * math.prod([get(name, 1) for name in EXTENTS])
