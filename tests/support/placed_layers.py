"""Layers of a few placed instructions, with which passes of the linker are tested."""

from collections.abc import Sequence

from daedal.compiler.link.placement.placed import BeatRange, PlacedInstruction, PlacedRows
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant

__all__ = ["REGIONS", "TINY", "layers", "load", "multiply", "program_of", "store"]

TINY = load_variant("tiny")
REGIONS = (4096, 4096, 4096, 4096)
WORKSPACE = 3


def program_of(items: Sequence[PlacedInstruction]) -> PlacedProgram:
    """A program for `TINY`."""
    return PlacedProgram.of(TINY, REGIONS, items)


def load(memory: LoadMemory, row: int, count: int, word: int | None = None) -> PlacedInstruction:
    """A LOAD of constants, or of words of the workspace."""
    template = Instruction.of(Opcode.LOAD, memory=memory, row=row, rows=1, cols=count, blocks=1)
    rows = PlacedRows(memory.memory, row, ((0, count),), reads=False, writes=True)
    beats = None if word is None else BeatRange(WORKSPACE, word, 1, 1, count, 0, 0)
    return PlacedInstruction(template, 0, (rows,), "x", beats)


def multiply(*rows: tuple[Memory, int, int], steps: int = 0) -> PlacedInstruction:
    """Reads rows, and writes the first accumulator."""
    reads = [
        PlacedRows(memory, row, ((0, n),), reads=True, writes=False) for memory, row, n in rows
    ]
    writes = PlacedRows(Memory.ACC, 0, ((0, 1),), reads=False, writes=True)
    loops = {"extent0": steps, "extent1": 1, "extent2": 1, "uop_end": 1} if steps else {}
    return PlacedInstruction(Instruction.of(Opcode.GEMM, **loops), 0, (*reads, writes))


def store(word: int) -> PlacedInstruction:
    """A STORE of the first accumulator."""
    template = Instruction.of(Opcode.STORE, memory=OutMemory.ACC, rows=1, cols=1, blocks=1)
    rows = PlacedRows(Memory.ACC, 0, ((0, 1),), reads=True, writes=False)
    return PlacedInstruction(template, 0, (rows,), "x", BeatRange(WORKSPACE, word, 1, 1, 1, 0, 0))


def layers(count: int, row_step: int, steps: int = 0) -> list[PlacedInstruction]:
    """Layers that each read the result of the one before, and weights."""
    items = []
    for n in range(count):
        weights = n * row_step
        items += [
            load(LoadMemory.INP, 2 * n, 1, word=n),
            load(LoadMemory.WGT, weights, 4),
            multiply((Memory.INP, 2 * n, 1), (Memory.WGT, weights, 4), steps=steps),
            store(n + 1),
        ]
    return items
