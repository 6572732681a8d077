"""Tensor intrinsics: what one instruction computes, as a pattern that blocks match.

A pattern is a block over small buffers whose dimensions are the row dimensions of a scratchpad:
the GEMM core's is ``c[b, o] = c[b, o] + int32(a[b, i]) * int32(w[o, i])``. It matches a nest of
loops around one block where the formula is the same, up to the order of loops and of commutative
operands, the pattern's buffers being the *trailing* dimensions of the nest's. Leading dimensions,
and the loops around the nest, are the instruction's operands: constructing it is the business of
code generation.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import (
    And,
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Not,
    Or,
    Select,
    Var,
)
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.printer import stmt_text
from daedal.compiler.tir.stmt import Block, BlockRealize, BufferStore, Value
from daedal.compiler.tir.visit import children, free_vars, loads, substitute, walk

__all__ = ["CopyIntrin", "Match", "Mismatch", "Scalar", "TensorIntrin"]


@dataclass(frozen=True, eq=False)
class Scalar(Var):
    """A constant that a pattern leaves open: an immediate of the instruction."""


class Mismatch(Exception):
    """Why a nest does not compute a pattern."""


@dataclass(frozen=True)
class Match:
    """How a nest computes a pattern: operand by the buffer read or written, and the immediates."""

    operands: Mapping[Buffer, str]
    immediates: Mapping[str, Value]


@dataclass(frozen=True)
class TensorIntrin:
    """An instruction as the computation of one block.

    Parameters
    ----------
    pattern
        A block with one store (`daedal.compiler.te.pattern` makes one from a formula).
    scopes
        Pattern buffer name -> memory scopes its counterpart may be in; all where absent.
    sliding
        Pattern buffers whose first dimension counts rows that follow each other, wherever they
        begin: ``a[t]`` stands for ``x[2*i + t]`` of a longer x.
    """

    name: str
    pattern: Block
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sliding: frozenset[str] = frozenset()

    @property
    def formula(self) -> str:
        """What the instruction computes, as the loop IR writes it."""
        return stmt_text(self.pattern.body).strip()

    def match(self, extents: Mapping[Var, int], realize: BlockRealize) -> Match:
        """Match the nest of loops with `extents` around `realize`.

        Raises
        ------
        Mismatch
            Says what differs.
        """
        body = self.pattern.body
        assert isinstance(body, BufferStore), "a pattern is one store"
        choices = sum(_commutes(node) for node in walk(body.value))
        first: Mismatch | None = None
        for swaps in itertools.product((False, True), repeat=choices):
            try:
                return _Matcher(self, extents, realize, iter(swaps)).run()
            except Mismatch as reason:
                first = first or reason
        assert first is not None
        raise first


@dataclass(frozen=True)
class CopyIntrin:
    """A transfer: any loops around ``dst[...] = src[...]`` with boxes on both sides, maybe padded.

    The box on the side of memory may take every n-th index of a dimension.
    `widening` also takes a source of another dtype, converted: ``dst[...] = int32(src[...])``. The
    source may be one of several, ``select(c < 2, one[...], other[...])``, where the loops outside
    the nest decide which.
    """

    name: str
    source_scopes: tuple[str, ...]
    target_scopes: tuple[str, ...]
    widening: bool = False

    @property
    def formula(self) -> str:
        """What the instruction computes, as the loop IR writes it."""
        return "target[...] = int(source[...])" if self.widening else "target[...] = source[...]"

    def match(self, extents: Mapping[Var, int], realize: BlockRealize) -> Match:
        """Match the nest of loops with `extents` around `realize`; raises Mismatch."""
        store = realize.block.body
        if not isinstance(store, BufferStore):
            raise Mismatch("a copy is one store")
        value = store.value
        if self.widening and isinstance(value, Cast):
            value = value.value
        bound = realize.binding
        sources = list(_alternatives(value, bound, extents))
        _check_scope("target", store.buffer, self.target_scopes)
        _check_box("target", store.buffer, store.indices, bound, extents)
        for source in sources:
            _check_scope("source", source.buffer, self.source_scopes)
            _check_box("source", source.buffer, source.indices, bound, extents)
        return Match(
            {store.buffer: "target", **{source.buffer: "source" for source in sources}}, {}
        )


def _alternatives(
    value: Expr, bound: Mapping[Var, Expr], extents: Mapping[Var, int]
) -> Iterator[Load]:
    """The loads between which `value` selects; no loop of the nest may decide."""
    match value:
        case Load():
            yield value
        case Select(condition, true, false):
            deciding = set(free_vars(substitute(condition, bound))) & set(extents)
            if any(extents[var] > 1 for var in deciding):
                raise Mismatch("a loop of the nest decides which source is copied")
            yield from _alternatives(true, bound, extents)
            yield from _alternatives(false, bound, extents)
        case _:
            raise Mismatch("the stored value is more than an element of another buffer")


def _check_box(
    what: str,
    buffer: Buffer,
    indices: tuple[Expr, ...],
    bound: Mapping[Var, Expr],
    extents: Mapping[Var, int],
) -> None:
    seen: set[Var] = set()
    for index in indices:
        form = linear(simplify(substitute(index, bound)))
        moving = [(t, f) for t, f in form.terms if set(free_vars(t)) & set(extents)]
        moving = [(t, f) for t, f in moving if not isinstance(t, Var) or extents[t] > 1]
        names = {v for t, _ in moving for v in free_vars(t)}
        # Memory may be read and written with strides, rows on chip are dense.
        strided = any(f < 1 if buffer.scope == "global" else f != 1 for _, f in moving)
        if len(moving) > 1 or strided or seen & names:
            raise Mismatch(f"the {what} is not a box: each dimension may follow one loop")
        seen |= names


def _check_scope(operand: str, buffer: Buffer, scopes: tuple[str, ...]) -> None:
    if buffer.scope not in scopes:
        raise Mismatch(
            f"{operand} must be in {' or '.join(scopes)}, but {buffer.name!r} is in {buffer.scope}"
        )


class _Matcher:
    """Unifies the store of a pattern with that of a block, collecting what stands for what."""

    def __init__(
        self,
        intrin: TensorIntrin,
        extents: Mapping[Var, int],
        realize: BlockRealize,
        swaps: Iterator[bool],
    ) -> None:
        self.intrin = intrin
        self.swaps = swaps
        self.extents = extents
        self.realize = realize
        # A loop of extent 1 is its 0 everywhere, in the pattern and here.
        ones: dict[Var, Expr] = {var: IntImm(0) for var, size in extents.items() if size == 1}
        self.bound = {
            axis: simplify(substitute(value, ones), extents)
            for axis, value in realize.binding.items()
        }
        self.buffers: dict[Buffer, Buffer] = {}
        self.axes: dict[Axis, Var] = {}
        self.immediates: dict[str, Value] = {}

    def run(self) -> Match:
        pattern, block = self.intrin.pattern, self.realize.block
        wanted, store = pattern.body, block.body
        if not isinstance(store, BufferStore):
            raise Mismatch("the block holds more than one store")
        assert isinstance(wanted, BufferStore), "a pattern is one store"
        if self.realize.predicate is not None:
            cut = set(free_vars(self.realize.predicate)) & set(self.extents)
            if cut:
                raise Mismatch(
                    f"loop {min(var.name for var in cut)!r} is clipped by a predicate; "
                    "pad the tensor to whole rows"
                )
        self.access(wanted.buffer, wanted.indices, store.buffer, store.indices)
        self.unify(wanted.value, store.value)
        if block.init is not None:
            if not isinstance(pattern.init, BufferStore) or not isinstance(block.init, BufferStore):
                raise Mismatch("the block has an init, the pattern none; use decompose_reduction")
            if block.init.value != pattern.init.value:
                raise Mismatch("the block is initialized to another value")
        self.check_loops()
        operands = {mine: theirs.name for theirs, mine in self.buffers.items()}
        return Match(operands, self.immediates)

    def check_loops(self) -> None:
        used = set(self.axes.values())
        for var, size in self.extents.items():
            if size > 1 and var not in used:
                raise Mismatch(f"loop {var.name!r} of extent {size} has no counterpart")
        for axis in self.intrin.pattern.iter_vars:
            if axis.extent > 1 and axis not in self.axes:
                raise Mismatch(f"no loop of extent {axis.extent} stands for {axis.name!r}")

    def unify(self, wanted: Expr, here: Expr) -> None:
        if isinstance(wanted, Scalar):
            if not isinstance(here, IntImm | FloatImm):
                raise Mismatch(f"{wanted.name!r} must be a constant")
            value = here.value
            if self.immediates.setdefault(wanted.name, int(value)) != int(value):
                raise Mismatch(f"{wanted.name!r} must be one constant")
            return
        if type(wanted) is not type(here) or wanted.dtype != here.dtype:
            raise Mismatch(f"{_what(wanted)} is wanted where there is {_what(here)}")
        match wanted, here:
            case (Load(), Load()):
                if here.pad_value is not None:
                    raise Mismatch(
                        f"{here.buffer.name!r} is read through padded; use cache_read first"
                    )
                self.access(wanted.buffer, wanted.indices, here.buffer, here.indices)
            case (IntImm() | FloatImm(), _):
                if wanted != here:
                    raise Mismatch(f"{_what(wanted)} is wanted where there is {_what(here)}")
            case (Binary() | Compare(), Binary() | Compare()):
                if wanted.op != here.op:
                    raise Mismatch(f"{wanted.op} is wanted where there is {here.op}")
                self.both(wanted, here, _commutes(wanted))
            case (And() | Or(), _):
                self.both(wanted, here, _commutes(wanted))
            case (Call(), Call()) if wanted.name != here.name:
                raise Mismatch(f"{wanted.name} is wanted where there is {here.name}")
            case (Call() | Cast() | Select() | Not(), _):
                for one, other in zip(children(wanted), children(here), strict=True):
                    self.unify(one, other)
            case _:
                raise Mismatch(f"a pattern cannot hold {_what(wanted)}")

    def both(self, wanted: Expr, here: Expr, commutes: bool) -> None:
        """Unify two operands; where they commute, in the order that this attempt has chosen."""
        (a, b), (x, y) = children(wanted), children(here)
        if commutes and next(self.swaps):
            x, y = y, x
        self.unify(a, x)
        self.unify(b, y)

    def access(
        self, theirs: Buffer, wanted: tuple[Expr, ...], mine: Buffer, here: tuple[Expr, ...]
    ) -> None:
        if self.buffers.setdefault(theirs, mine) is not mine:
            raise Mismatch(
                f"{theirs.name!r} stands for {self.buffers[theirs].name!r}, not {mine.name!r}"
            )
        if [b for b, m in self.buffers.items() if m is mine] != [theirs]:
            raise Mismatch(f"{mine.name!r} cannot stand for two operands")
        if theirs.dtype != mine.dtype:
            raise Mismatch(f"{theirs.name!r} is {theirs.dtype}, but {mine.name!r} is {mine.dtype}")
        if theirs.name in self.intrin.scopes:
            _check_scope(repr(theirs.name), mine, self.intrin.scopes[theirs.name])
        shape = theirs.shape[1:] if theirs.name in self.intrin.sliding else theirs.shape
        rank = len(shape)
        if mine.shape[-rank:] != shape:
            raise Mismatch(
                f"rows of {theirs.name!r} are {list(shape)}, those of {mine.name!r} "
                f"{list(mine.shape[-rank:])}"
            )
        outer = [simplify(substitute(index, self.bound), self.extents) for index in here[:-rank]]
        if theirs.name in self.intrin.sliding:
            self.slide(wanted[0], outer, mine)
        for index in outer:
            for var in free_vars(index):
                if self.extents.get(var, 1) > 1:
                    raise Mismatch(f"loop {var.name!r} moves between rows of {mine.name!r}")
        for dim, (index, own) in enumerate(zip(wanted[-rank:], here[-rank:], strict=True)):
            if loads(index):
                self.unify(index, own)
                continue
            self.index(index, simplify(substitute(own, self.bound), self.extents), mine, dim - rank)

    def slide(self, wanted: Expr, outer: list[Expr], mine: Buffer) -> None:
        """Take the loop that steps from row to row out of the leading indices `outer`."""
        if not isinstance(wanted, Axis) or wanted.extent == 1:
            return
        dim = max((d for d in range(len(outer)) if mine.shape[d] > 1), default=0)
        form = linear(outer[dim])
        assert form is not None
        steps = [
            term
            for term, factor in form.terms
            if factor == 1 and isinstance(term, Var) and self.extents.get(term) == wanted.extent
        ]
        if not steps:
            raise Mismatch(
                f"no loop of extent {wanted.extent} steps through neighbouring rows of "
                f"{mine.name!r}"
            )
        self.bind(wanted, steps[0])
        outer[dim] = substitute(outer[dim], {steps[0]: IntImm(0)})

    def index(self, wanted: Expr, here: Expr, mine: Buffer, dim: int) -> None:
        if isinstance(wanted, Axis) and wanted.extent > 1:
            if not isinstance(here, Var) or here not in self.extents:
                raise Mismatch(
                    f"dimension {dim} of {mine.name!r} is not one whole loop of the nest"
                )
            if self.extents[here] != wanted.extent:
                raise Mismatch(
                    f"{wanted.name!r} has extent {wanted.extent}, but loop {here.name!r} "
                    f"{self.extents[here]}"
                )
            self.bind(wanted, here)
            return
        value = IntImm(0) if isinstance(wanted, Axis) else wanted
        # In a dimension of size 1 every legal index is 0.
        if mine.shape[dim] != 1 and value != here:
            raise Mismatch(f"dimension {dim} of {mine.name!r} has another index")

    def bind(self, wanted: Axis, here: Var) -> None:
        """Note that an axis of the pattern and a loop of the nest stand for each other."""
        if self.axes.setdefault(wanted, here) is not here:
            raise Mismatch(f"{wanted.name!r} stands for two loops, one is {here.name!r}")
        if [a for a, var in self.axes.items() if var is here] != [wanted]:
            raise Mismatch(f"loop {here.name!r} cannot stand for two axes")


def _commutes(expr: Expr) -> bool:
    """Whether the operands of a node may change places."""
    match expr:
        case Binary(op) | Compare(op):
            return op in ("+", "*", "min", "max", "==", "!=")
    return isinstance(expr, And | Or)


def _what(expr: Expr) -> str:
    match expr:
        case IntImm(value) | FloatImm(value):
            return f"the constant {value}"
        case Binary(op) | Compare(op):
            return f"{op} of {expr.dtype}"
        case Load(buffer):
            return f"an element of {buffer.name!r} ({expr.dtype})"
        case Cast(dtype):
            return f"a conversion to {dtype}"
        case Call(name):
            return f"{name} as {expr.dtype}"
        case Var() if expr.dtype == INDEX_DTYPE:
            return f"the variable {expr.name!r}"
    return f"{type(expr).__name__.lower()} of {expr.dtype}"
