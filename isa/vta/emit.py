"""Translates operations into our instructions, without tokens."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from daedal.isa.instruction import Instruction
from daedal.isa.microcode import encode_uops
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import BASES, AluOp, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant
from daedal.isa.vta.memory_map import MemoryMap
from daedal.isa.vta.micro_ops import MicroOpCache, relocatable
from daedal.isa.vta.multiply import exact_product, independent_runs
from daedal.isa.vta.operations import (
    Move,
    Multiply,
    Nest,
    Operation,
    Vector,
    acc_reads,
    acc_writes,
)
from daedal.isa.vta.pieces import Limits
from daedal.isa.vta.stream import VtaMemory

__all__ = ["Emitter"]

_CONSTANTS, _WORKSPACE = BASES.index("constants"), BASES.index("workspace")

_SPILL_VECTORS = 16
"""Vectors multiplied at a time if accumulators must be spilled for temporaries."""

_LOAD_MEMORIES = {
    VtaMemory.INP: LoadMemory.INP,
    VtaMemory.WGT: LoadMemory.WGT,
    VtaMemory.ACC: LoadMemory.ACC,
    VtaMemory.ACC_8BIT: LoadMemory.ACC_NARROW,
}


class Emitter:
    """Emits `instructions` and `constants`; `workspace_bytes` is the size of the spill area."""

    def __init__(self, variant: Variant, memory: MemoryMap, operations: Sequence[Operation]):
        self.instructions: list[Instruction] = []
        self.constants = bytearray(scratchpad(variant, Memory.WGT).row_bytes)  # a row of zeros
        self.workspace_bytes = 0
        self._variant = variant
        self._memory = memory
        self._beat_bytes = variant.bus_bytes
        self._acc = scratchpad(variant, Memory.ACC)
        self._limits = {unit: Limits.of(variant, unit) for unit in (Unit.GEMM, Unit.ALU)}
        self._uops = {
            unit: MicroOpCache(variant, unit, self.constants) for unit in (Unit.GEMM, Unit.ALU)
        }
        self._fresh = np.zeros(self._acc.depth_rows, dtype=bool)  # OUT holds the accumulator
        self._written = np.zeros(self._acc.depth_rows, dtype=bool)
        used = np.zeros(self._acc.depth_rows, dtype=bool)
        for item in operations:
            used[acc_reads(item)] = used[acc_writes(item)] = True
        self._unused = _longest_run(~used)

    def emit(self, item: Operation) -> None:
        """Append the instructions of one operation."""
        if isinstance(item, Move):
            (self._store if item.store else self._load)(item)
        elif isinstance(item, Multiply):
            columns = item.nest.uops
            if item.first is not None:
                columns = {**columns, "first": item.first}
            self._loops(Unit.GEMM, item.nest, columns, overwrite=item.first is not None)
        elif item.operation is AluOp.MUL:
            self._multiply(item)
        else:
            self._vector(item)
        self._fresh[acc_writes(item)] = False
        self._written[acc_writes(item)] = True
        if isinstance(item, Vector) and item.destination is OutMemory.OUT:
            self._fresh[item.nest.rows("dst")] = True

    def _load(self, move: Move) -> None:
        if move.memory is VtaMemory.WGT and any(move.pads):
            self._load_padded_weights(move)
            return
        top, bottom, left, right = move.pads
        self._transfer(
            Opcode.LOAD, _LOAD_MEMORIES[move.memory], move,
            pad_top=top, pad_bottom=bottom, pad_left=left, pad_right=right,
        )  # fmt: skip

    def _load_padded_weights(self, move: Move) -> None:
        """Load zeros from the constants everywhere, then each row of weights."""
        self.instructions.append(
            Instruction.of(
                Opcode.LOAD, memory=LoadMemory.WGT, base=_CONSTANTS, row=move.row,
                blocks=1, rows=move.num_rows, cols=1,
            )
        )  # fmt: skip
        top, _, left, _ = move.pads
        for y in range(move.y):
            line = Move(
                store=False,
                memory=move.memory,
                row=move.row + (top + y) * move.width + left,
                y=1,
                x=move.x,
                stride=move.x,
                address=move.address + y * move.stride * move.memory.element_bytes,
            )
            self._load(line)

    def _store(self, move: Move) -> None:
        rows = slice(move.row, move.row + move.num_rows)
        stale = np.flatnonzero(~self._fresh[rows]) + move.row
        for nest in _same_rows(stale):
            self._vector(Vector(AluOp.MOV, nest, destination=OutMemory.OUT))
        self._fresh[rows] = True
        self._transfer(Opcode.STORE, OutMemory.OUT, move)

    def _transfer(self, opcode: Opcode, memory: int, move: Move, **pads: int) -> None:
        base, offset_bytes = self._memory.locate(move) if move.y else (0, 0)
        row_beats = move.memory.element_bytes // self._beat_bytes
        self.instructions.append(
            Instruction.of(
                opcode,
                memory=memory,
                base=base,
                row=move.row,
                offset_beats=offset_bytes // self._beat_bytes,
                blocks=1,
                rows=move.y,
                cols=move.x,
                row_stride_beats=move.stride * row_beats,
                **pads,
            )
        )

    def _vector(self, item: Vector) -> None:
        fields: dict[str, int] = {"operation": item.operation, "destination": item.destination}
        if item.immediate is not None:
            fields |= {"use_immediate": 1, "immediate": item.immediate}
        self._loops(Unit.ALU, item.nest, item.nest.uops, **fields)

    def _loops(
        self, unit: Unit, nest: Nest, columns: Mapping[str, IntArray], **fields: int
    ) -> None:
        limits = self._limits[unit]
        if not limits.fits(nest):
            assert not fields.get("overwrite"), "resets are folded into one instruction only"
            for piece in limits.pieces(nest):
                self._loops(unit, piece, piece.uops, **fields)
            return
        values = dict(fields)
        relative = {}
        for name, column in columns.items():
            if name == "first":
                relative[name] = column
                continue
            values[f"{name}_base"], relative[name] = relocatable(column)
            values[f"{name}_factor0"], values[f"{name}_factor1"] = nest.factors[name]
        begin, load = self._uops[unit].place(encode_uops(self._variant, unit, relative))
        if load is not None:
            self.instructions.append(load)
        self.instructions.append(
            Instruction.of(
                Opcode.GEMM if unit is Unit.GEMM else Opcode.ALU,
                uop_begin=begin,
                uop_end=begin + nest.num_uops,
                extent0=nest.extents[0],
                extent1=nest.extents[1],
                extent2=1,
                **values,
            )
        )

    def _multiply(self, item: Vector) -> None:
        dst, src = item.nest.rows("dst"), item.nest.rows("src")
        free = self._unused.stop - self._unused.start
        spills = free < 2
        limit = _SPILL_VECTORS if spills else min(free // 2, self._limits[Unit.ALU].num_uops)
        for run in independent_runs(dst, src, limit):
            size = 2 * (run.stop - run.start)
            if spills:
                temporary = self._window(np.concatenate([dst[run], src[run]]), size)
                # Rows that nothing has written yet hold another program's data.
                for nest in _same_rows(temporary[~self._written[temporary]]):
                    self._vector(Vector(AluOp.MOV, nest, 0))
                self._spill(Opcode.STORE, temporary)
            else:
                temporary = np.arange(self._unused.start, self._unused.start + size)
            for step in exact_product(dst[run], src[run], item.immediate, temporary):
                self._vector(step)
            if spills:
                self._spill(Opcode.LOAD, temporary)

    def _window(self, avoid: IntArray, size: int) -> IntArray:
        """`size` consecutive accumulator rows outside `avoid`."""
        allowed = np.ones(self._acc.depth_rows, dtype=bool)
        allowed[avoid] = False
        run = _longest_run(allowed)
        assert run.stop - run.start >= size, "the accumulators are many more than one run's rows"
        return np.arange(run.start, run.start + size, dtype=np.int64)

    def _spill(self, opcode: Opcode, rows: IntArray) -> None:
        """Spill accumulator rows to the workspace (STORE) or restore them (LOAD)."""
        self.workspace_bytes = max(self.workspace_bytes, len(rows) * self._acc.row_bytes)
        memory = OutMemory.ACC if opcode is Opcode.STORE else LoadMemory.ACC
        self.instructions.append(
            Instruction.of(
                opcode, memory=memory, base=_WORKSPACE, row=int(rows[0]),
                blocks=1, rows=1, cols=len(rows),
            )
        )  # fmt: skip


def _same_rows(rows: IntArray) -> Iterator[Nest]:
    """Nests of ALU whose source and destination are both these rows, which ascend."""
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if len(run):
            start = {"dst": run[:1], "src": run[:1]}
            yield Nest((1, len(run)), {"dst": (0, 1), "src": (0, 1)}, start)


def _longest_run(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> slice:
    """The longest run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    begins, ends = edges[0::2], edges[1::2]
    if len(begins) == 0:
        return slice(0, 0)
    best = int(np.argmax(ends - begins))
    return slice(int(begins[best]), int(ends[best]))
