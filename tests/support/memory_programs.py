"""Random programs of loads and stores alone, and what they read, word by word."""

from collections.abc import Sequence

import numpy as np

from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import BASES, LoadMemory, Opcode
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import load_variant

__all__ = ["TINY", "WORD_BYTES", "load", "random_program", "reads", "spec", "store"]

TINY = load_variant("tiny")
WORD_BYTES = TINY.bus_bytes
"""One row of INP or OUT of `tiny` is one word of its bus."""

_INPUTS, _OUTPUTS, _WORKSPACE = (BASES.index(name) for name in ("inputs", "outputs", "workspace"))


def load(base: int, word: int, cols: int, *, rows: int = 1, stride: int = 0) -> Instruction:
    """A LOAD of `rows` times `cols` words."""
    return _transfer(Opcode.LOAD, base, word, cols, rows, stride, memory=LoadMemory.INP)


def store(base: int, word: int, cols: int, *, rows: int = 1, stride: int = 0) -> Instruction:
    """A STORE of `rows` times `cols` words."""
    return _transfer(Opcode.STORE, base, word, cols, rows, stride)


def _transfer(
    opcode: Opcode, base: int, word: int, cols: int, rows: int, stride: int, **values: int
) -> Instruction:
    return Instruction.of(
        opcode,
        base=base,
        offset_beats=word,
        blocks=1,
        rows=rows,
        cols=cols,
        row_stride_beats=stride,
        **values,
    )


def spec(name: str, base: int, word: int, num_words: int) -> TensorSpec:
    """A tensor of so many words."""
    return TensorSpec(name, base, word * WORD_BYTES, (1, 8, num_words, 1), 8, 1, 8)


def marked(layers: Sequence[Sequence[Instruction]]) -> tuple[Instruction, ...]:
    """One program of all layers: the last instruction of each unit in a layer bears its mark."""
    result = []
    for tag, items in enumerate(layers):
        last = {item.unit: number for number, item in enumerate(items)}
        for number, item in enumerate(items):
            is_last = last[item.unit] == number
            result.append(item.replace(mark=is_last, tag=tag if is_last else 0))
    return (*result, Instruction.of(Opcode.FINISH))


def random_program(rng: np.random.Generator) -> tuple[Program, list[TensorSpec]]:
    """Layers that read what earlier ones wrote and write over what nobody reads any more, or over
    what somebody still does; the last result is the output. Also each layer's result."""
    workspace = int(rng.integers(4, 40))
    num_layers = int(rng.integers(1, 7))
    layers, results = [], []
    for tag in range(num_layers):
        items = [load(_INPUTS, 0, 2)] if rng.random() < 0.3 or not tag else []
        for _ in range(int(rng.integers(0, 4)) if tag else 0):
            cols = int(rng.integers(1, 4))
            rows = int(rng.integers(1, 3))
            stride = cols + int(rng.integers(0, 3))
            room = workspace - (rows - 1) * stride - cols
            if room >= 0:
                word = int(rng.integers(0, room + 1))
                items.append(load(_WORKSPACE, word, cols, rows=rows, stride=stride))
        size = int(rng.integers(1, 5))
        last = tag == num_layers - 1
        base, word = (_OUTPUTS, 0) if last else (_WORKSPACE, int(rng.integers(0, workspace - 3)))
        size = size if last else min(size, workspace - word)
        items += [store(base, word + k, 1) for k in range(size)]
        layers.append(items)
        results.append(spec(f"t{tag}", base, word, size))
    program = Program(
        TINY,
        marked(layers),
        region_bytes=(0, 2 * WORD_BYTES, 8 * WORD_BYTES, workspace * WORD_BYTES),
        inputs=(spec("x", _INPUTS, 0, 2),),
        outputs=(results[-1],),
        marks={tag: item.name for tag, item in enumerate(results)},
    )
    return program, results


Words = dict[tuple[int, int], int]


def reads(program: Program) -> tuple[list[tuple[int, ...]], Words]:
    """What every LOAD reads, where each STORE writes its number and a word's place in it, and what
    is left in memory. Words that nobody wrote are 0; those of inputs are -1, -2, ..."""
    memory: Words = {
        (item.base, item.offset_bytes // WORD_BYTES + k): -1 - k
        for item in program.inputs
        for k in range(item.size_bytes // WORD_BYTES)
    }
    seen = []
    for number, item in enumerate(program.instructions):
        if item.opcode not in (Opcode.LOAD, Opcode.STORE):
            continue
        places = [
            (item.base, item.offset_beats + row * item.row_stride_beats + col)
            for row in range(item.rows)
            for col in range(item.cols)
        ]
        if item.opcode is Opcode.LOAD:
            seen.append(tuple(memory.get(place, 0) for place in places))
        else:
            for k, place in enumerate(places):
                memory[place] = 1000 * (number + 1) + k
    return seen, memory
