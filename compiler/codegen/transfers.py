"""LOAD and STORE instructions for tensorized copies.

Input: a copy's forms and the live buffers. The box of one execution has constant bounds. The part
of it outside the source tensor becomes the pads of the LOAD.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.boxes import CopyDim, Piece, split_box
from daedal.compiler.codegen.concrete import Env, loop_ranges
from daedal.compiler.codegen.forms import BlockForm, RegionForm, constant_of
from daedal.compiler.codegen.instances import MEMORIES, ROW_DIMS, Live, LiveBuffer, dense_strides
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.codegen.segment import RowAccess, SegmentInstruction
from daedal.compiler.codegen.vectors import group_pitch, num_rows, run_of_groups
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.stmt import Region
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode, OutMemory, instruction_layout
from daedal.isa.transfer import PADDABLE, memory_beats
from daedal.isa.variant import Variant

__all__ = ["TransferBuilder"]

_Box = list[range]
"""The indices that a copy touches, per dimension."""

_Loops = list[Var | None]
"""The loop that each dimension follows."""


@dataclass(frozen=True)
class _Copy:
    """A copy between a tensor and an on-chip buffer, as the instruction set sees it."""

    opcode: Opcode
    memory: LoadMemory | OutMemory
    tensor: Buffer
    chip: Buffer
    row_bytes: int
    pad_value: int


class TransferBuilder:
    """Builds the transfers of one variant.

    `names` gives the program's name of each tensor, `views` the layout of those that are not dense.
    """

    def __init__(
        self,
        variant: Variant,
        names: dict[Buffer, str],
        views: Mapping[Buffer, MemoryView],
    ) -> None:
        self._variant = variant
        self._names = names
        self._views = views
        layout = instruction_layout(variant, Opcode.LOAD)
        self._max_stride_beats = (1 << layout["row_stride_beats"].width) - 1
        self._max_pad = (1 << layout["pad_top"].width) - 1
        self.tensor_bytes: dict[str, int] = {}

    def build(self, form: BlockForm, env: Env, live: Live) -> Iterator[SegmentInstruction]:
        """Instructions for one execution of a copy (`form` is its leaf's) in its nest."""
        read = form.reads[0]
        if form.source is not None:
            # The choice depends on loops outside the nest. Loops of the nest that occur in it have
            # only one iteration.
            first = {loop.var: 0 for loop in form.loops}
            read = form.reads[constant_of(form.source, {**first, **env})]
        copy = self._copy(read.region, form.writes[0].region)
        for inner, ranges in loop_ranges(form, env):
            source = _box(read, inner, ranges)
            target = _box(form.writes[0], inner, ranges)
            loops = [_loops(side, inner, ranges) for side in (read, form.writes[0])]
            yield from self._box(copy, (source, target), (loops[0], loops[1]), live)

    def tensor_boxes(self, form: BlockForm, env: Env) -> Iterator[_Box]:
        """What one execution of a copy from a single region touches of its tensor."""
        read, write = form.reads[0], form.writes[0]
        tensor = write if write.region.buffer.scope == "global" else read
        for inner, ranges in loop_ranges(form, env):
            yield _box(tensor, inner, ranges)

    def strides_beats(self, form: BlockForm) -> tuple[int, ...]:
        """Strides in memory of the tensor of a copy from a single region, per leading dimension."""
        return self._view(self._copy(form.reads[0].region, form.writes[0].region)).strides_beats

    def _view(self, copy: _Copy) -> MemoryView:
        view = self._views.get(copy.tensor)
        if view is None:
            beats = copy.row_bytes // self._variant.bus_bytes
            dense = dense_strides(copy.tensor.shape[:-ROW_DIMS])
            view = MemoryView(tuple(stride * beats for stride in dense), 0)
        return view

    def _copy(self, source: Region, target: Region) -> _Copy:
        variant = self._variant
        memory: LoadMemory | OutMemory
        if target.buffer.scope == "global":
            memory = OutMemory.ACC if source.buffer.scope == "acc" else OutMemory.OUT
            opcode, tensor, chip = Opcode.STORE, target.buffer, source.buffer
        else:
            tensor, chip, opcode = source.buffer, target.buffer, Opcode.LOAD
            kind = MEMORIES[chip.scope]
            memory = LoadMemory[kind.name]
            if kind is Memory.ACC and tensor.dtype != chip.dtype:
                memory = LoadMemory.ACC_NARROW
            elif (view := self._views.get(tensor)) is not None and view.narrow:
                assert kind is Memory.WGT, "only weights are narrow in memory"
                memory = LoadMemory.WGT_NARROW
        row_bytes = memory_beats(variant, memory) * variant.bus_bytes
        return _Copy(opcode, memory, tensor, chip, row_bytes, int(source.pad_value or 0))

    def _note(self, copy: _Copy, vectors: int) -> None:
        """Record the size of the tensor; `vectors` is its channel vectors per weight row, or 0."""
        rows = math.prod(copy.tensor.shape[:-ROW_DIMS])
        if vectors:
            rows = num_rows(rows, copy.tensor.shape[-ROW_DIMS], vectors)
        view = self._views.get(copy.tensor)
        size = rows * copy.row_bytes if view is None else view.size_bytes
        name = self._names[copy.tensor]
        known = self.tensor_bytes.setdefault(name, size)
        assert known == size, f"{name!r} is read in rows of two sizes"

    def _box(
        self,
        copy: _Copy,
        boxes: tuple[_Box, _Box],
        loops: tuple[_Loops, _Loops],
        live: Live,
    ) -> Iterator[SegmentInstruction]:
        """A copy from the first of two boxes to the second; `loops` are those that they follow."""
        held, source = live[copy.chip], boxes[0]
        self._note(copy, held.vectors)
        if held.vectors:
            yield self._weight_rows(copy, source, held, live)
            return
        loads = copy.opcode is Opcode.LOAD
        first = 0 if loads else 1
        outer, chip_box = boxes[first], boxes[1 - first]
        outer_loops, chip_loops = loops[first], loops[1 - first]
        beats = copy.row_bytes // self._variant.bus_bytes
        view = self._view(copy)
        memory_strides, memory_beat = view.strides_beats, view.offset_beats
        dims = []
        chip_row = sum(
            (touched.start - origin) * stride
            for touched, origin, stride in zip(chip_box, held.origin, held.strides, strict=False)
        )
        # Both sides follow the same loops; what does not move has no stride.
        moving = {
            loop: stride
            for loop, stride in zip(chip_loops, held.strides, strict=False)
            if loop is not None
        }
        for dim, stride in enumerate(memory_strides):
            touched, size = outer[dim], copy.tensor.shape[dim]
            loop = outer_loops[dim]
            assert (len(touched) > 1) == (loop is not None), "a dimension follows one loop"
            chip_stride = 0 if loop is None else moving.pop(loop)
            low = len(range(touched.start, min(touched.stop, 0), touched.step))
            inside = len(range(touched.start, min(touched.stop, size), touched.step)) - low
            if inside <= 0:
                low, inside, begin = len(touched), 0, min(max(touched.start, 0), size)
            else:
                begin = touched[low]
            pads = (low, len(touched) - low - inside)
            gap = _gap(held, dim, len(touched)) if loads and copy.memory in PADDABLE else 0
            if gap:
                pads = (pads[0], pads[1] + gap)
                # A single element does not move, but what fills the gap lies behind it.
                chip_stride = held.strides[dim]
            dims.append(CopyDim(inside, stride * touched.step, chip_stride, *pads))
            memory_beat += begin * stride
        assert not moving, "both sides of a copy follow the same loops"
        dims = _in_chip_order(dims)
        if any(dim.padded for dim in dims) and copy.memory not in PADDABLE:
            known = ", ".join(item.name for item in PADDABLE)
            raise ScheduleError(
                f"only loads into {known} may reach outside their tensor, not one of "
                f"{copy.tensor.name!r} into {copy.chip.name!r}"
            )
        pieces = split_box(
            dims, chip_row, memory_beat, beats, self._max_stride_beats, self._max_pad
        )
        for piece in pieces:
            yield self._instruction(copy, piece, live)

    def _weight_rows(
        self, copy: _Copy, source: _Box, held: LiveBuffer, live: Live
    ) -> SegmentInstruction:
        """Load the weight rows that hold a box of channel vectors."""
        name, shape = self._names[copy.tensor], copy.tensor.shape
        if shape != copy.chip.shape or any(touched.step > 1 for touched in source):
            raise ScheduleError(
                f"channel vectors must be cached as a part of all of {name!r}, {list(shape)}, not "
                f"as one of {list(copy.chip.shape)}; let the block read the whole tensor"
            )
        lows = [touched.start for touched in source]
        extents = [len(touched) for touched in source]
        first, groups = run_of_groups(name, shape[:-1], lows[:-1], extents[:-1])
        taps = shape[-ROW_DIMS]
        pitch, (row, skew) = group_pitch(taps), divmod(first * group_pitch(taps), held.vectors)
        place = held.start
        for low, origin, stride in zip(lows, held.origin, held.strides, strict=False):
            place += (low - origin) * stride
        rows = num_rows(skew // pitch + groups, taps, held.vectors)
        beat = row * (copy.row_bytes // self._variant.bus_bytes)
        piece = Piece(place // held.vectors, beat, 1, 1, rows, 0, 0, (0, 0, 0, 0))
        return self._instruction(copy, piece, live)

    def _instruction(self, copy: _Copy, piece: Piece, live: Live) -> SegmentInstruction:
        top, bottom, left, right = piece.pads
        fields = {
            "memory": copy.memory,
            "row": piece.chip_row,
            "offset_beats": piece.memory_beat,
            "blocks": piece.blocks,
            "rows": piece.rows,
            "cols": piece.cols,
            "row_stride_beats": piece.row_stride,
            "block_stride_beats": piece.block_stride,
        }
        if any(piece.pads):
            fields |= {"pad_top": top, "pad_bottom": bottom, "pad_left": left, "pad_right": right}
            fields |= {"pad_value": copy.pad_value}
        count = piece.blocks * (top + piece.rows + bottom) * (left + piece.cols + right)
        loads = copy.opcode is Opcode.LOAD
        access = RowAccess(
            live[copy.chip].instance,
            "row",
            ((piece.chip_row, piece.chip_row + count),),
            reads=not loads,
            writes=loads,
        )
        assert 0 <= access.begin < access.end <= access.instance.rows, f"{access} leaves it"
        template = Instruction.of(copy.opcode, **fields)
        return SegmentInstruction(template, (access,), tensor=self._names[copy.tensor])


def _in_chip_order(dims: list[CopyDim]) -> list[CopyDim]:
    """Dimensions with those that move in the order of the rows on chip, outermost first."""
    strides = [dim.chip_stride for dim in dims if dim.extent > 1]
    if strides == sorted(strides, reverse=True):
        return dims
    assert not any(dim.padded for dim in dims), "a copy in another order has no padding"
    return sorted(dims, key=lambda dim: -dim.chip_stride)


def _gap(held: LiveBuffer, dim: int, touched: int) -> int:
    """Unused elements after those of an aligned dimension, which may be filled with padding."""
    if dim == 0 or touched != held.shape[dim]:
        return 0
    outer, inner = held.strides[dim - 1 : dim + 1]
    return max(0, outer // inner - touched) if outer % inner == 0 else 0


def _loops(form: RegionForm, env: Env, ranges: dict[Var, range]) -> _Loops:
    """The loop in `ranges` that each dimension follows, if any."""
    terms = (minimum.at(env).terms for minimum in form.minima)
    return [next((var for var, _ in part if len(ranges[var]) > 1), None) for part in terms]


def _box(form: RegionForm, env: Env, ranges: dict[Var, range]) -> _Box:
    """The box touched over all iterations of the loops in `ranges`."""
    box = []
    for minimum, part in zip(form.minima, form.region.ranges, strict=True):
        at = minimum.at(env)
        moving = [(var, factor) for var, factor in at.terms if len(ranges[var]) > 1]
        low = at.constant + sum(factor * ranges[var][0] for var, factor in at.terms)
        if not moving:
            box.append(range(low, low + part.extent))
            continue
        ((var, factor),) = moving
        assert factor > 0 and part.extent == 1, "a copy counts up along one loop"
        box.append(range(low, low + (len(ranges[var]) - 1) * factor + 1, factor))
    return box
