"""`random_program`: seeded random programs, valid by construction: all opcodes, modes, token pairs.

Two devices that leave the same bytes in memory after some hundreds of these agree. The instructions
are drawn first, in serial order; tokens come after, from a conservative search of its own for the
latest conflicting instruction of every other unit, plus tokens that nothing needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.effects import effects, external
from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.microcode import encode_uops, expand
from daedal.isa.numerics import integer_range
from daedal.isa.program import Program
from daedal.isa.scratchpad import TABLE_ROWS, Memory, scratchpad
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
WINDOW_ROWS = 64
"""A program works in the first and the last so many rows of each scratchpad: few enough that
accesses collide often, and both sides of the accumulators' banks."""
UOPS = 32
UOP_GROUP = 4
LONGEST_SEQUENCE = 12
MAX_STEPS = 160
LONG_BEATS = 96
"""Bus words of a row of memory that takes several bursts."""


@dataclass(frozen=True)
class RandomProgram:
    """A program and what its regions hold before the run, apart from the constants.

    `contents` has the inputs (1), outputs (2) and workspace (3).
    """

    program: Program
    contents: Mapping[int, bytes]
    seed: int


_Place = tuple[Memory | int, int]
"""A memory and a row of it, or a region and a bus word of it."""


@dataclass
class _Draft:
    variant: Variant
    rng: "np.random.Generator"
    instructions: list[Instruction] = field(default_factory=list)
    uops: dict[Unit, npt.NDArray[np.uint64]] = field(default_factory=dict)
    first_uop: dict[Unit, int] = field(default_factory=dict)

    def below(self, limit: int) -> int:
        """A number in [0, limit), small ones and the largest more often."""
        limit = max(1, limit)
        kind = self.rng.integers(4)
        if kind == 0:
            return int(self.rng.integers(min(limit, 4)))
        if kind == 1:
            return limit - 1
        return int(self.rng.integers(limit))

    def pick(self, *choices: int) -> int:
        return int(choices[int(self.rng.integers(len(choices)))])

    def windows(self, memory: Memory) -> list[tuple[int, int]]:
        """Row ranges [begin, end) that programs use."""
        return _windows(scratchpad(self.variant, memory).depth_rows)

    def chance(self, odds: float) -> bool:
        return bool(self.rng.random() < odds)


def _windows(depth: int) -> list[tuple[int, int]]:
    if depth <= 2 * WINDOW_ROWS:
        return [(0, depth)]
    return [(0, WINDOW_ROWS), (depth - WINDOW_ROWS, depth)]


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
    if variant.memory.tables:
        draft.instructions.append(_load(draft, LoadMemory.TAB))
    draw = {Unit.LOAD: _load, Unit.GEMM: _gemm, Unit.ALU: _alu, Unit.STORE: _store}
    while len(draft.instructions) < length:
        unit = Unit(int(rng.choice(4, p=(0.25, 0.2, 0.4, 0.15))))
        instruction = draw[unit](draft)
        if draft.chance(0.08):
            instruction = _emptied(draft, instruction)
        if draft.chance(0.1):
            instruction = instruction.replace(mark=1, tag=int(rng.integers(1 << 16)))
        draft.instructions.append(instruction)
    dump_beats = _dump(draft)
    instructions = [*_with_tokens(draft), Instruction.of(Opcode.FINISH)]
    size = REGION_BEATS * bus
    outputs = size + dump_beats * bus
    program = Program(
        variant, tuple(instructions), constants.tobytes(), (size, size, outputs, size)
    )
    contents = {base: rng.integers(0, 256, size, dtype=np.uint8).tobytes() for base in (1, 2, 3)}
    return RandomProgram(program, contents, seed)


def _draw_uops(draft: _Draft, unit: Unit, constants: npt.NDArray[np.uint8]) -> None:
    """Draw micro-ops into the constants (GEMM's first) and load them low or high in their memory.

    Neighbours form groups: rows close together, so that they meet soon, or spread out, or far up.
    """
    variant, rng = draft.variant, draft.rng
    fields = {}
    for name, item in micro_op_layout(variant, unit).items():
        column = []
        for _ in range(UOPS // UOP_GROUP):
            reach = min(1 << item.width, draft.pick(2, 4, 8, 48))
            far = draft.chance(0.15) and item.width > 6
            begin = (1 << item.width) - reach if far else 0
            column += [begin + draft.below(reach) for _ in range(UOP_GROUP)]
        fields[name] = column
    if unit is Unit.ALU:
        # The second half reads what it wrote some vectors before, where the bases agree.
        half, distance = UOPS // 2, int(rng.integers(1, 10))
        reach = scratchpad(variant, Memory.ACC).depth_rows
        if max(fields["dst"][half:]) < reach:
            fields["src"][half:] = np.roll(fields["dst"][half:], distance).tolist()
    words = encode_uops(variant, unit, fields)
    at = 0 if unit is Unit.GEMM else UOPS * 8
    constants[at : at + UOPS * 8] = words.view(np.uint8)
    memory = LoadMemory.UOP_GEMM if unit is Unit.GEMM else LoadMemory.UOP_ALU
    pad = scratchpad(variant, memory.memory)
    rows = UOPS // pad.elements
    row = draft.pick(0, pad.depth_rows - rows, int(rng.integers(pad.depth_rows - rows + 1)))
    draft.first_uop[unit] = first = row * pad.elements
    draft.uops[unit] = np.zeros(pad.depth_rows * pad.elements, dtype=np.uint64)
    draft.uops[unit][first : first + UOPS] = words
    draft.instructions.append(
        Instruction.of(
            Opcode.LOAD,
            memory=memory,
            row=row,
            offset_beats=at // variant.bus_bytes,
            blocks=1,
            rows=1,
            cols=rows,
        )
    )


def _load(draft: _Draft, memory: LoadMemory | None = None) -> Instruction:
    rng = draft.rng
    uops = (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU)
    data = [m for m in LoadMemory.of(draft.variant) if m not in uops]
    target = memory if memory is not None else data[int(rng.integers(len(data)))]
    for _ in range(100):
        values = _draw_transfer(draft, target.memory)
        values |= {"memory": int(target), "base": draft.pick(0, 1, 3)}
        if target in PADDABLE and draft.chance(0.6):
            for side in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
                values[side] = int(rng.integers(4)) if draft.chance(0.6) else 0
            if draft.chance(0.08):
                values[("rows", "cols")[draft.pick(0, 1)]] = 0
            values["pad_value"] = draft.pick(0, -1, 7, -128, 127, 32767, -32768)
        instruction = _placed(draft, Instruction.of(Opcode.LOAD, **values), target.memory)
        if instruction is not None:
            return _whole_table(draft, instruction) if target is LoadMemory.TAB else instruction
    return Instruction.of(Opcode.LOAD, memory=int(target), blocks=1, rows=1, cols=1)


def _whole_table(draft: _Draft, instruction: Instruction) -> Instruction:
    """The same LOAD, or one of a whole table, as a compiler would write it."""
    table = int(draft.rng.integers(draft.variant.memory.tables))
    whole = instruction.replace(row=table * TABLE_ROWS, blocks=1, rows=1, cols=TABLE_ROWS)
    touched = external(draft.variant, whole)
    fits = touched is not None and touched.beats[-1] < REGION_BEATS
    return whole if fits and draft.chance(0.5) else instruction


def _store(draft: _Draft) -> Instruction:
    memory = OutMemory(draft.pick(0, 1))
    for _ in range(100):
        values = _draw_transfer(draft, memory.memory)
        values |= {"memory": int(memory), "base": draft.pick(2, 3)}
        instruction = _placed(draft, Instruction.of(Opcode.STORE, **values), memory.memory)
        # Lines of one STORE that overlap would race with themselves on the bus: keep them apart.
        if instruction is not None and _distinct(draft.variant, instruction):
            return instruction
    return Instruction.of(Opcode.STORE, memory=int(memory), base=2, blocks=1, rows=1, cols=1)


def _draw_transfer(draft: _Draft, memory: Memory) -> dict[str, int]:
    rng = draft.rng
    beats = scratchpad(draft.variant, memory).row_beats(draft.variant)
    values = {
        "offset_beats": draft.below(REGION_BEATS),
        "blocks": int(rng.integers(1, 4)),
        "rows": int(rng.integers(1, 5)),
        "cols": int(rng.integers(1, 9)),
        "row_stride_beats": draft.below(64),
        "block_stride_beats": draft.below(256),
    }
    if draft.chance(0.15):
        # Many words in a row, which cross bursts and pages.
        values |= {"blocks": 1, "rows": 1, "cols": max(1, LONG_BEATS // beats)}
        values["offset_beats"] = draft.pick(500, values["offset_beats"])
    elif draft.chance(0.2):
        values |= {"blocks": 1, "rows": 1, "cols": 1}
    return values


def _placed(draft: _Draft, instruction: Instruction, memory: Memory) -> Instruction | None:
    """The transfer at rows of a window, or None where it does not fit; in memory it must."""
    height, width = instruction.rows, instruction.cols
    if instruction.opcode is Opcode.LOAD:
        height += instruction.pad_top + instruction.pad_bottom
        width += instruction.pad_left + instruction.pad_right
    windows = draft.windows(memory)
    begin, end = windows[int(draft.rng.integers(len(windows)))]
    room = end - begin - instruction.blocks * height * width
    if room < 0:
        return None
    touched = external(draft.variant, instruction)
    # The micro-ops at the start of the constants are data as good as any other.
    if touched is not None and touched.beats[-1] >= REGION_BEATS:
        return None
    # Even an empty transfer names a row that exists.
    return instruction.replace(row=begin + draft.below(min(room + 1, end - begin)))


def _distinct(variant: Variant, instruction: Instruction) -> bool:
    touched = external(variant, instruction)
    move = transfer(variant, instruction)
    beats = len(move.rows) * move.row_bytes // variant.bus_bytes
    return touched is None or len(touched.beats) == beats


def _loop_fields(
    draft: _Draft,
    unit: Unit,
    windows: Mapping[str, list[tuple[int, int]]],
    factors: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, int] | None:
    """Loops, bases and a micro-op range whose rows stay in windows; None if the draw did not.

    `factors` are the only ones of a field, where it is named.
    """
    rng = draft.rng
    length = int(rng.integers(1, LONGEST_SEQUENCE + 1))
    begin = int(rng.integers(UOPS - length + 1))
    first = draft.first_uop[unit]
    values = {"uop_begin": first + begin, "uop_end": first + begin + length}
    for level in range(LOOPS):
        values[f"extent{level}"] = draft.pick(1, 1, 2, 3, int(rng.integers(1, 7)))
        length *= values[f"extent{level}"]
    if length > MAX_STEPS:
        return None
    layout = micro_op_layout(draft.variant, unit)
    for name, choices in windows.items():
        item = layout[name]
        words = draft.uops[unit][values["uop_begin"] : values["uop_end"]]
        rows = (words >> np.uint64(item.offset)).astype(np.int64) & ((1 << item.width) - 1)
        reach = 0
        for level in range(LOOPS):
            usual = (0, 0, 1, 1, 2, int(rng.integers(32)))
            factor = draft.pick(*(factors or {}).get(name, usual)) & ((1 << item.width) - 1)
            values[f"{name}_factor{level}"] = factor
            reach += factor * (values[f"extent{level}"] - 1)
        low, high = int(rows.min()), int(rows.max()) + reach
        fitting = [(a, b) for a, b in choices if b - 1 >= high and b - a > high - low]
        if not fitting:
            return None
        a, b = fitting[int(rng.integers(len(fitting)))]
        least = max(0, a - low)
        values[f"{name}_base"] = least + draft.below(b - high - least)
    return values


def _gemm(draft: _Draft) -> Instruction:
    variant = draft.variant
    depthwise = variant.array.depthwise_taps > 0 and draft.chance(0.4)
    mode = GemmMode.DEPTHWISE if depthwise else GemmMode.DENSE
    if not depthwise and variant.units.gemm_reads_out and draft.chance(0.5):
        mode = GemmMode.DENSE_OUT
    if depthwise and variant.array.depthwise_taps > 1 and draft.chance(0.6):
        mode = GemmMode.DEPTHWISE3
    vectors = variant.array.block_out if depthwise else 1
    windows = {
        "acc": draft.windows(Memory.ACC),
        "inp": [(a, b - max(0, mode.taps - 1)) for a, b in draft.windows(mode.operand)],
        "wgt": [(a * vectors, b * vectors) for a, b in draft.windows(Memory.WGT)],
    }
    # Vectors of three taps stay in their rows where most strides are whole rows.
    factors = {"wgt": (0, 1, vectors, 3 * vectors)} if mode.taps > 1 else None
    while True:
        values = _loop_fields(draft, Unit.GEMM, windows, factors)
        if values is None:
            continue
        instruction = Instruction.of(
            Opcode.GEMM, mode=int(mode), overwrite=draft.pick(0, 1), **values
        )
        if mode.taps < 2 or _in_weight_rows(draft, instruction):
            return instruction


def _in_weight_rows(draft: _Draft, instruction: Instruction) -> bool:
    """Whether no product of three taps takes vectors of two weight rows."""
    try:
        expand(draft.variant, instruction, draft.uops[Unit.GEMM])
    except ProgramError:
        return False
    return True


def _alu(draft: _Draft) -> Instruction:
    variant, rng = draft.variant, draft.rng
    operations = AluOp.of(variant)
    operation = operations[int(rng.integers(len(operations)))]
    destination = OutMemory(draft.pick(0, 1))
    chains = 0.4
    if draft.chance(0.1):
        # Its rate is another than that of the others: results must meet sources in every phase.
        operation, destination, chains = AluOp.REQUANTIZE, OutMemory.ACC, 0.8
    table = 0
    if variant.memory.tables:
        # Tables are loaded often: several vectors must read what one LOAD has written.
        operation = AluOp.LOOKUP if draft.chance(0.2) else operation
        table = int(rng.integers(variant.memory.tables)) if operation is AluOp.LOOKUP else 0
    wide = draft.pick(0, 1) if operation.requantizes and variant.units.wide_requantize else 0
    immediate = 0 if operation.formula is None else draft.pick(0, 1)
    dst = draft.windows(destination.memory)
    if operation.takes_x and not immediate and destination is OutMemory.OUT:
        # A register form reads the accumulators at dst, too.
        depth = min(scratchpad(variant, memory.memory).depth_rows for memory in OutMemory)
        dst = _windows(depth)
    windows = {"dst": dst, "src": draft.windows(Memory.ACC), "par": draft.windows(Memory.PAR)}
    low, high = integer_range(variant.array.output_bits)
    width = instruction_layout(variant, Opcode.ALU)["immediate"].width
    number = int(rng.integers(*integer_range(width)))
    if draft.chance(0.6):
        number = draft.pick(0, 0, 0, 1, -1, 3, 8, 31, 63, -64, 47, -5, low, high)
    while True:
        values = _loop_fields(draft, Unit.ALU, windows)
        if values is None:
            continue
        bounds = sorted(int(x) for x in rng.integers(low, high + 1, 2))
        instruction = Instruction.of(
            Opcode.ALU,
            operation=int(operation),
            use_immediate=immediate,
            immediate=number,
            destination=int(destination),
            saturate=draft.pick(0, 1),
            low=bounds[0] if draft.chance(0.5) else low,
            high=bounds[1] if draft.chance(0.5) else high,
            table=table,
            wide=wide,
            **values,
        )
        return _chained(draft, instruction) if draft.chance(chains) else instruction


def _chained(draft: _Draft, instruction: Instruction) -> Instruction:
    """Let sources advance as destinations do, so that micro-ops decide which rows meet."""
    names = ("base", *(f"factor{level}" for level in range(LOOPS)))
    changes = {f"src_{name}": getattr(instruction, f"dst_{name}") for name in names}
    depth = scratchpad(draft.variant, Memory.ACC).depth_rows
    if max(changes.values()) >= depth:
        return instruction
    chained = instruction.replace(**changes)
    try:
        rows = expand(draft.variant, chained, draft.uops[Unit.ALU]).rows["src"]
    except ProgramError:
        return instruction
    inside = any(a <= rows.min() and rows.max() < b for a, b in draft.windows(Memory.ACC))
    return chained if inside else instruction


def _emptied(draft: _Draft, instruction: Instruction) -> Instruction:
    """The same instruction with nothing, or only pads, to do; its tokens still count."""
    if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
        if instruction.opcode is Opcode.LOAD and instruction.pad_left and instruction.pad_top:
            return instruction.replace(**{("rows", "cols")[draft.pick(0, 1)]: 0})
        return instruction.replace(**{("blocks", "rows", "cols")[draft.pick(0, 1, 2)]: 0})
    kind = draft.pick(0, 1, 2, 3, 4)
    if kind < LOOPS:
        return instruction.replace(**{f"extent{kind}": 0})
    begin = instruction.uop_begin
    return instruction.replace(uop_end=begin if kind == LOOPS else max(0, begin - 1))


def _dump(draft: _Draft) -> int:
    """Store every row that the program may have written, behind the rest of the outputs.

    Returns the bus words that this takes.
    """
    at = 0
    for memory in OutMemory:
        beats = scratchpad(draft.variant, memory.memory).row_beats(draft.variant)
        for begin, end in draft.windows(memory.memory):
            draft.instructions.append(
                Instruction.of(
                    Opcode.STORE,
                    memory=memory,
                    base=2,
                    row=begin,
                    offset_beats=REGION_BEATS + at,
                    blocks=1,
                    rows=1,
                    cols=end - begin,
                )
            )
            at += (end - begin) * beats
    return at


def _places(draft: _Draft, instruction: Instruction) -> tuple[set[_Place], set[_Place]]:
    """Places read and written."""
    reads = set[_Place]()
    writes = set[_Place]()
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
