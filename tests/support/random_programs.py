"""Seeded random programs that are valid by construction: every opcode, mode and token pair.

The instructions are drawn first, in serial order; tokens come after, from a conservative search of
its own for the latest conflicting instruction of every other unit, plus tokens that nothing needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from daedal.isa.effects import effects, external
from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.microcode import encode_uops
from daedal.isa.numerics import integer_range
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import (
    LOOPS,
    MICRO_OPS,
    AluOp,
    GemmMode,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
    instruction_layout,
    micro_op_layout,
)
from daedal.isa.transfer import PADDABLE, transfer
from daedal.isa.variant import Variant

__all__ = ["RandomProgram", "random_program"]

REGION_BEATS = 1024
ROWS_USED = 192
"""Rows of each scratchpad that a program works in: few enough that accesses collide often."""
UOPS = 32
MAX_STEPS = 160


@dataclass
class RandomProgram:
    """A program and what its inputs and workspace regions hold before the run."""

    program: Program
    contents: Mapping[int, bytes]
    seed: int


@dataclass
class _Draft:
    variant: Variant
    rng: np.random.Generator
    instructions: list[Instruction] = field(default_factory=list)
    uops: dict[Unit, np.ndarray] = field(default_factory=dict)

    def below(self, limit: int) -> int:
        """A number in [0, limit), small ones and the largest more often."""
        limit = max(1, limit)
        kind = self.rng.integers(4)
        if kind == 0:
            return int(self.rng.integers(min(limit, 4)))
        if kind == 1:
            return limit - 1
        return int(self.rng.integers(limit))

    def rows(self, memory: Memory) -> int:
        return min(ROWS_USED, scratchpad(self.variant, memory).depth_rows)

    def chance(self, odds: float) -> bool:
        return bool(self.rng.random() < odds)


def random_program(variant: Variant, seed: int, *, length: int = 24) -> RandomProgram:
    """Draw a program of about `length` instructions and the memory it starts from."""
    rng = np.random.default_rng(seed)
    draft = _Draft(variant, rng)
    bus = variant.bus_bytes
    constants = rng.integers(0, 256, REGION_BEATS * bus, dtype=np.uint8)
    for unit in MICRO_OPS:
        _draw_uops(draft, unit, constants)
    for memory in (LoadMemory.INP, LoadMemory.WGT, LoadMemory.PAR, LoadMemory.ACC):
        draft.instructions.append(_load(draft, memory))
    draw = {Unit.LOAD: _load, Unit.GEMM: _gemm, Unit.ALU: _alu, Unit.STORE: _store}
    while len(draft.instructions) < length:
        unit = Unit(int(rng.choice(4, p=(0.3, 0.25, 0.3, 0.15))))
        instruction = draw[unit](draft)
        if draft.chance(0.05):
            instruction = _emptied(instruction)
        if draft.chance(0.1):
            instruction = instruction.replace(mark=1, tag=int(rng.integers(1 << 16)))
        draft.instructions.append(instruction)
    for memory in OutMemory:
        draft.instructions.append(_dump(draft, memory))
    instructions = [*_with_tokens(draft), Instruction.of(Opcode.FINISH)]
    size = REGION_BEATS * bus
    dump = sum(_dump_bytes(draft, memory) for memory in OutMemory)
    program = Program(
        variant, tuple(instructions), constants.tobytes(), (size, size, size + dump, size)
    )
    contents = {base: rng.integers(0, 256, size, dtype=np.uint8).tobytes() for base in (1, 2, 3)}
    return RandomProgram(program, contents, seed)


def _draw_uops(draft: _Draft, unit: Unit, constants: np.ndarray) -> None:
    """Put `UOPS` micro-ops at the start of the constants (GEMM) or behind them (ALU); load them."""
    fields = {}
    for name, item in micro_op_layout(draft.variant, unit).items():
        reach = min(1 << item.width, ROWS_USED // 4)
        fields[name] = [draft.below(reach) for _ in range(UOPS)]
    words = encode_uops(draft.variant, unit, fields)
    draft.uops[unit] = words
    at = 0 if unit is Unit.GEMM else UOPS * 8
    constants[at : at + UOPS * 8] = words.view(np.uint8)
    memory = LoadMemory.UOP_GEMM if unit is Unit.GEMM else LoadMemory.UOP_ALU
    rows = UOPS * 8 // max(8, draft.variant.bus_bytes)
    draft.instructions.append(
        Instruction.of(
            Opcode.LOAD,
            memory=memory,
            offset_beats=at // draft.variant.bus_bytes,
            blocks=1,
            rows=1,
            cols=rows,
        )
    )


def _load(draft: _Draft, memory: LoadMemory | None = None) -> Instruction:
    rng = draft.rng
    data = [m for m in LoadMemory if m not in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU)]
    target = memory if memory is not None else data[int(rng.integers(len(data)))]
    for _ in range(100):
        values = _draw_transfer(draft)
        values |= {"memory": int(target), "base": int(rng.choice((0, 1, 3)))}
        if target in PADDABLE and draft.chance(0.6):
            for side in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
                values[side] = int(rng.integers(4)) if draft.chance(0.6) else 0
            values["pad_value"] = int(rng.choice((0, -1, 7, -128, 127, 32767, -32768)))
        instruction = Instruction.of(Opcode.LOAD, **values)
        if _fits(draft, instruction, target.memory):
            return instruction
    return Instruction.of(Opcode.LOAD, memory=int(target), blocks=1, rows=1, cols=1)


def _store(draft: _Draft) -> Instruction:
    rng = draft.rng
    memory = OutMemory(int(rng.integers(2)))
    for _ in range(100):
        values = _draw_transfer(draft)
        # Lines of one STORE that overlap would race with themselves on the bus: keep them apart.
        base = int(rng.choice((2, 3)))
        instruction = Instruction.of(Opcode.STORE, **values, memory=int(memory), base=base)
        if _fits(draft, instruction, memory.memory) and _distinct(draft.variant, instruction):
            return instruction
    return Instruction.of(Opcode.STORE, memory=int(memory), base=2, blocks=1, rows=1, cols=1)


def _draw_transfer(draft: _Draft) -> dict[str, int]:
    rng = draft.rng
    return {
        "row": draft.below(64),
        "offset_beats": draft.below(REGION_BEATS),
        "blocks": int(rng.integers(1, 4)),
        "rows": int(rng.integers(1, 5)),
        "cols": int(rng.integers(1, 9)),
        "row_stride_beats": draft.below(64),
        "block_stride_beats": draft.below(256),
    }


def _fits(draft: _Draft, instruction: Instruction, memory: Memory) -> bool:
    height = instruction.rows
    width = instruction.cols
    if instruction.opcode is Opcode.LOAD:
        height += instruction.pad_top + instruction.pad_bottom
        width += instruction.pad_left + instruction.pad_right
    if instruction.row + instruction.blocks * height * width > draft.rows(memory):
        return False
    touched = external(draft.variant, instruction)
    if touched is None:
        return True
    # The micro-ops at the start of the constants are data as good as any other.
    return bool(touched.beats[-1] < REGION_BEATS)


def _distinct(variant: Variant, instruction: Instruction) -> bool:
    touched = external(variant, instruction)
    move = transfer(variant, instruction)
    beats = len(move.rows) * move.row_bytes // variant.bus_bytes
    return touched is None or len(touched.beats) == beats


def _loop_fields(draft: _Draft, unit: Unit, limits: Mapping[str, int]) -> dict[str, int] | None:
    """Loops, bases and a micro-op range with rows below `limits`; None if the draw did not fit."""
    rng = draft.rng
    begin = int(rng.integers(UOPS))
    end = int(rng.integers(begin, min(UOPS, begin + 8) + 1))
    values = {"uop_begin": begin, "uop_end": end}
    steps = end - begin
    for level in range(LOOPS):
        values[f"extent{level}"] = int(rng.integers(1, 7)) if draft.chance(0.9) else 0
        steps *= values[f"extent{level}"]
    if steps > MAX_STEPS:
        return None
    layout = micro_op_layout(draft.variant, unit)
    for name, limit in limits.items():
        item = layout[name]
        words = draft.uops[unit][begin:end] >> np.uint64(item.offset)
        reach = int((words.astype(np.int64) & ((1 << item.width) - 1)).max(initial=0))
        for level in range(LOOPS):
            factor = min(int(rng.choice((0, 0, 1, 1, 2, int(rng.integers(32))))), limit - 1)
            values[f"{name}_factor{level}"] = factor
            reach += factor * max(0, values[f"extent{level}"] - 1)
        if reach >= limit:
            return None
        values[f"{name}_base"] = draft.below(limit - reach)
    return values


def _gemm(draft: _Draft) -> Instruction:
    variant, rng = draft.variant, draft.rng
    depthwise = variant.array.depthwise_taps > 0 and draft.chance(0.3)
    vectors = variant.array.block_out if depthwise else 1
    limits = {
        "acc": draft.rows(Memory.ACC),
        "inp": draft.rows(Memory.INP),
        "wgt": draft.rows(Memory.WGT) * vectors,
    }
    while True:
        values = _loop_fields(draft, Unit.GEMM, limits)
        if values is not None:
            mode = GemmMode.DEPTHWISE if depthwise else GemmMode.DENSE
            overwrite = int(rng.integers(2))
            return Instruction.of(Opcode.GEMM, mode=int(mode), overwrite=overwrite, **values)


def _alu(draft: _Draft) -> Instruction:
    variant, rng = draft.variant, draft.rng
    operation = AluOp(int(rng.integers(len(AluOp))))
    destination = OutMemory(int(rng.integers(2)))
    limits = {
        "dst": min(draft.rows(Memory.ACC), draft.rows(Memory.OUT)),
        "src": draft.rows(Memory.ACC),
        "par": draft.rows(Memory.PAR),
    }
    immediate = 0
    if operation is not AluOp.REQUANTIZE:
        immediate = int(rng.integers(2))
    low, high = integer_range(variant.array.output_bits)
    width = instruction_layout(variant, Opcode.ALU)["immediate"].width
    number = int(rng.integers(*integer_range(width)))
    if draft.chance(0.5):
        number = int(rng.choice((0, 1, -1, 3, 8, 31, 63, -64, low, high)))
    while True:
        values = _loop_fields(draft, Unit.ALU, limits)
        if values is None:
            continue
        bounds = sorted(int(x) for x in rng.integers(low, high + 1, 2))
        return Instruction.of(
            Opcode.ALU,
            operation=int(operation),
            use_immediate=immediate,
            immediate=number,
            destination=int(destination),
            saturate=int(rng.integers(2)),
            low=bounds[0] if draft.chance(0.5) else low,
            high=bounds[1] if draft.chance(0.5) else high,
            **values,
        )


def _emptied(instruction: Instruction) -> Instruction:
    """The same instruction with nothing to do; its tokens still count."""
    if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
        return instruction.replace(blocks=0)
    return instruction.replace(uop_end=instruction.uop_begin)


def _dump_bytes(draft: _Draft, memory: OutMemory) -> int:
    return draft.rows(memory.memory) * scratchpad(draft.variant, memory.memory).row_bytes


def _dump(draft: _Draft, memory: OutMemory) -> Instruction:
    """Store every row that the program may have touched, behind the rest of the outputs."""
    before = sum(_dump_bytes(draft, other) for other in OutMemory if other < memory)
    return Instruction.of(
        Opcode.STORE,
        memory=int(memory),
        base=2,
        offset_beats=REGION_BEATS + before // draft.variant.bus_bytes,
        blocks=1,
        rows=1,
        cols=draft.rows(memory.memory),
    )


def _places(draft: _Draft, instruction: Instruction) -> tuple[set, set]:
    """Places read and written, as hashable pairs."""
    reads: set = set()
    writes: set = set()
    for access in effects(draft.variant, instruction, draft.uops.get(instruction.unit)):
        micro = access.memory in (Memory.UOP_GEMM, Memory.UOP_ALU)
        # The micro-op memories are written once, by the first LOADs: one place each will do.
        rows = [0] if micro else access.rows.tolist()
        (writes if access.write else reads).update((access.memory, row) for row in rows)
    touched = external(draft.variant, instruction)
    if touched is not None:
        target = writes if touched.write else reads
        target.update((touched.base, beat) for beat in touched.beats.tolist())
    return reads, writes


def _with_tokens(draft: _Draft) -> list[Instruction]:
    units = [instruction.unit for instruction in draft.instructions]
    places = [_places(draft, instruction) for instruction in draft.instructions]
    pops: list[set[Unit]] = [set() for _ in units]
    pushes: list[set[Unit]] = [set() for _ in units]
    waited: dict[tuple[Unit, Unit], int] = {}
    for later, unit in enumerate(units):
        reads, writes = places[later]
        for other in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE):
            if other is unit:
                continue
            free = range(waited.get((other, unit), -1) + 1, later)
            candidates = [i for i in free if units[i] is other]
            needed = [
                i
                for i in candidates
                if places[i][1] & reads or places[i][1] & writes or places[i][0] & writes
            ]
            if not needed and candidates and draft.chance(0.1):
                needed = [int(draft.rng.choice(candidates))]
            if needed:
                waited[other, unit] = needed[-1]
                pops[later].add(other)
                pushes[needed[-1]].add(unit)
    return [
        instruction.replace(pop=unit_mask(pops[i]), push=unit_mask(pushes[i]))
        for i, instruction in enumerate(draft.instructions)
    ]
