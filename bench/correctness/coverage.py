"""What of the goals of `coverage_goals` random programs met.

Input: programs. Output: how often each goal was met, found statically: instructions and micro-ops
say which rows are touched in which order, tokens say what may run at the same time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bench.correctness.coverage_goals import (
    ALU_THEN_GEMM,
    ANOTHER_TABLE,
    DISTANCES,
    DURING_LOAD,
    GEMM_THEN_ALU,
    LOADED_AGAIN,
    SHIFTS,
    SIDES,
    UNITS,
    advancing,
    goals,
)
from daedal.isa.alu_operations import AluOp
from daedal.isa.effects import Access, effects, external
from daedal.isa.instruction import Instruction, reads_destination, units_of
from daedal.isa.lane import AMOUNT_BITS
from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.microcode import expand
from daedal.isa.numerics import wrap
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import BASES, LOOPS, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.transfer import PADDABLE, transfer
from daedal.isa.variant import Variant

__all__ = ["Coverage"]


class Coverage:
    """Counts of goals met.

    Attributes
    ----------
    counts
        By goal; goals that were not met are 0.
    """

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.counts: Counter[str] = Counter(dict.fromkeys(goals(variant), 0))

    def missing(self) -> list[str]:
        """Goals that no program met."""
        return [goal for goal, count in self.counts.items() if not count]

    def add(self, program: Program) -> None:
        """Count what `program` contains."""
        names = _Reader(program).names()
        for name in names:
            assert name in self.counts, f"{name!r} is no goal"
        self.counts.update(names)

    def add_all(self, programs: Iterable[Program]) -> "Coverage":
        """Count what all of `programs` contain."""
        for program in programs:
            self.add(program)
        return self


@dataclass(frozen=True)
class _Use:
    """An instruction that uses parts of a memory, and by unit the last one done before it."""

    index: int
    unit: Unit
    done: np.ndarray
    parts: set[int]


class _Reader:
    """Walks over one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variant = program.variant
        self.uops = {}
        for unit, memory in ((Unit.GEMM, Memory.UOP_GEMM), (Unit.ALU, Memory.UOP_ALU)):
            pad = scratchpad(self.variant, memory)
            self.uops[unit] = np.zeros(pad.depth_rows * pad.elements, dtype=np.uint64)
        self.done = {unit: np.full(len(UNITS), -1) for unit in UNITS}
        self.tokens: dict[tuple[Unit, Unit], list[np.ndarray]] = {}
        self.last: dict[str, dict[int, int]] = {"acc": {}, "dst": {}}
        self.steps = {"acc": 0, "dst": 0}
        self.banks: list[_Use] = []
        # Per row of the tables, the last LOAD; per table, the last LOOKUP; the last of all.
        self.table_loads: dict[int, int] = {}
        self.lookups: dict[int, int] = {}
        self.last_lookup: int | None = None
        # Instructions that use OUT; per row of it, the last one of the ALU and of GEMM.
        self.results: list[_Use] = []
        self.result_rows: dict[Unit, dict[int, int]] = {Unit.ALU: {}, Unit.GEMM: {}}

    def names(self) -> set[str]:
        """Goals that the program meets."""
        found: set[str] = set()
        for index, instruction in enumerate(self.program.instructions):
            if instruction.opcode is Opcode.FINISH:
                continue
            found.update(self._tokens(index, instruction))
            if instruction.mark:
                found.add(f"mark: {instruction.unit.name}")
            if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
                found.update(self._transfer(instruction))
            elif instruction.opcode is Opcode.GEMM:
                found.update(self._loops(instruction))
                found.update(self._gemm(instruction))
            else:
                found.update(self._loops(instruction))
                found.update(self._alu(instruction))
            accesses = effects(self.variant, instruction, self.uops.get(instruction.unit))
            found.update(self._tables(index, instruction, accesses))
            found.update(self._ranges(index, instruction.unit, accesses))
            if self.variant.units.gemm_reads_out:
                found.update(self._results(index, instruction, accesses))
        found.update(f"bank: {pair}" for pair in _side_by_side(self.banks))
        found.update(f"out: {pair}" for pair in _side_by_side(self.results))
        return found

    def _tokens(self, index: int, instruction: Instruction) -> Iterator[str]:
        """Tokens, and what is known to be done before the instruction starts (vector clocks)."""
        unit = instruction.unit
        taken = units_of(instruction.pop)
        if taken:
            yield f"tokens: {len(taken)} taken at once"
        for source in taken:
            yield f"tokens: {source.name} to {unit.name}"
            clock = self.tokens[source, unit].pop(0)
            self.done[unit] = np.maximum(self.done[unit], clock)
        after = self.done[unit].copy()
        after[unit] = index
        for target in units_of(instruction.push):
            self.tokens.setdefault((unit, target), []).append(after)

    def _transfer(self, instruction: Instruction) -> Iterator[str]:
        name = instruction.opcode.name
        move = transfer(self.variant, instruction)
        for field in ("blocks", "rows", "cols"):
            if getattr(instruction, field) == 0:
                yield f"{name}: {field} is 0"
        if instruction.opcode is Opcode.LOAD:
            memory = LoadMemory(instruction.memory)
            if len(move.rows):
                yield f"LOAD: {memory.name}"
                yield f"LOAD: from {BASES[instruction.base]}"
            if memory in PADDABLE and len(move.pad_rows):
                for side in SIDES:
                    if getattr(instruction, f"pad_{side}"):
                        yield f"LOAD: {memory.name} pad {side}"
                if not len(move.rows):
                    yield f"LOAD: {memory.name} only pads"
                if instruction.pad_value < 0:
                    yield f"LOAD: {memory.name} pad value negative"
            if memory in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU):
                self._load_uops(memory, instruction)
        elif len(move.rows):
            yield f"STORE: {OutMemory(instruction.memory).name} to {BASES[instruction.base]}"
        touched = external(self.variant, instruction)
        if touched is None:
            return
        bus = self.variant.bus_bytes
        run = instruction.cols * move.row_bytes // bus
        if len(move.rows) == 1:
            yield f"range: {name} of one row"
        if run > MAX_BURST_BEATS:
            yield f"range: {name} of several bursts"
        starts = move.offsets_bytes[:: max(1, instruction.cols)]
        if (starts // PAGE_BYTES != (starts + run * bus - 1) // PAGE_BYTES).any():
            yield f"range: {name} across a page"
        if instruction.blocks > 1:
            yield f"range: {name} of several planes"
        if name == "LOAD" and len(touched.beats) * bus < len(move.rows) * move.row_bytes:
            yield "range: LOAD reads words twice"

    def _load_uops(self, memory: LoadMemory, instruction: Instruction) -> None:
        """Micro-ops come from the constants, so that rows are known here."""
        assert instruction.base == 0, "micro-ops must come from the constants"
        unit = Unit.GEMM if memory is LoadMemory.UOP_GEMM else Unit.ALU
        move = transfer(self.variant, instruction)
        constants = np.frombuffer(self.program.constants, dtype=np.uint8)
        for row, offset in zip(move.rows, move.offsets_bytes, strict=True):
            words = constants[offset : offset + move.row_bytes].view(np.uint64)
            self.uops[unit][row * len(words) : (row + 1) * len(words)] = words

    def _loops(self, instruction: Instruction) -> Iterator[str]:
        name = instruction.opcode.name
        if instruction.uop_begin == instruction.uop_end:
            yield f"{name}: no micro-op"
        if instruction.uop_begin > instruction.uop_end:
            yield f"{name}: micro-ops end before they begin"
        extents = [getattr(instruction, f"extent{level}") for level in range(LOOPS)]
        runs = all(extents) and instruction.uop_begin < instruction.uop_end
        for level, extent in enumerate(extents):
            if not extent:
                yield f"{name}: extent{level} is 0"
            for index in advancing(instruction.unit):
                if runs and extent > 1 and getattr(instruction, f"{index}_factor{level}"):
                    yield f"{name}: {index} advances in loop {level}"

    def _gemm(self, instruction: Instruction) -> Iterator[str]:
        steps = expand(self.variant, instruction, self.uops[Unit.GEMM])
        if len(steps) == 0:
            return
        mode = GemmMode(instruction.mode).name
        yield f"GEMM: {mode} {'overwrites' if steps.restart.any() else 'accumulates'}"
        if GemmMode(instruction.mode).taps > 1:
            yield from (f"GEMM: {mode} {text}" for text in self._sliding(instruction, steps.rows))
        begin = self.steps["acc"]
        seen = self.last["acc"]
        for row, restart in zip(steps.rows["acc"].tolist(), steps.restart.tolist(), strict=True):
            now = self.steps["acc"]
            between = now - seen.get(row, -(10**9)) - 1
            if between in DISTANCES:
                text = "overwrites" if restart else "accumulates"
                yield f"hazard: GEMM acc {text} with {between} between"
                if seen[row] < begin:
                    yield "hazard: GEMM acc across instructions"
            seen[row] = now
            self.steps["acc"] += 1

    def _sliding(self, instruction: Instruction, rows: dict[str, np.ndarray]) -> Iterator[str]:
        """Where the windows of several taps lie, and how they move."""
        vectors = self.variant.array.block_out
        taps = GemmMode(instruction.mode).taps
        depth = scratchpad(self.variant, Memory.INP).depth_rows
        yield from (f"from row {k} of 4" for k in np.unique(rows["inp"] % 4))
        if rows["inp"].max() == depth - taps:
            yield "up to the last row"
        for lane in np.unique(rows["wgt"] % vectors):
            names = {0: "first possible", vectors - taps: "last"}
            yield f"up to the {names.get(int(lane), 'inner')} vector of a weight row"
        for level in range(LOOPS):
            if getattr(instruction, f"extent{level}") < 2:
                continue
            if step := getattr(instruction, f"inp_factor{level}"):
                yield f"inp moves by {step if step < 3 else '3 and more'}"
            if step := getattr(instruction, f"wgt_factor{level}"):
                if step == 1:
                    yield "wgt moves by 1"
                elif step % vectors == 0:
                    yield "wgt moves by a weight row"

    def _alu(self, instruction: Instruction) -> Iterator[str]:
        operation = AluOp(instruction.operation)
        target = OutMemory(instruction.destination)
        steps = expand(self.variant, instruction, self.uops[Unit.ALU])
        if len(steps) == 0:
            return
        immediate = instruction.use_immediate and operation.formula is not None
        form = "immediate" if immediate else "register"
        end = "saturates" if instruction.saturate else "truncates"
        yield f"ALU: {operation.name} {form} {target.name} {end}"
        if instruction.wide:
            yield f"ALU: {operation.name} wide {target.name}"
        if immediate and operation.parts & SHIFTS:
            yield f"ALU: {operation.name} amount {self._amount(instruction.immediate)}"
        yield from self._alu_hazards(instruction, operation, target, steps.rows)

    def _tables(
        self, index: int, instruction: Instruction, accesses: Sequence[Access]
    ) -> Iterator[str]:
        """LOADs of tables, and LOOKUPs in them."""
        rows = [row for a in accesses if a.memory is Memory.TAB for row in a.rows.tolist()]
        if instruction.unit is Unit.LOAD:
            self.table_loads.update(dict.fromkeys(rows, index))
        if instruction.unit is not Unit.ALU or not rows:
            return
        table = instruction.table
        yield f"ALU: LOOKUP in table {table}"
        if all(row in self.table_loads for row in rows):
            yield f"ALU: LOOKUP in table {table} of which every entry was loaded"
        if self.last_lookup not in (None, table):
            yield f"ALU: LOOKUP {ANOTHER_TABLE}"
        if table in self.lookups and any(
            self.table_loads.get(row, -1) > self.lookups[table] for row in rows
        ):
            yield f"ALU: LOOKUP {LOADED_AGAIN}"
        loads = (load for row, load in self.table_loads.items() if row not in rows)
        if any(load > self.done[Unit.ALU][Unit.LOAD] for load in loads):
            yield f"ALU: LOOKUP {DURING_LOAD}"
        self.lookups[table] = index
        self.last_lookup = table

    def _amount(self, immediate: int) -> str:
        amount = int(wrap(immediate, AMOUNT_BITS))
        if amount <= 0:
            return "negative" if amount else "zero"
        return "inside" if amount < self.variant.array.accumulator_bits else "beyond"

    def _alu_hazards(
        self,
        instruction: Instruction,
        operation: AluOp,
        target: OutMemory,
        rows: dict[str, np.ndarray],
    ) -> Iterator[str]:
        kind = "ordinary" if operation.formula is not None else "requantize"
        reads_dst = reads_destination(instruction)
        reads_src = operation.takes_x or operation.formula is None or not instruction.use_immediate
        begin, seen = self.steps["dst"], self.last["dst"]
        for dst, src in zip(rows["dst"].tolist(), rows["src"].tolist(), strict=True):
            now = self.steps["dst"]
            if reads_src and (between := now - seen.get(src, -(10**9)) - 1) in DISTANCES:
                yield f"hazard: ALU src after dst, {kind}, {between} between"
                if seen[src] < begin:
                    yield "hazard: ALU src after dst across instructions"
            if (between := now - seen.get(dst, -(10**9)) - 1) in DISTANCES:
                if reads_dst:
                    yield f"hazard: ALU dst read after dst, {between} between"
                if target is OutMemory.ACC:
                    yield f"hazard: ALU dst written again, {between} between"
            if reads_src and target is OutMemory.ACC and src == dst:
                yield "hazard: ALU src is dst"
            if reads_src and reads_dst:
                one = self._bank(src) == self._bank(dst)
                yield f"bank: ALU operands in {'one' if one else 'two'}"
            if target is OutMemory.ACC:
                seen[dst] = now
            self.steps["dst"] += 1

    def _bank(self, row: int) -> int:
        """As `hw.memory.accumulators.bank_of`: the top bit and the lowest bits."""
        half = self.variant.memory.acc_banks // 2
        depth = scratchpad(self.variant, Memory.ACC).depth_rows
        return row % half + half * (row >= depth // 2)

    def _ranges(self, index: int, unit: Unit, accesses: Sequence[Access]) -> Iterator[str]:
        banks: set[int] = set()
        for access in accesses:
            pad = scratchpad(self.variant, access.memory)
            last = pad.depth_rows - 1
            if access.memory in (Memory.UOP_GEMM, Memory.UOP_ALU) and unit is not Unit.LOAD:
                last = pad.depth_rows * pad.elements - 1
            if access.rows[0] == 0:
                yield f"range: first row of {access.memory.value}"
            if access.rows[-1] == last:
                yield f"range: last row of {access.memory.value}"
            if access.memory is Memory.ACC:
                banks.update(self._bank(row) for row in access.rows.tolist())
        yield from (f"bank: {unit.name} in {bank}" for bank in banks)
        if banks:
            self.banks.append(_Use(index, unit, self.done[unit].copy(), banks))

    def _results(
        self, index: int, instruction: Instruction, accesses: Sequence[Access]
    ) -> Iterator[str]:
        """Accesses to OUT, and whether a token of the instruction before orders them."""
        unit = instruction.unit
        rows: set[int] = set()
        for access in accesses:
            if access.memory is Memory.OUT:
                rows.update(access.rows.tolist())
        if not rows:
            return
        # OUT counts as one part.
        self.results.append(_Use(index, unit, self.done[unit].copy(), {0}))
        if unit is Unit.STORE:
            return
        other, text = {
            Unit.GEMM: (Unit.ALU, ALU_THEN_GEMM),
            Unit.ALU: (Unit.GEMM, GEMM_THEN_ALU),
        }[unit]
        before = max((self.result_rows[other].get(row, -1) for row in rows), default=-1)
        taken = other in units_of(instruction.pop)
        if taken and before >= 0 and before == self.done[unit][other]:
            yield f"hazard: {text}"
        self.result_rows[unit].update(dict.fromkeys(rows, index))
        if unit is Unit.GEMM and scratchpad(self.variant, Memory.OUT).depth_rows - 1 in rows:
            yield "range: GEMM multiplies the last row of out"


def _side_by_side(uses: list[_Use]) -> Iterator[str]:
    """Pairs of instructions that no token orders and that use one part both."""
    for later, earlier in combinations(reversed(uses), 2):
        assert earlier.index < later.index
        unordered = earlier.index > later.done[earlier.unit]
        if earlier.unit is not later.unit and unordered and later.parts & earlier.parts:
            a, b = sorted((later.unit, earlier.unit))
            yield f"{a.name} beside {b.name}"
