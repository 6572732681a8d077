"""Accesses of an instruction for the verifier: the second of two independent derivations.

Input: a program's instructions in order. Output: for each, ranges or arrays of places. The token
insertion uses `effects` instead, which expands every step as `semantics` does; here rows follow
from bounds and from patterns that instructions share. A mistake in only one of the two is noticed.

A *space* is a scratchpad or a region of external memory, and a *place* in it is a row, a micro-op
or a bus word.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction
from daedal.isa.loop_rows import LoopRows, Nest, Places, weight_rows
from daedal.isa.microcode import Expansion, UopArray, decode_uops, expand
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.scratchpad import TABLE_ENTRIES, Memory, scratchpads
from daedal.isa.table import (
    BASES,
    EXTENTS,
    AluOp,
    GemmMode,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
)
from daedal.isa.transfer import PADDABLE

__all__ = ["Footprints", "Touch"]

_UOPS = {Unit.GEMM: Memory.UOP_GEMM, Unit.ALU: Memory.UOP_ALU}
_MAX_LISTED_STEPS = 1 << 20
"""Most steps of an instruction that are listed one by one."""


class Touch(NamedTuple):
    """One access: the space by name (a scratchpad's, or one of `table.BASES`) and its places."""

    space: str
    places: Places
    write: bool


class Footprints:
    """Footprints of the instructions of one program, to be queried in program order.

    Attributes
    ----------
    sizes : per space, how many places it has.
    """

    def __init__(self, program: Program) -> None:
        self._variant = program.variant
        self._constants = program.constants
        self._pads = scratchpads(self._variant)
        self._bus_bytes = self._variant.bus_bytes
        self._depth_rows = {memory: pad.depth_rows for memory, pad in self._pads.items()}
        self.sizes = {memory.value: depth for memory, depth in self._depth_rows.items()}
        for memory in _UOPS.values():
            self.sizes[memory.value] *= self._pads[memory].elements
        self._region_bytes = dict(zip(BASES, program.region_bytes, strict=True))
        for name, size in self._region_bytes.items():
            self.sizes[name] = -(-size // self._bus_bytes)
        self._uops: dict[Unit, UopArray] = {}
        self._loaded = {}
        for unit, memory in _UOPS.items():
            self._uops[unit] = np.zeros(self.sizes[memory.value], dtype=np.uint64)
            self._loaded[unit] = np.zeros(self.sizes[memory.value], dtype=bool)
        self._loop_rows = LoopRows(self._variant)
        self._lines: dict[tuple[int, ...], IntArray] = {}

    def of(self, instruction: Instruction) -> Sequence[Touch]:
        """The accesses of the next instruction.

        Raises
        ------
        ProgramError
            It exceeds its scratchpad or its region, has wrong padding, or uses unknown micro-ops:
            not from the constants, or never loaded.
        """
        values = instruction.values
        if instruction.opcode is Opcode.LOAD:
            return self._load(values)
        if instruction.opcode is Opcode.STORE:
            memory = OutMemory(values.get("memory", 0)).memory
            rows = self._rows_moved("STORE", values, memory, 0, 0)
            row_bytes = self._pads[memory].row_bytes
            return [
                *_touch(memory.value, rows, write=False),
                *self._words_moved("STORE", values, row_bytes),
            ]
        if instruction.opcode is Opcode.GEMM:
            return self._gemm(values)
        if instruction.opcode is Opcode.ALU:
            return self._alu(values)
        return []

    def overwritten(self, instruction: Instruction) -> IntArray:
        """Accumulator rows that a GEMM overwrites, whatever they held; of the last `of`."""
        values = instruction.values
        nest = self._nest(Unit.GEMM, values) if values.get("overwrite", 0) else None
        none = np.zeros(0, dtype=np.int64)
        if nest is None:
            return none
        words = np.frombuffer(nest.words, dtype=np.uint64)
        first = words[decode_uops(self._variant, Unit.GEMM, words)["first"] > 0]
        if not first.size:
            return none
        depth = self._depth_rows[Memory.ACC]
        rows = self._loop_rows.rows(nest._replace(words=first.tobytes()), values, "acc", depth)
        return np.arange(depth)[rows]

    def steps(self, instruction: Instruction) -> Expansion | None:
        """Rows of each step of a GEMM or ALU, of the last `of`; None if they are too many."""
        if instruction.steps > _MAX_LISTED_STEPS:
            return None
        return expand(self._variant, instruction, self._uops[instruction.unit])

    def _load(self, values: Mapping[str, int]) -> list[Touch]:
        get = values.get
        target = LoadMemory(get("memory", 0))
        high = get("pad_top", 0) + get("pad_bottom", 0)
        wide = get("pad_left", 0) + get("pad_right", 0)
        if (high or wide) and target not in PADDABLE:
            known = ", ".join(item.name for item in PADDABLE)
            raise ProgramError(f"LOAD may pad only {known}, not {target.name}")
        memory = target.memory
        pad = self._pads[memory]
        element_bits = pad.memory_bits
        if target is LoadMemory.ACC_NARROW:
            element_bits = self._variant.array.input_bits
        elif target is LoadMemory.WGT_NARROW:
            element_bits = pad.memory_bits // 2
        rows = self._rows_moved("LOAD", values, memory, high, wide)
        words = self._words_moved("LOAD", values, pad.elements * element_bits // 8)
        if memory in _UOPS.values():
            rows = slice(rows.start * pad.elements, rows.stop * pad.elements)
            if words:
                self._keep_uops(Unit.GEMM if memory is Memory.UOP_GEMM else Unit.ALU, rows, words)
        return [*_touch(memory.value, rows, write=True), *words]

    def _rows_moved(
        self, name: str, values: Mapping[str, int], memory: Memory, high: int, wide: int
    ) -> slice:
        """Scratchpad rows of a transfer, which are contiguous; padding adds `high` lines and makes
        each line `wide` rows wider."""
        get = values.get
        total = get("blocks", 0) * (get("rows", 0) + high) * (get("cols", 0) + wide)
        begin, depth = get("row", 0), self._depth_rows[memory]
        if total and begin + total > depth:
            raise ProgramError(
                f"{name} must stay below {depth} rows of scratchpad {memory.value!r}, "
                f"not reach {begin + total - 1}"
            )
        return slice(begin, begin + total)

    def _words_moved(self, name: str, values: Mapping[str, int], row_bytes: int) -> list[Touch]:
        """Bus words of a transfer: lines of `cols` rows, in two strides."""
        get = values.get
        blocks, rows = get("blocks", 0), get("rows", 0)
        line = get("cols", 0) * row_bytes // self._bus_bytes
        if not blocks * rows * line:
            return []
        strides = get("block_stride_beats", 0), get("row_stride_beats", 0)
        begin = get("offset_beats", 0)
        span = (blocks - 1) * strides[0] + (rows - 1) * strides[1] + line
        region = BASES[get("base", 0)]
        if begin + span > self.sizes[region]:
            raise ProgramError(
                f"{name} must stay within {region} of {self._region_bytes[region]} bytes, not "
                f"reach bus word {begin + span - 1} (byte {(begin + span) * self._bus_bytes - 1})"
            )
        write = name == "STORE"
        dense = rows == 1 or strides[1] == line
        if dense and (blocks == 1 or strides[0] == rows * line):
            return [Touch(region, slice(begin, begin + span), write)]
        key = (blocks, rows, line, *strides)
        if key not in self._lines:
            b, r = np.arange(blocks)[:, None, None], np.arange(rows)[:, None]
            lines = b * strides[0] + r * strides[1] + np.arange(line)
            self._lines[key] = lines.reshape(-1)
        return [Touch(region, self._lines[key] + begin, write)]

    def _keep_uops(self, unit: Unit, slots: slice, words: Sequence[Touch]) -> None:
        """Remember the micro-ops that a LOAD loads."""
        (touch,) = words
        if touch.space != BASES[0]:
            raise ProgramError(f"micro-ops must be loaded from {BASES[0]}, not {touch.space}")
        known = len(self._constants) // self._bus_bytes
        content = np.frombuffer(self._constants, np.uint8, known * self._bus_bytes)
        lines = content.reshape(known, self._bus_bytes)
        places = touch.places
        last = places.stop - 1 if isinstance(places, slice) else int(places.max())
        if last >= known:
            raise ProgramError(
                f"micro-ops must lie within the constants of {len(self._constants)} bytes, "
                f"not reach byte {(last + 1) * self._bus_bytes - 1}"
            )
        self._uops[unit][slots] = lines[places].reshape(-1).view("<u8")
        self._loaded[unit][slots] = True

    def _gemm(self, values: Mapping[str, int]) -> list[Touch]:
        nest = self._nest(Unit.GEMM, values)
        if nest is None:
            return []
        depth, rows = self._depth_rows, self._loop_rows.rows
        mode = GemmMode(values.get("mode", 0))
        taps = mode.taps
        vectors = self._variant.array.block_out if taps else 1
        acc = rows(nest, values, "acc", depth[Memory.ACC])
        inp = rows(nest, values, "inp", depth[mode.operand], max(1, taps))
        wgt = rows(nest, values, "wgt", depth[Memory.WGT] * vectors)
        if taps:
            wgt = weight_rows(wgt, vectors, taps)
        return [
            Touch("uop_gemm", slice(values.get("uop_begin", 0), values["uop_end"]), False),
            Touch(mode.operand.value, inp, False),
            Touch("wgt", wgt, False),
            Touch("acc", acc, False),
            Touch("acc", acc, True),
        ]

    def _alu(self, values: Mapping[str, int]) -> list[Touch]:
        nest = self._nest(Unit.ALU, values)
        if nest is None:
            return []
        rows = self._loop_rows.rows
        operation = AluOp(values.get("operation", 0))
        target = OutMemory(values.get("destination", 0)).memory
        requantizes, immediate = operation.requantizes, bool(values.get("use_immediate"))
        reads_target = operation.takes_x and not immediate
        depth = self._depth_rows
        dst_limit = min(depth[target], depth[Memory.ACC]) if reads_target else depth[target]
        dst = rows(nest, values, "dst", dst_limit)
        src = rows(nest, values, "src", depth[Memory.ACC])
        par = rows(nest, values, "par", depth[Memory.PAR])
        result = [Touch("uop_alu", slice(values.get("uop_begin", 0), values["uop_end"]), False)]
        # Every operation but the immediate form of MOV reads the source.
        if operation.takes_x or requantizes or not immediate:
            result.append(Touch("acc", src, False))
        if reads_target:
            result.append(Touch("acc", dst, False))
        if requantizes:
            result.append(Touch("par", par, False))
        if operation is AluOp.LOOKUP:
            result.append(Touch("tab", self._table_rows(values.get("table", 0)), False))
        return [*result, Touch(target.value, dst, True)]

    def _table_rows(self, table: int) -> slice:
        """Rows that hold a table: any of its entries may be looked up."""
        per_row = self._pads[Memory.TAB].elements
        begin, end = table * TABLE_ENTRIES, (table + 1) * TABLE_ENTRIES
        return slice(begin // per_row, -(-end // per_row))

    def _nest(self, unit: Unit, values: Mapping[str, int]) -> Nest | None:
        """Micro-ops and loops of an instruction, or None if it has no steps."""
        begin, end = values.get("uop_begin", 0), values.get("uop_end", 0)
        uops = self._uops[unit]
        extents = tuple([values.get(name, 0) for name in EXTENTS])
        if end <= begin or not all(extents):
            return None
        if end > len(uops):
            raise ProgramError(
                f"{unit.name}.uop_end must be at most {len(uops)}, the micro-op memory, not {end}"
            )
        loaded = self._loaded[unit][begin:end]
        if not loaded.all():
            raise ProgramError(
                f"every micro-op must be loaded before it is used; micro-op "
                f"{begin + int(np.argmin(loaded))} of {unit.name} never was"
            )
        return Nest(unit, uops[begin:end].tobytes(), extents)


def _touch(space: str, places: slice, *, write: bool) -> list[Touch]:
    return [Touch(space, places, write)] if places.stop > places.start else []
