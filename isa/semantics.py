"""Semantics of every instruction in numpy: *the* definition of the machine.

Input: a `State` (scratchpads), one instruction, external memory as a byte array, the four base
addresses and the bus words of the regions behind them. Output: the state and memory, changed in
place. Instructions run one after the other; tokens have no meaning here (`verifier` shows that
concurrency cannot change the result).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.elements import from_memory, to_memory
from daedal.isa.instruction import Instruction, reads_destination
from daedal.isa.lane import NumpyLane, reduce_lanes
from daedal.isa.microcode import Expansion, UopArray, expand
from daedal.isa.numerics import IntArray, requantize, saturate, wide_bounds, wrap
from daedal.isa.scratchpad import SHIFT_BITS, TABLE_ENTRIES, Memory, scratchpad, scratchpads
from daedal.isa.table import AluOp, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.transfer import Transfer, check_region, transfer
from daedal.isa.variant import Variant

__all__ = ["ByteMemory", "Parameters", "State", "execute"]

ByteMemory = npt.NDArray[np.uint8]


@dataclass
class Parameters:
    """The parameter scratchpad: three arrays of shape (rows, block_out)."""

    bias: IntArray
    multiplier: IntArray
    shift: IntArray


@dataclass
class State:
    """Scratchpad contents of one machine, all zero at first.

    Shapes: `inp` (rows, batch, block_in), `wgt` (rows, block_out, block_in), `acc` and `out`
    (rows, batch, block_out), micro-ops (count,), `tab` (rows, entries); without tables 0 rows.
    """

    variant: Variant
    inp: IntArray = field(init=False)
    wgt: IntArray = field(init=False)
    acc: IntArray = field(init=False)
    out: IntArray = field(init=False)
    par: Parameters = field(init=False)
    tab: IntArray = field(init=False)
    uops: dict[Unit, UopArray] = field(init=False)

    def __post_init__(self) -> None:
        pads = scratchpads(self.variant)

        def zeros(memory: Memory) -> IntArray:
            pad = pads[memory]
            return np.zeros((pad.depth_rows, *pad.shape), dtype=np.int64)

        self.inp, self.wgt = zeros(Memory.INP), zeros(Memory.WGT)
        self.acc, self.out = zeros(Memory.ACC), zeros(Memory.OUT)
        self.par = Parameters(zeros(Memory.PAR), zeros(Memory.PAR), zeros(Memory.PAR))
        self.tab = zeros(Memory.TAB) if Memory.TAB in pads else np.zeros((0, 0), dtype=np.int64)
        self.uops = {
            Unit.GEMM: zeros(Memory.UOP_GEMM).astype(np.uint64).reshape(-1),
            Unit.ALU: zeros(Memory.UOP_ALU).astype(np.uint64).reshape(-1),
        }


def execute(
    state: State,
    instruction: Instruction,
    memory: ByteMemory,
    bases: Sequence[int],
    region_words: Sequence[int],
) -> None:
    """Run one instruction. Raises ProgramError for rows or addresses that do not exist."""
    if instruction.opcode is Opcode.LOAD:
        _load(state, instruction, memory, bases, region_words)
    elif instruction.opcode is Opcode.STORE:
        _store(state, instruction, memory, bases, region_words)
    elif instruction.opcode is Opcode.GEMM:
        _gemm(state, instruction)
    elif instruction.opcode is Opcode.ALU:
        _alu(state, instruction)


def _addresses(
    state: State,
    instruction: Instruction,
    move: Transfer,
    memory: ByteMemory,
    bases: Sequence[int],
    region_words: Sequence[int],
) -> npt.NDArray[np.int64]:
    """Byte indices in `memory`, one line per scratchpad row moved: (rows, row_bytes)."""
    what = instruction.opcode.name
    reach = int(move.offsets_bytes.max(initial=0)) + move.row_bytes
    if move.offsets_bytes.size:
        check_region(state.variant, what, instruction.base, reach, region_words[instruction.base])
    starts = bases[instruction.base] + move.offsets_bytes
    if starts.size and (starts.min() < 0 or starts.max() + move.row_bytes > memory.size):
        raise ProgramError(
            f"{what} must stay within memory of {memory.size} bytes, "
            f"not reach byte {int(starts.max()) + move.row_bytes}"
        )
    lines: npt.NDArray[np.int64] = starts[:, None] + np.arange(move.row_bytes)
    return lines


def _load(
    state: State,
    instruction: Instruction,
    memory: ByteMemory,
    bases: Sequence[int],
    region_words: Sequence[int],
) -> None:
    variant = state.variant
    move = transfer(variant, instruction)
    target = LoadMemory(instruction.memory)
    lines = _addresses(state, instruction, move, memory, bases, region_words)
    raw = memory[lines]
    if target in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU):
        unit = Unit.GEMM if target is LoadMemory.UOP_GEMM else Unit.ALU
        per_row = move.row_bytes // 8
        slots = move.rows[:, None] * per_row + np.arange(per_row)
        state.uops[unit][slots] = raw.view(np.uint64)
        return
    if target is LoadMemory.PAR:
        acc_bits, m_bits = variant.array.accumulator_bits, variant.units.multiplier_bits
        entries = from_memory(raw, move.element_bits, signed=False, as_objects=True)
        entries = entries.reshape(len(raw), variant.array.block_out)
        for name, offset, bits in (
            ("bias", 0, acc_bits),
            ("multiplier", acc_bits, m_bits),
            ("shift", acc_bits + m_bits, SHIFT_BITS),
        ):
            column = ((entries >> offset) & ((1 << bits) - 1)).astype(np.int64)
            getattr(state.par, name)[move.rows] = wrap(column, bits) if name == "bias" else column
        return
    array: IntArray = getattr(state, target.memory.value)
    values = from_memory(raw, move.element_bits, signed=True)
    bits = scratchpad(variant, target.memory).element_bits
    array[move.rows] = wrap(values.reshape(len(raw), *array.shape[1:]), bits)
    array[move.pad_rows] = wrap(instruction.pad_value, bits)


def _store(
    state: State,
    instruction: Instruction,
    memory: ByteMemory,
    bases: Sequence[int],
    region_words: Sequence[int],
) -> None:
    move = transfer(state.variant, instruction)
    source = state.acc if instruction.memory == OutMemory.ACC else state.out
    lines = _addresses(state, instruction, move, memory, bases, region_words)
    # Rows may overlap in memory (stride 0): numpy keeps the last one, as the machine does.
    elements = source[move.rows].reshape(len(lines), source[0].size)
    memory[lines] = to_memory(elements, move.element_bits)


def _gemm(state: State, instruction: Instruction) -> None:
    variant = state.variant
    steps = expand(variant, instruction, state.uops[Unit.GEMM])
    if len(steps) == 0:
        return
    acc, inp, wgt = steps.rows["acc"], steps.rows["inp"], steps.rows["wgt"]
    touched, slot = np.unique(acc, return_inverse=True)
    # Only the last overwriting product of a row and those after it count.
    order = np.arange(len(steps))
    last_restart = np.full(len(touched), -1, dtype=np.int64)
    np.maximum.at(last_restart, slot[steps.restart], order[steps.restart])
    total = np.where((last_restart < 0)[:, None, None], state.acc[touched], 0)
    counts = order >= last_restart[slot]
    mode = GemmMode(instruction.mode)
    taps, operand = mode.taps, state.out if mode.operand is Memory.OUT else state.inp
    for chunk in np.array_split(np.flatnonzero(counts), max(1, len(steps) // 4096)):
        if not taps:
            product = np.einsum("nbi,noi->nbo", operand[inp[chunk]], state.wgt[wgt[chunk]])
            np.add.at(total, slot[chunk], product)
            continue
        rows, vectors = np.divmod(wgt[chunk], variant.array.block_out)
        for tap in range(taps):
            weights = state.wgt[rows, vectors + tap][:, None, :]
            np.add.at(total, slot[chunk], operand[inp[chunk] + tap] * weights)
    state.acc[touched] = wrap(total, variant.array.accumulator_bits)


def _alu(state: State, instruction: Instruction) -> None:
    steps = expand(state.variant, instruction, state.uops[Unit.ALU])
    for begin, end in _independent_runs(instruction, steps):
        rows = {name: index[begin:end] for name, index in steps.rows.items()}
        result = _alu_result(state, instruction, rows)
        if instruction.destination == OutMemory.ACC:
            state.acc[rows["dst"]] = wrap(result, state.variant.array.accumulator_bits)
        else:
            state.out[rows["dst"]] = wrap(result, state.variant.array.output_bits)


def _independent_runs(instruction: Instruction, steps: Expansion) -> list[tuple[int, int]]:
    """Split the vectors into runs; none reads a row that an earlier one of its run writes."""
    if len(steps) == 0:
        return []
    if instruction.destination != OutMemory.ACC:
        return [(0, len(steps))]
    dst, src = steps.rows["dst"].tolist(), steps.rows["src"].tolist()
    reads_dst = reads_destination(instruction)
    runs: list[tuple[int, int]] = []
    begin, written = 0, set[int]()
    for position, (d, s) in enumerate(zip(dst, src, strict=True)):
        if s in written or (d in written and reads_dst):
            runs.append((begin, position))
            begin, written = position, set()
        written.add(d)
    runs.append((begin, len(steps)))
    return runs


def _alu_result(state: State, instruction: Instruction, rows: dict[str, IntArray]) -> IntArray:
    operation = AluOp(instruction.operation)
    if operation not in AluOp.of(state.variant):
        raise ProgramError(
            f"ALU must compute what variant {state.variant.name!r} has, not {operation.name}"
        )
    source = state.acc[rows["src"]]
    if operation.requantizes:
        par = state.par
        low, high = instruction.low, instruction.high
        if instruction.wide:
            low, high = wide_bounds(low, high, state.variant.array.output_bits)
        requantized = requantize(
            source,
            par.bias[rows["par"]][:, None, :],
            par.multiplier[rows["par"]][:, None, :],
            par.shift[rows["par"]][:, None, :],
            instruction.immediate,
            low,
            high,
        )
        if operation is AluOp.REQUANTIZE:
            return requantized
        entries: IntArray = state.tab.reshape(-1, TABLE_ENTRIES)[instruction.table]
        looked_up: IntArray = entries[requantized & (TABLE_ENTRIES - 1)]
        return looked_up
    if instruction.use_immediate:
        x, y = source, np.broadcast_to(np.int64(instruction.immediate), source.shape)
    elif not operation.takes_x:
        x, y = source, source
    else:
        x, y = state.acc[rows["dst"]], source
    assert operation.formula is not None, "all others have one"
    bits = state.variant.array.accumulator_bits
    result: IntArray = (
        reduce_lanes(operation.formula, y, bits)
        if operation.over_lanes
        else operation.formula(NumpyLane(x, y, bits))
    )
    return saturate(result, state.variant.array.output_bits) if instruction.saturate else result
