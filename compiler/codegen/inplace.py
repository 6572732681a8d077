"""Finds buffers that share rows: ALU operations that write over one of their operands.

``c = x + y`` needs c in the rows of x. That is correct if nothing reads x afterwards, and if both
buffers are allocated at the same place of the loop nest with the same window. Chains of such
operations share one instance.

A reduction over sliding windows (`SLIDING`) is computed in the rows of its operand, too. Its result
has fewer elements, which lie in rows of their own windows: an `Embedding`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.intrinsics import (
    IMMEDIATE,
    REGISTER,
    REQUANTIZE_WIDE,
    SLIDING,
    SQUARE,
)
from daedal.compiler.codegen.padding import Interior
from daedal.compiler.codegen.windows import Windows
from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Var
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import Allocate, Block, For, PrimFunc, Seq, Stmt
from daedal.compiler.tir.visit import substitute
from daedal.isa.table import AluOp

__all__ = [
    "Embedding",
    "SlidingBlock",
    "embeddings",
    "shared_rows",
    "sliding_block",
    "window_interiors",
]

IN_PLACE = (*IMMEDIATE, SQUARE, "lookup_entry", "lookup_widen", "requantize_widen", REQUANTIZE_WIDE)
"""Operations with one operand that may write over it."""


@dataclass(frozen=True)
class SlidingBlock:
    """The windows of a block: ``target[h] = target[h] op source[strides * h + offsets + tap]``.

    Parameters
    ----------
    strides, offsets : for each dimension of the result.
    dim : the dimension along which windows slide; None if they have one element.
    kernel : elements of a window.
    """

    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    dim: int | None
    kernel: int

    def windows(self, block: Block, extent: int) -> Windows:
        """The windows along `dim`, of which the result's buffer holds `extent`."""
        assert self.dim is not None
        operation = SLIDING[str(block.annotations["intrin"])]
        return Windows(operation, self.kernel, self.strides[self.dim], extent == 1)


@dataclass(frozen=True)
class Embedding:
    """Where the elements of a buffer lie among those of `owner`."""

    owner: Buffer
    block: Block
    sliding: SlidingBlock


@dataclass(frozen=True)
class _Place:
    """An allocation: the number of its Allocate statement, that of the loops around it, and the
    window, in which a loop of one iteration is its 0."""

    number: int
    depth: int
    window: tuple[tuple[Expr, int], ...]


def shared_rows(func: PrimFunc) -> dict[Buffer, Buffer]:
    """For each buffer that can reuse the rows of another, the buffer that owns the rows."""
    sites, _ = collect(func.body)
    places = _places(func.body)
    readers = _readers(func)
    owners: dict[Buffer, Buffer] = {}
    for site in sites:
        for source in _operands(site.block):
            target = site.block.writes[0].buffer
            alone = readers[source] == 1 or _reads_last(site, source, sites, places)
            if alone and _alike(source, target, places):
                owners[target] = owners.get(source, source)
                break
    return owners


def _reads_last(
    site: Site, buffer: Buffer, sites: Sequence[Site], places: Mapping[Buffer, _Place]
) -> bool:
    """Whether a block that must overwrite an operand is the last to read `buffer`, because all
    others are in nests before its own, since the buffer is allocated."""
    if str(site.block.annotations["intrin"]) not in REGISTER or buffer not in places:
        return False
    depth = places[buffer].depth
    position = next(number for number, other in enumerate(sites) if other is site)
    for number, other in enumerate(sites):
        reads = any(region.buffer is buffer for region in other.block.reads)
        if reads and other is not site and (number > position or site.shared(other) > depth):
            return False
    return True


def embeddings(func: PrimFunc) -> dict[Buffer, Embedding]:
    """For each result of a reduction over sliding windows, its rows in those of its operand.

    Raises
    ------
    ScheduleError
        Something else reads the operand, or it is allocated elsewhere.
    """
    sites, _ = collect(func.body)
    places, readers = _places(func.body), _readers(func)
    found = {}
    for site in sites:
        block = site.block
        if str(block.annotations.get("intrin", "")) not in SLIDING:
            continue
        source, target = block.reads[0].buffer, block.writes[0].buffer
        together = (
            source in places and target in places and places[source].number == places[target].number
        )
        if not together or readers[source] != 1 or source.scope != target.scope:
            raise ScheduleError(
                f"block {block.name!r} must overwrite its operand {source.name!r}: nothing else "
                "may read that buffer, and both must be allocated at the same loop"
            )
        found[target] = Embedding(source, block, sliding_block(block))
    return found


def window_interiors(
    found: Mapping[Buffer, Embedding], neutral: Mapping[AluOp, Mapping[Buffer, Interior]]
) -> dict[Buffer, Interior]:
    """For each operand of a reduction over windows, the part that is not padding.

    Outside of it the operand holds an element that does not change the reduction. `neutral` has the
    interiors of the buffers that are loaded with such padding, by operation. Along the dimension of
    its windows, every result of a reduction counts as inside.
    """
    interiors: dict[Buffer, Interior] = {}

    def visit(buffer: Buffer, operation: AluOp) -> Interior | None:
        if buffer not in found:
            return neutral.get(operation, {}).get(buffer)
        embedding = found[buffer]
        sliding = embedding.sliding
        inner = visit(embedding.owner, operation)
        if inner is None or SLIDING[str(embedding.block.annotations["intrin"])] is not operation:
            return None
        steps = zip(sliding.strides, sliding.offsets, strict=True)
        parts = enumerate(zip(inner.ranges, buffer.shape, steps, strict=True))
        return Interior(
            tuple(
                part if step == (1, 0) and dim != sliding.dim else range(size)
                for dim, (part, size, step) in parts
            )
        )

    for embedding in found.values():
        operation = SLIDING[str(embedding.block.annotations["intrin"])]
        interior = visit(embedding.owner, operation)
        if interior is not None:
            interiors[embedding.owner] = interior
    return interiors


def sliding_block(block: Block) -> SlidingBlock:
    """The windows of a block that is tensorized with one of `SLIDING`.

    Raises ScheduleError where windows slide along several dimensions.
    """
    taps = {axis: axis.extent for axis in block.reduce_vars}
    strides, offsets, sliding = [], [], []
    pairs = zip(block.writes[0].ranges, block.reads[0].ranges, strict=True)
    for dim, (written, read) in enumerate(pairs):
        target, source = linear(written.min), linear(read.min)
        assert target is not None and source is not None
        factors: Mapping[Var, int] = {v: f for v, f in source.terms if isinstance(v, Var)}
        own = [var for var, _ in target.terms if isinstance(var, Var)]
        stride = factors.get(own[0], 1) if own else 1
        strides.append(stride)
        offsets.append(source.constant - stride * target.constant)
        if any(taps[axis] > 1 for axis in taps if axis in factors):
            sliding.append(dim)
    if len(sliding) > 1:
        raise ScheduleError(
            f"windows must slide along one dimension, not {len(sliding)} (block {block.name!r}); "
            "reduce one dimension after the other"
        )
    kernel = 1
    for extent in taps.values():
        kernel *= extent
    return SlidingBlock(tuple(strides), tuple(offsets), sliding[0] if sliding else None, kernel)


def _readers(func: PrimFunc) -> dict[Buffer, int]:
    sites, _ = collect(func.body)
    readers: dict[Buffer, int] = {}
    for site in sites:
        for region in site.block.reads:
            readers[region.buffer] = readers.get(region.buffer, 0) + 1
    return readers


def _operands(block: Block) -> list[Buffer]:
    """The operands whose rows the result may reuse, in order of preference."""
    name = str(block.annotations.get("intrin", ""))
    if name not in REGISTER and name not in IN_PLACE:
        return []
    names = str(block.annotations["operands"]).split(",")
    by_name = {operand: region.buffer for operand, region in zip(names, block.reads, strict=True)}
    alone = name in IN_PLACE or name in ("alu_shift_even", "alu_sub")
    wanted = ("x",) if alone else ("x", "y")
    return [by_name[operand] for operand in wanted]


def _alike(a: Buffer, b: Buffer, places: Mapping[Buffer, _Place]) -> bool:
    if a not in places or b not in places or a.dtype != b.dtype or a.scope != b.scope:
        return False
    return (places[a].number, places[a].window) == (places[b].number, places[b].window)


def _places(stmt: Stmt) -> dict[Buffer, _Place]:
    """Where each buffer is allocated."""
    found: dict[Buffer, _Place] = {}
    count = 0

    def visit(node: Stmt, loops: tuple[For, ...]) -> None:
        nonlocal count
        match node:
            case Allocate(allocations, body):
                count += 1
                ones: dict[Var, Expr] = {loop.var: IntImm(0) for loop in loops if loop.extent == 1}
                for item in allocations:
                    window = tuple(
                        (simplify(substitute(part.min, ones)), part.extent) for part in item.window
                    )
                    found[item.buffer] = _Place(count, len(loops), window)
                visit(body, loops)
            case For(_, _, body):
                visit(body, (*loops, node))
            case Seq(body):
                for part in body:
                    visit(part, loops)

    visit(stmt, ())
    return found
