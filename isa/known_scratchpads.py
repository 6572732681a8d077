"""A program that leaves known contents wherever random programs look.

After a run that was broken off nobody knows what the scratchpads hold. Behind this program, the
machine and the functional simulator agree again.
"""

import numpy as np

from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.microcode import encode_uops
from daedal.isa.program import Program
from daedal.isa.random_programs import WINDOW_ROWS, RandomProgram
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LOOPS, AluOp, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["known_scratchpads"]

_LOADED = (LoadMemory.INP, LoadMemory.WGT, LoadMemory.PAR, LoadMemory.ACC, LoadMemory.TAB)


def known_scratchpads(variant: Variant, seed: int) -> RandomProgram:
    """Load random rows, and one number into OUT, at both ends of every scratchpad."""
    rng = np.random.default_rng(seed)
    uops = scratchpad(variant, Memory.UOP_ALU).elements
    loaded = [memory for memory in LoadMemory.of(variant) if memory in _LOADED]
    zeros = encode_uops(variant, Unit.ALU, {name: [0] * uops for name in ("dst", "src", "par")})
    beats = [
        (end - begin) * scratchpad(variant, memory.memory).row_beats(variant)
        for memory in loaded
        for begin, end in _ends(variant, memory.memory)
    ]
    data = rng.integers(0, 256, max(beats) * variant.bus_bytes, dtype=np.uint8)
    loads = [
        _load(memory, begin, end - begin)
        for memory in loaded
        for begin, end in _ends(variant, memory.memory)
    ]
    loads.append(_load(LoadMemory.UOP_ALU, 0, 1, offset_beats=max(beats)))
    moves = [_move(begin, end - begin) for begin, end in _ends(variant, Memory.OUT)]
    loads[-1] = loads[-1].replace(push=unit_mask([Unit.ALU]))
    moves[0] = moves[0].replace(pop=unit_mask([Unit.LOAD]))
    constants = data.tobytes() + zeros.tobytes()
    program = Program(
        variant,
        (*loads, *moves, Instruction.of(Opcode.FINISH)),
        constants,
        (len(constants), 0, 0, 0),
    )
    return RandomProgram(program, {}, seed)


def _ends(variant: Variant, memory: Memory) -> list[tuple[int, int]]:
    """Row ranges that cover the windows of random programs; in a small memory they overlap."""
    depth = scratchpad(variant, memory).depth_rows
    span = min(depth, 2 * WINDOW_ROWS)
    return [(0, span), (depth - span, depth)]


def _load(memory: LoadMemory, row: int, rows: int, **more: int) -> Instruction:
    return Instruction.of(Opcode.LOAD, memory=memory, row=row, blocks=1, rows=1, cols=rows, **more)


def _move(row: int, rows: int) -> Instruction:
    loops = {f"extent{level}": 1 for level in range(LOOPS)} | {"extent0": rows}
    return Instruction.of(
        Opcode.ALU,
        operation=AluOp.MOV,
        use_immediate=1,
        immediate=5,
        destination=OutMemory.OUT,
        uop_begin=0,
        uop_end=1,
        dst_base=row,
        dst_factor0=1,
        **loops,
    )
