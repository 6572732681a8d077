"""GEMM and ALU instructions for nests of tensorized blocks.

Input: a block's forms and the live buffers. Output: instructions of a segment. A nest is one
instruction if the hardware loops and the micro-op memory allow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.concrete import Env, concrete_nests, loop_ranges
from daedal.compiler.codegen.forms import BlockForm, Form, RegionForm
from daedal.compiler.codegen.inplace import sliding_block
from daedal.compiler.codegen.instances import Live
from daedal.compiler.codegen.intrinsics import (
    ACCUMULATING,
    GEMM,
    IMMEDIATE,
    LOOKUP,
    MOVE,
    OVER_LANES,
    REGISTER,
    REQUANTIZE,
    REQUANTIZE_WIDE,
    RESULT,
    SLIDING,
    SQUARE,
)
from daedal.compiler.codegen.nest import Folded, Nest, accumulation_steps, fold
from daedal.compiler.codegen.padding import KEEP_PADDING, Interior, conditions
from daedal.compiler.codegen.segment import RowAccess, SegmentInstruction, shared
from daedal.compiler.codegen.window_nests import inside_loops, window_nests
from daedal.compiler.codegen.zero_weights import zeros_of
from daedal.compiler.tir.expr import Buffer
from daedal.isa.instruction import Instruction
from daedal.isa.numerics import wide_bounds
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import IMMEDIATE_BITS, AluOp, GemmMode, Opcode, OutMemory, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["OperationBuilder", "fold_limits"]

_COMMUTATIVE = (AluOp.ADD, AluOp.MUL, AluOp.MIN, AluOp.MAX)


def fold_limits(variant: Variant, opcode: Opcode) -> tuple[int, int]:
    """Most micro-ops of an instruction, and most iterations of a hardware loop."""
    pad = scratchpad(variant, Memory.UOP_GEMM if opcode is Opcode.GEMM else Memory.UOP_ALU)
    width = instruction_layout(variant, opcode)["extent0"].width
    # Half of the memory, so that the next sequence fits in the other half.
    return max(1, pad.depth_rows * pad.elements // 2), (1 << width) - 1


class OperationBuilder:
    """Builds the instructions of one variant.

    `interiors` gives the part of each buffer outside of which it holds padding zeros; products with
    these, and additions of them, are skipped. `window_interiors` gives the same for operands of
    reductions over windows, where the padding is an element that does not change the reduction.
    """

    def __init__(
        self,
        variant: Variant,
        interiors: Mapping[Buffer, Interior],
        window_interiors: Mapping[Buffer, Interior] = MappingProxyType({}),
    ) -> None:
        self._variant = variant
        self._interiors = interiors
        self._window_interiors = window_interiors
        self._max_uops = {}
        self._max_extent = {}
        for opcode in (Opcode.GEMM, Opcode.ALU):
            self._max_uops[opcode], self._max_extent[opcode] = fold_limits(variant, opcode)

    def build(self, form: BlockForm, env: Env, live: Live) -> Iterator[SegmentInstruction]:
        """Instructions for one execution of a tensorized block and the loops directly around it."""
        name = str(form.annotations["intrin"])
        if name in GEMM:
            yield from self._gemm(form, env, live, GEMM[name])
        elif name in REQUANTIZE:
            yield from self._requantize(form, env, live, REQUANTIZE[name])
        elif name in LOOKUP:
            table = live[form.read("table").region.buffer].instance
            for item in self._requantize(form, env, live, LOOKUP[name], AluOp.LOOKUP):
                runs = shared(((0, table.rows),))
                access = RowAccess(table, "table", runs, reads=True)
                yield item._replace(rows=(*item.rows, access))
        elif name in IMMEDIATE:
            yield from self._immediate(form, env, live, IMMEDIATE[name])
        elif name in REGISTER:
            yield from self._register(form, env, live, REGISTER[name])
        elif name in RESULT:
            yield from self._result(form, env, live, RESULT[name])
        elif name in ACCUMULATING:
            yield from self._accumulate(form, env, live, ACCUMULATING[name])
        elif name in SLIDING:
            yield from self._windows(form, env, live)
        elif name == MOVE:
            yield from self._unary(form, env, live, AluOp.MOV, OutMemory.OUT)
        elif name in OVER_LANES:
            yield from self._unary(form, env, live, OVER_LANES[name], OutMemory.ACC)
        elif name == SQUARE:
            yield from self._square(form, env, live)
        else:
            raise ScheduleError(
                f"block {form.realize.block.name!r} must be tensorized with an intrinsic of the "
                f"accelerator, not {name!r}"
            )

    def operands(self, form: BlockForm, live: Live) -> dict[str, RegionForm]:
        """The regions whose first rows the fields `*_base` hold, by the name before that. "x" is a
        first operand that must have the rows of "dst"."""
        name, dst = str(form.annotations["intrin"]), form.writes[0]
        if name in GEMM:
            return {"acc": dst, "inp": form.read("a"), "wgt": form.read("w")}
        x = form.read("x")
        if name in REQUANTIZE or name in LOOKUP:
            return {"dst": dst, "src": x, "par": form.read("par")}
        if name not in REGISTER and name not in RESULT:
            return {"dst": dst, "src": x}
        y = form.read("y")
        if REGISTER.get(name) in _COMMUTATIVE and not _same_instance(dst, x, live):
            x, y = y, x
        return {"dst": dst, "src": y, "x": x}

    def keeps_off(self, form: BlockForm) -> RegionForm | None:
        """The operand whose products or sums with padding are left out, or None."""
        name = str(form.annotations["intrin"])
        if name in SLIDING:
            source = form.read("x")
            return source if source.region.buffer in self._window_interiors else None
        if name in GEMM and not form.annotations.get(KEEP_PADDING):
            operand = form.read("a")
        elif REGISTER.get(name) is AluOp.ADD:
            operand = form.read("y")
        else:
            return None
        return operand if operand.region.buffer in self._interiors else None

    def edges(self, form: BlockForm) -> list[tuple[Form, range]] | None:
        """Conditions under which an operand has no padding, where it would be left out otherwise.

        None if the instructions depend on more of the position than whether these hold.
        """
        padded = self.keeps_off(form)
        if padded is None:
            return []
        if any(minimum.expr is not None for minimum in padded.minima):
            return None
        buffer = padded.region.buffer
        if str(form.annotations["intrin"]) not in SLIDING:
            return list(conditions(padded, self._interiors[buffer], {}))
        inner = self._window_interiors[buffer].ranges
        return [
            (minimum, range(inside.start, inside.stop - part.extent + 1))
            for minimum, part, inside in zip(
                padded.minima, padded.region.ranges, inner, strict=True
            )
        ]

    def places(self, form: BlockForm) -> tuple[Form, ...]:
        """Indices on whose values the instructions depend: of weights that are 0 for some."""
        name = str(form.annotations["intrin"])
        zeros = zeros_of(form, form.read("w")) if name in GEMM else None
        return () if zeros is None else (zeros.place,)

    def _gemm(
        self, form: BlockForm, env: Env, live: Live, mode: GemmMode
    ) -> Iterator[SegmentInstruction]:
        operands = self.operands(form, live)
        padded = self.keeps_off(form)
        factor = None if padded is None else ("inp", self._interiors[padded.region.buffer])
        zeros = zeros_of(form, operands["wgt"])
        for nest in concrete_nests(form, env, live, operands, factor, zeros):
            _check_accumulation(form, nest, "acc")
            for folded in self._folded(Opcode.GEMM, nest):
                rows = (
                    _access(folded, "acc", operands, live, reads=True, writes=True),
                    _access(folded, "inp", operands, live, reads=True, taps=mode.taps),
                    _access(folded, "wgt", operands, live, reads=True, taps=mode.taps),
                )
                template = Instruction.of(
                    Opcode.GEMM,
                    mode=mode,
                    overwrite=folded.nest.initial,
                    **_loop_fields(folded),
                )
                # The mark matters only with the overwrite bit; it is always set, so that
                # instructions with and without that bit share sequences.
                uops = tuple(
                    (*uop, int(first)) for uop, first in zip(folded.uops, folded.first, strict=True)
                )
                yield SegmentInstruction(template, rows, uops=uops)

    def _requantize(
        self,
        form: BlockForm,
        env: Env,
        live: Live,
        destination: OutMemory,
        operation: AluOp = AluOp.REQUANTIZE,
    ) -> Iterator[SegmentInstruction]:
        operands = self.operands(form, live)
        notes = form.annotations
        fields = {
            "operation": operation,
            "destination": destination,
            "saturate": 1,
            "immediate": int(notes["zero_point"]),
            "low": int(notes["low"]),
            "high": int(notes["high"]),
        }
        if notes["intrin"] == REQUANTIZE_WIDE:
            fields |= self._wide_bounds(fields["low"], fields["high"])
        for nest in concrete_nests(form, env, live, operands):
            for folded in self._folded(Opcode.ALU, nest):
                yield self._alu(folded, fields, operands, live)

    def _wide_bounds(self, low: int, high: int) -> dict[str, int]:
        """Fields of a REQUANTIZE with results of twice the bits, between `low` and `high`."""
        bits = self._variant.array.output_bits
        fields = {"low": low >> bits, "high": high >> bits, "wide": 1}
        assert wide_bounds(fields["low"], fields["high"], bits) == (low, high), f"{low} to {high}"
        return fields

    def _immediate(
        self, form: BlockForm, env: Env, live: Live, operation: AluOp
    ) -> Iterator[SegmentInstruction]:
        operands = self.operands(form, live)
        value = int(form.annotations["immediate"])
        limit = 1 << (IMMEDIATE_BITS - 1)
        if not -limit <= value < limit:
            raise ScheduleError(
                f"an immediate must have at most {IMMEDIATE_BITS} bits, not be {value} "
                f"(block {form.realize.block.name!r})"
            )
        fields = {
            "operation": operation,
            "use_immediate": 1,
            "immediate": value,
            "destination": OutMemory.ACC,
        }
        for nest in concrete_nests(form, env, live, operands):
            for folded in self._folded(Opcode.ALU, nest):
                yield self._alu(folded, fields, operands, live)

    def _register(
        self, form: BlockForm, env: Env, live: Live, operation: AluOp
    ) -> Iterator[SegmentInstruction]:
        x, y, operands = form.read("x"), form.read("y"), self.operands(form, live)
        padded = self.keeps_off(form)
        added = None if padded is None else self._interiors[padded.region.buffer]
        term = None if added is None else ("src" if operands["src"] is y else "x", added)
        for nest in concrete_nests(form, env, live, operands, term):
            in_place = _same_instance(operands["dst"], operands["x"], live)
            if not in_place or (nest.bases["dst"], nest.steps["dst"]) != (
                nest.bases["x"],
                nest.steps["x"],
            ):
                raise ScheduleError(
                    f"block {form.realize.block.name!r} must overwrite its first operand "
                    f"{x.region.buffer.name!r}: nothing else may read that buffer, and both must "
                    "be allocated at the same loop"
                )
            fields = {"operation": operation, "destination": OutMemory.ACC}
            for folded in self._folded(Opcode.ALU, _without(nest, "x")):
                yield self._alu(folded, fields, operands, live, updates=True)

    def _result(
        self, form: BlockForm, env: Env, live: Live, operation: AluOp
    ) -> Iterator[SegmentInstruction]:
        """Emit operations into OUT. The one row number says where the first operand is and where
        the result goes, so the linker gives both instances the same rows."""
        x, operands = form.read("x"), self.operands(form, live)
        fields = {"operation": operation, "destination": OutMemory.OUT}
        for nest in concrete_nests(form, env, live, operands):
            if (nest.bases["dst"], nest.steps["dst"]) != (nest.bases["x"], nest.steps["x"]):
                raise ScheduleError(
                    f"block {form.realize.block.name!r} must write its result as it reads its "
                    f"first operand {x.region.buffer.name!r}: both must be allocated at the same "
                    "loop and have the same rows"
                )
            for folded in self._folded(Opcode.ALU, _without(nest, "x")):
                item = self._alu(folded, fields, operands, live)
                read = item.rows[0]._replace(
                    instance=live[x.region.buffer].instance, reads=True, writes=False
                )
                yield item._replace(rows=(item.rows[0], read, *item.rows[1:]))

    def _accumulate(
        self, form: BlockForm, env: Env, live: Live, operation: AluOp
    ) -> Iterator[SegmentInstruction]:
        """Emit a reduction: its first step moves, the others combine."""
        operands = self.operands(form, live)
        move = {"operation": AluOp.MOV, "destination": OutMemory.ACC}
        combine = {"operation": operation, "destination": OutMemory.ACC}
        for nest in concrete_nests(form, env, live, operands):
            _check_accumulation(form, nest, "dst")
            for first, step in accumulation_steps(nest):
                for folded in self._folded(Opcode.ALU, step, reduce_outermost=True):
                    fields = move if first else combine
                    yield self._alu(folded, fields, operands, live, updates=not first)

    def _windows(self, form: BlockForm, env: Env, live: Live) -> Iterator[SegmentInstruction]:
        """Emit a reduction over sliding windows, in the rows of its operand."""
        operands = self.operands(form, live)
        block = form.realize.block
        sliding = sliding_block(block)
        if sliding.dim is None:
            return
        nests = list(concrete_nests(form, env, live, operands))
        if len(nests) != 1 or not nests[0].initial:
            raise ScheduleError(
                f"the loops around block {block.name!r} must cover whole windows, all in one nest"
            )
        along = form.writes[0].minima[sliding.dim].variables
        windows = sliding.windows(block, live[form.writes[0].region.buffer].shape[sliding.dim])
        source = self.keeps_off(form)
        ((inner, ranges),) = loop_ranges(form, env)
        inside = None
        nest = nests[0]
        if source is not None:
            interior = self._window_interiors[source.region.buffer]
            nest, inside = inside_loops(nest, source, interior, inner, ranges, sliding.dim)
        marks = [var in along for var in ranges]
        for step in window_nests(nest, marks, windows, self._variant, inside):
            fields = {"operation": step.operation, "destination": OutMemory.ACC}
            for folded in self._folded(Opcode.ALU, step.nest, reduce_outermost=True):
                yield self._alu(folded, fields, operands, live, updates=True)

    def _unary(
        self,
        form: BlockForm,
        env: Env,
        live: Live,
        operation: AluOp,
        destination: OutMemory,
    ) -> Iterator[SegmentInstruction]:
        """Emit an operation that takes y alone."""
        operands = self.operands(form, live)
        fields = {"operation": operation, "destination": destination}
        for nest in concrete_nests(form, env, live, operands):
            for folded in self._folded(Opcode.ALU, nest):
                yield self._alu(folded, fields, operands, live)

    def _square(self, form: BlockForm, env: Env, live: Live) -> Iterator[SegmentInstruction]:
        dst, x = form.writes[0], form.read("x")
        if not _same_instance(dst, x, live):
            raise ScheduleError(
                f"block {form.realize.block.name!r} must overwrite its operand "
                f"{x.region.buffer.name!r}: nothing else may read that buffer, and both must be "
                "allocated at the same loop"
            )
        operands = self.operands(form, live)
        fields = {"operation": AluOp.MUL, "destination": OutMemory.ACC}
        for nest in concrete_nests(form, env, live, operands):
            for folded in self._folded(Opcode.ALU, nest):
                yield self._alu(folded, fields, operands, live, updates=True)

    def _alu(
        self,
        folded: Folded,
        fields: Mapping[str, int],
        operands: Mapping[str, RegionForm],
        live: Live,
        updates: bool = False,
    ) -> SegmentInstruction:
        rows = [
            _access(folded, "dst", operands, live, reads=updates, writes=True),
            _access(folded, "src", operands, live, reads=True),
        ]
        if "par" in operands:
            rows.append(_access(folded, "par", operands, live, reads=True))
            uops = folded.uops
        else:
            uops = tuple((*uop, 0) for uop in folded.uops)
        template = Instruction.of(Opcode.ALU, **fields, **_loop_fields(folded))
        return SegmentInstruction(template, tuple(rows), uops=uops)

    def _folded(
        self, opcode: Opcode, nest: Nest, reduce_outermost: bool = False
    ) -> Iterator[Folded]:
        return fold(
            nest,
            max_uops=self._max_uops[opcode],
            max_extent=self._max_extent[opcode],
            reduce_outermost=reduce_outermost,
        )


def _without(nest: Nest, operand: str) -> Nest:
    """The nest without the rows of one operand."""
    return replace(
        nest,
        bases={name: row for name, row in nest.bases.items() if name != operand},
        steps={name: row for name, row in nest.steps.items() if name != operand},
    )


def _loop_fields(folded: Folded) -> dict[str, int]:
    fields = {f"{name}_base": row for name, row in folded.bases.items()}
    for level, extent in enumerate(folded.extents):
        fields[f"extent{level}"] = extent
        for name, factors in folded.factors.items():
            fields[f"{name}_factor{level}"] = factors[level]
    return fields


def _access(
    folded: Folded,
    name: str,
    operands: Mapping[str, RegionForm],
    live: Live,
    reads: bool = False,
    writes: bool = False,
    taps: int = 1,
) -> RowAccess:
    """The rows that an operand touches, `taps` rows from each position."""
    held = live[operands[name].region.buffer]
    scale = held.vectors or 1
    rows = sorted(
        (begin // scale, -(-end // scale)) for begin, end in folded.nest.runs(name, max(taps, 1))
    )
    instance, field = held.instance, f"{name}_base"
    assert rows[0][0] >= 0 and rows[-1][1] <= instance.rows, f"{field} leaves {instance}"
    return RowAccess(instance, field, shared(tuple(dict.fromkeys(rows))), reads, writes, scale)


def _same_instance(a: RegionForm, b: RegionForm, live: Live) -> bool:
    return live[a.region.buffer].instance is live[b.region.buffer].instance


def _check_accumulation(form: BlockForm, nest: Nest, target: str) -> None:
    for reduce, step, extent in zip(nest.reduce, nest.steps[target], nest.extents, strict=True):
        if extent > 1 and reduce != (step == 0):
            raise ScheduleError(
                f"a loop around block {form.realize.block.name!r} must either accumulate or move "
                "on to another accumulator, not both"
            )
