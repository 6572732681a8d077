"""Hazards of random streams: the kernel against the definition, place by place."""

from itertools import chain

import numpy as np
import pytest

from daedal.compiler.link.placement import hazards as module
from daedal.compiler.link.placement.hazards import NUM_QUEUES, hazards
from daedal.compiler.link.placement.placed import BeatRange, PlacedInstruction, PlacedRows
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
REGIONS = (64 * TINY.bus_bytes, 0, 128 * TINY.bus_bytes, 256 * TINY.bus_bytes)
OPCODES = (Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.STORE)
MEMORIES = (Memory.INP, Memory.ACC, Memory.OUT)


def stream(rng: np.random.Generator, count: int) -> list[PlacedInstruction]:
    """Instructions that touch random rows and words; most touch few, so that old ones show."""
    items = []
    for _ in range(count):
        opcode = OPCODES[rng.integers(len(OPCODES))]
        rows = []
        for _ in range(rng.integers(0, 4)):
            first, begin = int(rng.integers(12)), int(rng.integers(12))
            runs = [(begin, begin + int(rng.integers(1, 6)))]
            for _ in range(rng.integers(3)):
                begin = runs[-1][1] + int(rng.integers(3))
                runs.append((begin, begin + int(rng.integers(1, 4))))
            reads, writes = ((True, False), (False, True), (True, True))[rng.integers(3)]
            memory = MEMORIES[rng.integers(len(MEMORIES))]
            rows.append(PlacedRows(memory, first, tuple(runs), reads, writes))
        beats = None
        if opcode in (Opcode.LOAD, Opcode.STORE) and rng.random() < 0.8:
            blocks, many, cols = (int(part) for part in rng.integers(1, 4, size=3))
            row_stride, block_stride = (int(part) for part in rng.integers(0, 9, size=2))
            base, offset = int(rng.integers(2, 4)), int(rng.integers(0, 60))
            beats = BeatRange(base, offset, blocks, many, cols, row_stride, block_stride)
        items.append(PlacedInstruction(Instruction.of(opcode), 0, tuple(rows), beats=beats))
    return items


def places(item: PlacedInstruction) -> list[tuple[object, bool]]:
    """Every row and bus word that an instruction touches, and whether it writes it."""
    found: list[tuple[object, bool]] = []
    for memory, first, runs, reads, writes in item.rows:
        for row in chain.from_iterable(range(begin, end) for begin, end in runs):
            found += [
                ((memory, first + row), how)
                for how, does in ((False, reads), (True, writes))
                if does
            ]
    if item.beats is not None:
        base, offset, blocks, rows, cols, row_stride, block_stride = item.beats
        for block in range(blocks):
            for row in range(rows):
                for col in range(cols):
                    word = offset + block * block_stride + row * row_stride + col
                    found.append(((base, word), item.unit is Unit.STORE))
    return found


def defined(items: list[PlacedInstruction]) -> list[list[int]]:
    """The latest conflicting instruction of every other unit."""
    found = []
    touched = [places(item) for item in items]
    for number, item in enumerate(items):
        latest = [NO_INSTRUCTION] * NUM_QUEUES
        for earlier in range(number):
            other = items[earlier].unit
            if other is not item.unit and any(
                mine == theirs and (writes or wrote)
                for mine, writes in touched[number]
                for theirs, wrote in touched[earlier]
            ):
                latest[other] = earlier
        found.append(latest)
    return found


def found(items: list[PlacedInstruction]) -> list[list[int]]:
    """By the kernel."""
    result: list[list[int]] = hazards(PlacedProgram.of(TINY, REGIONS, items)).tolist()
    return result


def test_random_streams(rng: np.random.Generator) -> None:
    for _ in range(4):
        items = stream(rng, 60)
        expected = defined(items)
        assert any(source != NO_INSTRUCTION for latest in expected for source in latest)
        assert found(items) == expected


@pytest.mark.parametrize("how", ["plain", "checked"])
def test_every_form_of_the_kernel(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    items = stream(rng, 30)
    expected = defined(items)
    monkeypatch.setattr(module, "_find", getattr(module._find, how))
    assert found(items) == expected


def test_nothing() -> None:
    assert found([]) == []
