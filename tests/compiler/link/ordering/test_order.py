"""LOADs directly before what needs them, against the definition worked out pair by pair."""

import numpy as np

from daedal.compiler.codegen.segment import Instance, RowAccess, Runs, SegmentInstruction
from daedal.compiler.link.ordering.order import loads_by_need
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit

OPCODES = (Opcode.LOAD, Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.STORE)


def _runs(rng: np.random.Generator, count: int) -> Runs:
    """Up to `count` ranges of eight rows."""
    runs: list[tuple[int, int]] = []
    while len(runs) < count and (not runs or runs[-1][1] < 8):
        first = runs[-1][1] if runs else 0
        begin = int(rng.integers(first, 8))
        runs.append((begin, begin + int(rng.integers(1, 9 - begin))))
    return tuple(runs)


def drawn(rng: np.random.Generator) -> list[SegmentInstruction]:
    """Instructions on few instances and tensors, so that most depend on others."""
    instances = [Instance(f"buffer {number}", Memory.INP, 8) for number in range(3)]
    items = []
    for number in range(int(rng.integers(1, 30))):
        opcode = OPCODES[rng.integers(len(OPCODES))]
        rows = []
        for _ in range(1 if opcode is Opcode.LOAD else int(rng.integers(1, 3))):
            runs = _runs(rng, 1 if opcode is Opcode.LOAD else int(rng.integers(1, 3)))
            rows.append(RowAccess(instances[rng.integers(3)], "row", runs))
        moves = opcode in (Opcode.LOAD, Opcode.STORE)
        tensor = f"tensor {rng.integers(3)}" if moves else None
        template = Instruction.of(opcode, row=number) if moves else Instruction.of(opcode)
        items.append(SegmentInstruction(template, tuple(rows), tensor))
    return items


def _touched(access: RowAccess) -> set[int]:
    return {row for begin, end in access.runs for row in range(begin, end)}


def meet(load: SegmentInstruction, other: SegmentInstruction) -> bool:
    return any(
        a.instance is b.instance and _touched(a) & _touched(b)
        for a in load.rows
        for b in other.rows
    )


def defined(items: list[SegmentInstruction]) -> list[int]:
    """The numbers of `items` in their new order."""
    need: dict[int, int] = {}
    for number in reversed(range(len(items))):
        item = items[number]
        if item.unit is not Unit.LOAD:
            need[number] = number
            continue
        later = [other for other in need if other > number]
        users = [other for other in later if meet(item, items[other])]
        stores = [
            other
            for other in later
            if items[other].unit is Unit.STORE and items[other].tensor == item.tensor
        ]
        if users:
            need[number] = min(need[other] for other in (*users, *stores))
    return sorted(need, key=lambda n: (need[n], items[n].unit is not Unit.LOAD, n))


def test_every_load_comes_directly_before_the_first_instruction_that_needs_it(
    rng: np.random.Generator,
) -> None:
    moved = removed = 0
    for _ in range(300):
        items = drawn(rng)
        numbers = defined(items)
        found = loads_by_need(items)
        assert [id(item) for item in found] == [id(items[number]) for number in numbers]
        moved += numbers != sorted(numbers)
        removed += len(numbers) < len(items)
    assert moved > 50 and removed > 50
