"""`Kernel`: tensors that one function computes; its loop IR and machine code.

A kernel is a tensor without a reduction, or a reduction and the tensor of its epilogue, which reads
it element by element, or rows that are computed one after the other (`rows`). Kernels of equal
structure have equal texts, so they are compiled once.
"""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from daedal.artifact.constants import Packing
from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.cpu.combinations import choosing_axis
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.lanes import reading, row_lanes, sums_in_lanes, vectors_of
from daedal.compiler.cpu.rows import rows_together
from daedal.compiler.cpu.starts import started
from daedal.compiler.ops.cpu.merge import merged
from daedal.compiler.ops.cpu.next_row import next_row_prefetched
from daedal.compiler.ops.cpu.overlap import Overlap
from daedal.compiler.ops.cpu.prefetch import prefetched
from daedal.compiler.ops.cpu.products import joined_terms, product_candidates
from daedal.compiler.ops.cpu.reuse import (
    WIDEST,
    Registers,
    Tiles,
    best_candidate,
    choose_lanes,
    grouped_loads,
    tile_candidates,
)
from daedal.compiler.ops.cpu.schedule import (
    schedule_combinations,
    schedule_map,
    schedule_partial_sums,
    schedule_products,
    schedule_reduction,
    schedule_rows,
    schedule_turned,
)
from daedal.compiler.ops.cpu.space import TileSpace, tile_space
from daedal.compiler.ops.cpu.turned import tiles_together, turned_tile
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Axis, Binary, Buffer, Call, Expr, Load, Reduce
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.compiler.tir.stmt import PrimFunc
from daedal.compiler.tir.visit import free_vars, loads, rewrite, walk

__all__ = ["Kernel", "Moved", "ScheduledKernel", "kernel_function", "kernel_space"]

LEAST_PART, MOST_PART = 1024, 8192
"""Elements of an only axis that are one iteration: many to a call, and enough iterations for
several threads to have about equal shares."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Kernel:
    """What one function computes.

    Attributes
    ----------
    inputs : placeholders that it reads.
    result : what it writes.
    reduction : the reduction that `result` reads element by element; None where there is none.
    sources : what the inputs stand for, in their order.
    frame : where the elements of `result` lie in what is written; None: they are all of it.
    name : of a tensor of the model that it computes, for reports.
    stages : what is computed before a row of `result`, in this order: rows of its own that other
        stages and `result` read, and reductions of such rows. Then `reduction` is None.
    scores : of a kernel of attention, for GPUs, the stage whose softmax weights `reduction`: the
        first stage has products of queries and keys, and the last one the weights.
    is_guarded : whether these weights are 0 where all scores are minus infinity, and not NaN.
    tile : axes of `result`, and how many elements along each are computed together, after those of
        the stages that they read; none: the stages are those of rows.
    """

    inputs: tuple[te.Tensor, ...]
    result: te.Tensor
    reduction: te.Tensor | None = None
    sources: tuple[Buffer, ...] = ()
    frame: Frame | None = None
    name: str = ""
    stages: tuple[te.Tensor, ...] = ()
    scores: te.Tensor | None = None
    is_guarded: bool = False
    tile: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> str:
        """Equal for kernels with one function."""
        types = ", ".join(str(item) for item in self.inputs)
        stages = "".join(f"; {item}" for item in self.stages)
        scores = "" if self.scores is None else f"; softmax of {self.scores.name}"
        tile = f"; {self.tile}" if self.tile else ""
        return f"{types}; {self.reduction}; {self.result}; {self.frame}{stages}{scores}{tile}"

    @property
    def products(self) -> int:
        """Multiply-accumulates of its sums of products."""
        return sum(
            math.prod(tensor.shape) * _products(tensor.value)
            for tensor in (self.reduction, *self.stages)
            if tensor is not None and isinstance(tensor.value, Reduce)
        )


@dataclass(frozen=True)
class Moved:
    """Another layout of a constant, in blocks of `lanes` along `dimension`: the number of the block
    comes first, the place in it last, before the dimension of a group's elements where it has one.
    Where they do not divide it, the last block begins earlier, as tiles do."""

    dimension: int
    lanes: int
    grouped: bool = False

    def packing(self, shape: tuple[int, ...]) -> Packing:
        """This layout of a constant of `shape`."""
        rank = len(shape)
        blocks = tuple(self.lanes if axis == self.dimension else 0 for axis in range(rank))
        # What comes behind the split axis has numbers that are one higher.
        own = tuple(axis + (axis > self.dimension) for axis in range(rank))
        order = self._ordered(own, self.dimension, self.dimension + 1)
        return Packing(shape, blocks, order)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a constant of `shape`."""
        return self._ordered(shape, -(-shape[self.dimension] // self.lanes), self.lanes)

    def indices(self, indices: tuple[Expr, ...], block: Expr, place: Expr) -> tuple[Expr, ...]:
        """Where the element at `indices`, in this block at this place, lies."""
        return self._ordered(indices, block, place)

    def _ordered(self, given: tuple[Item, ...], block: Item, place: Item) -> tuple[Item, ...]:
        rest = (*given[: self.dimension], *given[self.dimension + 1 :])
        if self.grouped:
            return (block, *rest[:-1], place, rest[-1])
        return (block, *rest, place)


@dataclass(frozen=True)
class ScheduledKernel:
    """The loop IR of a kernel, and the operands that must be laid out anew.

    `moved` has the constants that the schedule reads in another layout; `tiles` is the register
    tile of a reduction; `tiled` says whether a reduction keeps its accumulators in registers.
    `held` are the inputs of which a tile holds vectors, by their numbers, and `rounds` is how many
    such tiles there are: each of them is one round of all others. `common` is how many products are
    computed one after the other, of operands that have nothing in common.
    """

    func: PrimFunc
    moved: tuple[tuple[te.Tensor, Moved], ...] = ()
    tiles: Tiles | None = None
    tiled: bool = True
    held: tuple[int, ...] = ()
    rounds: int = 1
    common: int = 1


def _products(formula: Reduce) -> int:
    """Multiply-accumulates of an element."""
    if formula.op != "sum":
        return 0
    products = sum(map(_multiplies, walk(formula.value)))
    return math.prod(axis.extent for axis in formula.axes) * products


def _multiplies(node: Expr) -> int:
    """Products of elements that one node computes."""
    if isinstance(node, Call):
        return DOT_PRODUCTS.get(node.name, 0)
    if not isinstance(node, Binary) or node.op != "*":
        return 0
    return int(all(any(True for _ in loads(factor)) for factor in (node.a, node.b)))


def kernel_function(
    kernel: Kernel,
    constants: Collection[Buffer] = (),
    registers: Registers = WIDEST,
    config: Config | None = None,
) -> ScheduledKernel:
    """The scheduled function of a kernel.

    Parameters
    ----------
    constants : inputs whose layout is free.
    registers : of the processor.
    config : of `kernel_space`; None: the one that the rules choose.

    Raises
    ------
    ScheduleError
        `config` is none of the kernel's space.
    """
    scheduled = _scheduled(kernel, constants, registers, config)
    if kernel.frame is None:
        return scheduled
    return replace(scheduled, func=kernel.frame.placed(scheduled.func))


def _scheduled(
    kernel: Kernel,
    constants: Collection[Buffer],
    registers: Registers,
    config: Config | None,
) -> ScheduledKernel:
    """The function that stores the result by itself."""
    if kernel.tile:
        return ScheduledKernel(_tile_function(kernel, registers))
    if kernel.stages:
        return ScheduledKernel(_rows_function(kernel))
    kernel = _merged(kernel)
    result, reduction = kernel.result, kernel.reduction
    if reduction is None:
        return ScheduledKernel(_map_function(kernel.inputs, result, registers))
    formula = reduction.value
    assert isinstance(formula, Reduce)
    bytes_each = ELEMENT_BYTES[reduction.dtype]
    if config is None:
        tiles = _chosen_tiles(reduction, constants, registers)
    else:
        space = tile_space(reduction, constants, registers)
        if space is None:
            raise ScheduleError(f"a kernel with one schedule has no other, such as {config}")
        tiles = space.tiles(config)
    if tiles is None:
        lanes = choose_lanes(formula.value, formula.axes, bytes_each)
        if lanes > 1:
            return _partial_sums(kernel, reduction, lanes)
    moved: tuple[tuple[te.Tensor, Moved], ...] = ()
    inputs = kernel.inputs
    if tiles is not None:
        if tiles.product is not None:
            formula = joined_terms(formula)
        axis = reduction.axes[tiles.vector]
        grouped = {load.buffer for load in grouped_loads(formula.value)}
        moved = tuple(
            (tensor, Moved(_dimension(formula.value, tensor, axis), tiles.lanes, tensor in grouped))
            for tensor in inputs
            if tensor in tiles.packed
        )
        overlap = Overlap(tiles, reduction.axes)
        block, place = overlap.digits(axis)
        held = tuple(
            inputs.index(load.buffer)
            for load in loads(formula.value)
            if any(axis in free_vars(index) for index in load.indices)
        )
        formula, inputs = _packed(formula, inputs, moved, block, place)
        done = _tiled(reduction, formula, inputs, result, overlap, moved)
        rounds = _count(tiles, tiles.outer[: tiles.num_held], reduction.axes)
        common = tiles.loops.common
        is_outermost = tiles.outer[: len(common)] == common
        return replace(
            done,
            held=held,
            rounds=rounds,
            common=_count(tiles, common, reduction.axes) if is_outermost else 1,
        )
    func = te.create_prim_func(inputs, [result], "kernel")
    return ScheduledKernel(
        schedule_reduction(func, reduction.name, result.name, None), moved, tiled=False
    )


def _chosen_tiles(
    reduction: te.Tensor, constants: Collection[Buffer], registers: Registers
) -> Tiles | None:
    """The tile with the shortest estimated time; None where no axis suits a vector."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    given = reduction.axes, ELEMENT_BYTES[reduction.dtype], constants, registers
    terms = math.prod(axis.extent for axis in formula.axes)
    best = best_candidate(
        itertools.chain(
            tile_candidates(formula.value, *given, terms=terms),
            product_candidates(joined_terms(formula), *given),
        )
    )
    return None if best is None else best.tiles


def kernel_space(
    kernel: Kernel, constants: Collection[Buffer], registers: Registers
) -> TileSpace | None:
    """The schedules of a kernel; None where there is one only."""
    if kernel.stages:
        return None
    kernel = _merged(kernel)
    if kernel.reduction is None:
        return None
    space = tile_space(kernel.reduction, constants, registers)
    return None if space is None or len(space) < 2 else space


def _merged(kernel: Kernel) -> Kernel:
    """The same with as few axes as possible."""
    result, reduction = merged(kernel.result, kernel.reduction, _rows(kernel))
    return replace(kernel, result=result, reduction=reduction)


def _map_function(
    inputs: tuple[te.Tensor, ...], result: te.Tensor, registers: Registers
) -> PrimFunc:
    """The function of a kernel without a reduction."""
    assert result.value is not None
    tiles = turned_tile(result.value, result.axes, result.dtype, registers)
    if tiles is None:
        part = _thread_part(result.shape[0]) if len(result.shape) == 1 else None
        return schedule_map(te.create_prim_func(inputs, [result], "kernel"), result.name, part)
    overlap = Overlap(tiles, result.axes)
    split = overlap.applied(result, {}) if overlap else result
    func = te.create_prim_func(inputs, [split], "kernel")
    several = {
        overlap.tile_axis(axis): count
        for axis, count in tiles_together(tiles, result.shape, result.dtype).items()
    }
    func = schedule_turned(func, split.name, overlap.tiles, several)
    return overlap.placed(func, result.shape) if overlap else func


def _thread_part(extent: int) -> int | None:
    """The divisor of the only axis that is one iteration of threads; None where it has none.

    The largest one that is full vectors, whatever the bytes of an element, if there is one.
    """
    sizes = range(min(MOST_PART, extent // 2), LEAST_PART - 1, -1)
    whole = (size for size in sizes if extent % size == 0)
    return min(whole, key=lambda size: size % WIDEST.vector_bytes != 0, default=None)


def _rows(kernel: Kernel) -> frozenset[int]:
    """Axes that stay apart from those before them: what is stored lies in rows along them.

    Reductions compute far more than the place of what they store, so they may have any axes.
    """
    if kernel.frame is None or kernel.reduction is not None:
        return frozenset()
    return frozenset(n for n in range(len(kernel.frame.inner)) if not kernel.frame.follows(n))


def _tiled(
    reduction: te.Tensor,
    formula: Reduce,
    inputs: tuple[te.Tensor, ...],
    result: te.Tensor,
    overlap: Overlap,
    moved: tuple[tuple[te.Tensor, Moved], ...],
) -> ScheduledKernel:
    """A reduction in register tiles, which overlap where they do not divide its axes."""
    shape = result.shape
    if overlap:
        split = overlap.applied(replace(reduction, value=formula), {})
        result = overlap.applied(result, {reduction: split})
        assert isinstance(split.value, Reduce)
        reduction, formula = split, split.value
    own, result = _tile_last(reduction, formula, result, overlap.tiles)
    if overlap.tiles.product is not None:
        func = te.create_prim_func(inputs, [result], "kernel")
        func = schedule_products(func, own.name, result.name, overlap.tiles)
        func = overlap.placed(func, shape) if overlap else func
        return ScheduledKernel(prefetched(func), moved, overlap.given)
    result, starts = started(own, result)
    func = te.create_prim_func(inputs, [result], "kernel", starts)
    func = schedule_reduction(func, own.name, result.name, overlap.tiles)
    placed = overlap.placed(func, shape) if overlap else func
    return ScheduledKernel(prefetched(placed), moved, overlap.given)


def _partial_sums(kernel: Kernel, reduction: te.Tensor, lanes: int) -> ScheduledKernel:
    """The last axis of the reduction in lanes, each of which sums a part."""
    sums = sums_in_lanes(reduction, lanes)
    assert kernel.result.value is not None
    result = replace(kernel.result, value=reading(kernel.result.value, {reduction: sums[-1]}))
    func = te.create_prim_func(kernel.inputs, [result], "kernel")
    names = [tensor.name for tensor in sums]
    return ScheduledKernel(
        schedule_partial_sums(func, names, result.name, [vectors_of(item) for item in sums[:-1]])
    )


def _rows_function(kernel: Kernel) -> PrimFunc:
    """The function of a kernel with stages."""
    made: dict[Buffer, te.Tensor] = {}
    names, lanes = list[str](), dict[str, int]()
    for stage in kernel.stages:
        assert stage.value is not None
        read = replace(stage, value=reading(stage.value, made))
        own = [read]
        if isinstance(read.value, Reduce):
            own = sums_in_lanes(read, row_lanes(read))
            lanes |= {item.name: vectors_of(item) for item in own[:-1]}
        names += [item.name for item in own]
        made[stage] = own[-1]
    assert kernel.result.value is not None
    result = replace(kernel.result, value=reading(kernel.result.value, made))
    func = te.create_prim_func(kernel.inputs, [result], "kernel")
    together = rows_together(result, kernel.stages)
    return next_row_prefetched(schedule_rows(func, names, result.name, lanes, together))


def _tile_function(kernel: Kernel, registers: Registers) -> PrimFunc:
    """The function of a kernel with stages that are computed for a tile of the result."""
    result = kernel.result
    widest = max((*kernel.stages, result), key=lambda item: ELEMENT_BYTES[item.dtype])
    lanes = registers.vector_bytes // ELEMENT_BYTES[widest.dtype]
    func = te.create_prim_func(kernel.inputs, [result], "kernel")
    stages: dict[str, int | None] = {}
    for item in kernel.stages:
        assert item.value is not None
        axis = choosing_axis(item.value)
        stages[item.name] = None if axis is None else item.axes.index(axis)
    return schedule_combinations(func, stages, result.name, dict(kernel.tile), lanes)


def _count(tiles: Tiles, chosen: Collection[int], axes: Sequence[Axis]) -> int:
    """How many tiles there are along some axes, by their positions."""
    sizes = dict(((tiles.vector, tiles.lanes), *tiles.rows))
    return math.prod(-(-axes[axis].extent // sizes.get(axis, 1)) for axis in chosen)


def _dimension(value: Expr, tensor: te.Tensor, axis: Axis) -> int:
    """The dimension of `tensor` that `axis` indexes."""
    (found,) = {load.indices.index(axis) for load in loads(value) if load.buffer is tensor}
    return found


def _packed(
    formula: Reduce,
    inputs: Sequence[te.Tensor],
    moved: Sequence[tuple[te.Tensor, Moved]],
    block: Expr,
    place: Expr,
) -> tuple[Reduce, tuple[te.Tensor, ...]]:
    """The formula and the inputs with some constants in another layout."""
    new: dict[Buffer, tuple[te.Tensor, Moved]] = {}
    for tensor, how in moved:
        shape = how.shape(tensor.shape)
        new[tensor] = te.placeholder(shape, tensor.dtype, tensor.name), how

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer in new:
            tensor, how = new[node.buffer]
            return Load(tensor, how.indices(node.indices, block, place), node.pad_value)
        return None

    packed = rewrite(formula, visit)
    assert isinstance(packed, Reduce)
    return packed, tuple(new[item][0] if item in new else item for item in inputs)


def _tile_last(
    reduction: te.Tensor, formula: Reduce, result: te.Tensor, tiles: Tiles
) -> tuple[te.Tensor, te.Tensor]:
    """Reduction and result where the axes of the tile are the last of the reduction."""
    ends = tiles.axes
    order = [number for number in range(len(reduction.axes)) if number not in ends] + list(ends)
    moved = te.Tensor(
        reduction.name,
        tuple(reduction.shape[number] for number in order),
        reduction.dtype,
        "global",
        tuple(reduction.axes[number] for number in order),
        formula,
    )

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer is reduction:
            return Load(moved, tuple(node.indices[number] for number in order))
        return None

    assert result.value is not None
    value = rewrite(result.value, visit)
    return moved, te.Tensor(result.name, result.shape, result.dtype, "global", result.axes, value)
