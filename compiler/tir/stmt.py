"""Statements of the loop IR: loops around blocks, from te to emission.

A `Block` is the unit of computation. Its iteration variables are bound by a `BlockRealize` to
expressions over the enclosing loops; its body speaks of them alone, so transforming loops never
touches what is computed. Buffers keep their whole, logical shape and indices: an `Allocation` says
which *window* of it exists while the statement below runs (``oh_0*4 : +6``), and computing at a
loop shrinks that window.

Meaning is sequential; `For.kind` and all annotations are hints to lowerings which the interpreter
ignores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from daedal.compiler.tir.expr import Axis, Buffer, Expr, Var

__all__ = [
    "GPU_AXES",
    "LOOP_KINDS",
    "SCOPES",
    "Allocate",
    "Allocation",
    "Barrier",
    "BeginArrivals",
    "Block",
    "BlockRealize",
    "BufferStore",
    "CommitCopies",
    "CommitProducts",
    "ExpectBoxes",
    "FenceSums",
    "For",
    "If",
    "Prefetch",
    "PrimFunc",
    "Range",
    "Region",
    "Seq",
    "Stmt",
    "Value",
    "WaitForBoxes",
    "WaitForCopies",
    "WaitForProducts",
]

SCOPES = frozenset({"global", "inp", "wgt", "acc", "par", "tab", "out"})
"""The accelerator's memory scopes; other back ends pass their own set where scopes are checked."""

GPU_AXES = frozenset(f"{level}.{dim}" for level in ("block", "thread") for dim in "xyz")
"""The axes of a GPU's grid that `For.kind` may bind a loop to."""

LOOP_KINDS = frozenset({"serial", "unroll", "parallel", "vectorize", "virtual_thread"}) | GPU_AXES
"""What `For.kind` may be."""

Value = str | int | bool
"""What an annotation may hold."""

_NO_ANNOTATIONS: Mapping[str, Value] = MappingProxyType({})


def _none() -> Mapping[str, Value]:
    return _NO_ANNOTATIONS


@dataclass(frozen=True)
class Range:
    """``min : +extent``; `min` is an index expression, `extent` a constant."""

    min: Expr
    extent: int


@dataclass(frozen=True)
class Region:
    """A box of a buffer, one `Range` per dimension.

    `pad_value` is set where the box is read through ``padded`` and may reach outside the buffer.
    """

    buffer: Buffer
    ranges: tuple[Range, ...]
    pad_value: int | float | None = None


class Stmt:
    """Base of all statements."""


@dataclass(frozen=True)
class BufferStore(Stmt):
    """``buffer[indices] = value``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class Seq(Stmt):
    """Statements one after the other; never nested, never fewer than two."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class For(Stmt):
    """``for var in extent: body``, counting up from 0.

    `kind` is one of `LOOP_KINDS`.
    """

    var: Var
    extent: int
    body: Stmt
    kind: str = "serial"
    annotations: Mapping[str, Value] = field(default_factory=_none)


@dataclass(frozen=True)
class Allocation:
    """A buffer that exists while one statement runs; only `window` of it is backed."""

    buffer: Buffer
    window: tuple[Range, ...]
    annotations: Mapping[str, Value] = field(default_factory=_none)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the window: what memory has to hold."""
        return tuple(part.extent for part in self.window)


@dataclass(frozen=True)
class Allocate(Stmt):
    """Allocations, fresh and undefined each time `body` is entered."""

    allocations: tuple[Allocation, ...]
    body: Stmt


@dataclass(frozen=True)
class Block(Stmt):
    """A computation over iteration variables, with the regions one instance reads and writes.

    `init`, if any, runs before `body` in the instance whose reduce variables are all 0.
    """

    name: str
    iter_vars: tuple[Axis, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    body: Stmt
    init: Stmt | None = None
    annotations: Mapping[str, Value] = field(default_factory=_none)

    @property
    def reduce_vars(self) -> tuple[Axis, ...]:
        """The iteration variables that accumulate."""
        return tuple(axis for axis in self.iter_vars if axis.kind == "reduce")

    @property
    def spatial_vars(self) -> tuple[Axis, ...]:
        """The iteration variables whose instances are independent."""
        return tuple(axis for axis in self.iter_vars if axis.kind == "spatial")


@dataclass(frozen=True)
class BlockRealize(Stmt):
    """One instance of `block`, with `values` for its iteration variables, if `predicate` holds."""

    values: tuple[Expr, ...]
    block: Block
    predicate: Expr | None = None

    @property
    def binding(self) -> dict[Var, Expr]:
        """Iteration variable -> its value."""
        return dict(zip(self.block.iter_vars, self.values, strict=True))


@dataclass(frozen=True)
class If(Stmt):
    """``if condition: body``; only in lowered functions, where no blocks are left."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True)
class Prefetch(Stmt):
    """The line of the cache with ``buffer[indices]`` will be read soon; only in lowered functions.

    It changes no result.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class Barrier(Stmt):
    """All threads of a GPU's block wait for each other; only in lowered functions."""


@dataclass(frozen=True)
class CommitCopies(Stmt):
    """The asynchronous copies that a thread has begun since the last commit become one group; only
    in lowered functions."""


@dataclass(frozen=True)
class WaitForCopies(Stmt):
    """A thread waits until all groups of its copies have landed, except for the `newest`; only in
    lowered functions.

    `landed` are the regions that the oldest of these groups wrote, in all threads together. A
    thread sees what others have copied there after a barrier. Products of groups of warps
    (`tir.warp_products`) see it where it is `fenced`.
    """

    newest: int
    landed: tuple[Region, ...]
    fenced: bool = False


@dataclass(frozen=True)
class BeginArrivals(Stmt):
    """The elements of a buffer in shared memory begin to count what copies of boxes bring; only in
    lowered functions."""

    arrivals: Buffer


@dataclass(frozen=True)
class ExpectBoxes(Stmt):
    """The copies of boxes that follow bring `size` bytes together, which ``arrivals[stage]``
    counts; only in lowered functions. The first thread of a block begins them all."""

    arrivals: Buffer
    stage: Expr
    size: int


@dataclass(frozen=True)
class WaitForBoxes(Stmt):
    """A thread waits until ``arrivals[stage]`` has counted all that was expected for the `turn`-th
    time, from 0 on; only in lowered functions.

    `landed` are the regions that they wrote. All threads and products of groups of warps see them.
    """

    arrivals: Buffer
    stage: Expr
    turn: Expr
    landed: tuple[Region, ...]


@dataclass(frozen=True)
class FenceSums(Stmt):
    """The elements of a thread in a buffer are as products of groups of warps need them, which may
    follow; only in lowered functions."""

    sums: Buffer


@dataclass(frozen=True)
class CommitProducts(Stmt):
    """The products that a group of warps has begun since the last commit become one group of
    products; only in lowered functions."""


@dataclass(frozen=True)
class WaitForProducts(Stmt):
    """A group of warps waits until all groups of its products are done, except for the `newest`;
    only in lowered functions.

    Until then they may read their operands and add to their sums. `sums` are used afterwards.
    """

    newest: int
    sums: Buffer | None = None


@dataclass(frozen=True)
class PrimFunc:
    """A function on buffers: those of `outputs` are written, the other parameters only read."""

    name: str
    params: tuple[Buffer, ...]
    body: Stmt
    num_outputs: int = 1

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that are read."""
        return self.params[: len(self.params) - self.num_outputs]

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The parameters that are written, last in `params`."""
        return self.params[len(self.params) - self.num_outputs :]

    def __str__(self) -> str:
        from daedal.compiler.tir.printer import func_text

        return func_text(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What notebooks show: the text."""
        printer.text(str(self))
