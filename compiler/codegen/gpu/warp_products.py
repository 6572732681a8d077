"""`write_product`: a product of matrices that the threads of a warp compute together.

Each thread loads the elements of both operands that the instruction wants from it, some to a word
of 32 bits, and keeps sums. Source: NVIDIA, PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with
floating point type", "Matrix Fragments for mma.m16n8k32".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from daedal.compiler.codegen.llvm.expressions import Expressions
from daedal.compiler.codegen.llvm.places import Lane
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES, Value, llvm_type
from daedal.compiler.tir.expr import Expr, Load, Var
from daedal.compiler.tir.linear import accessed_element, linear
from daedal.compiler.tir.stmt import BufferStore, For
from daedal.compiler.tir.visit import free_vars, substitute
from daedal.compiler.tir.warp_products import WarpProduct, factors_of

__all__ = ["write_product"]

WORD_BYTES = 4
ROW_BYTES = 16
"""Of a matrix of eight rows."""
MATRICES = 4
"""That ``ldmatrix`` loads at once, at most."""
COLUMNS = 8
"""Of a product."""
LANES_ALONG = 4
"""Threads along the terms of a sum, whose words follow each other; the others are along rows of
the first operand, or columns of the second one."""


def write_product(at: Expressions, product: WarpProduct, nest: For, lane: Var) -> None:
    """A product, whose loops and `lane`, the loop of the threads, are as `lane_loops` makes them;
    `lane` has its value."""
    assert isinstance(nest.body, For) and isinstance(nest.body.body, For)
    terms = nest.body.body
    store = terms.body
    assert isinstance(store, BufferStore)
    found = factors_of(store)
    assert found is not None
    total, one, other = found
    for loop in (nest, nest.body, terms):
        at.extents[loop.var] = loop.extent
    loops = _Loops(nest.var, nest.body.var, terms.var, lane)
    is_first = any(loops.rows in free_vars(index) for index in one.indices)
    a, b = (one, other) if is_first else (other, one)
    words = [*_operand(at, a, _a_access(loops), loops), *_operand(at, b, _b_access(loops), loops)]
    sums = _sums(at, total, loops)
    result = _called(at, product, words, sums)
    for number, (i, j) in enumerate(_ELEMENTS):
        at.values[loops.rows], at.values[loops.columns] = i, j
        place = at.place(store)
        one_sum = at.text.value(f"extractvalue {result}, {number}")
        kind, address = llvm_type(product.sums), at.address(store.buffer, place)
        at.text.line(f"store {kind} {one_sum}, {address}, align {ELEMENT_BYTES[product.sums]}")
    for var in (loops.rows, loops.columns):
        del at.values[var]


_ELEMENTS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Of the result, that each thread has: by the loops of its rows and columns."""


@dataclass(frozen=True)
class _Loops:
    """The loops of a thread's rows and columns, of the terms of a sum, and of the threads."""

    rows: Var
    columns: Var
    terms: Var
    lane: Var


def _sums(at: Expressions, total: Load, loops: _Loops) -> list[Value]:
    found = []
    for i, j in _ELEMENTS:
        at.values[loops.rows], at.values[loops.columns] = i, j
        found.append(at.scalar(total))
    return found


def _called(at: Expressions, product: WarpProduct, words: list[str], sums: list[Value]) -> str:
    """The sums after the product, as a structure with its type."""
    kind = llvm_type(product.sums)
    result = "{" + ", ".join([kind] * len(sums)) + "}"
    given = ", ".join(["ptr %gpu", *(f"i32 {word}" for word in words), *map(str, sums)])
    return f"{result} {at.text.value(f'call {result} @gpu.{product.name}({given})')}"


@dataclass(frozen=True)
class _Rows:
    """Addresses of the rows of 16 bytes that a warp loads at once, for each thread one.

    Attributes
    ----------
    along : the terms of an index that follow each other in a row, with their factors.
    values : of variables in the thread that has the address.
    """

    along: Mapping[Expr, int]
    values: Mapping[Var, tuple[str, ...]]


@dataclass(frozen=True)
class _Access:
    """How a warp loads an operand.

    Attributes
    ----------
    count : matrices of eight rows.
    plain : where the terms of a sum follow each other.
    transposed : where rows or columns of the result do.
    words : loads them one by one.
    """

    count: int
    plain: _Rows
    transposed: _Rows
    words: Callable[[Expressions, Load, "_Loops"], list[str]]


def _a_access(loops: _Loops) -> _Access:
    """The first operand: the upper and the lower rows of the first half of terms, then of the
    second. The row ``i * 8 + t // 4`` of the result is ``lane % 16`` for ``i = lane // 8 % 2`` and
    ``t = lane % 8 * 4``."""
    upper = ("lshr i64 {lane}, 3", "and i64 {0}, 1")
    own = ("and i64 {lane}, 7", "shl i64 {0}, 2")
    half = ("lshr i64 {lane}, 4", "mul i64 {0}, {count}")
    plain = {loops.rows: upper, loops.lane: own, loops.terms: half}
    row = ("and i64 {lane}, 7", "lshr i64 {lane}, 4", "mul i64 {1}, 8", "add i64 {0}, {2}")
    transposed = {loops.rows: upper, loops.lane: ("add i64 0, 0",), loops.terms: row}
    return _Access(
        4,
        _Rows({loops.terms: 1}, plain),
        _Rows({loops.lane // LANES_ALONG: 1}, transposed),
        _a_words,
    )


def _b_access(loops: _Loops) -> _Access:
    """The second operand: the first half of terms, then the second. The column ``t % 4 * 2 + j`` of
    the result is ``lane % 8`` for ``t = lane % 8 // 2`` and ``j = lane % 2``."""
    own = ("and i64 {lane}, 7", "lshr i64 {0}, 1")
    half = ("lshr i64 {lane}, 3", "and i64 {0}, 1", "mul i64 {1}, {count}")
    plain = {loops.columns: ("and i64 {lane}, 1",), loops.lane: own, loops.terms: half}
    zero = ("add i64 0, 0",)
    transposed = {loops.columns: zero, loops.lane: zero, loops.terms: ("and i64 {lane}, 15",)}
    return _Access(
        2,
        _Rows({loops.terms: 1}, plain),
        _Rows({loops.lane % LANES_ALONG: 2, loops.columns: 1}, transposed),
        _b_words,
    )


def _operand(at: Expressions, load: Load, access: _Access, loops: _Loops) -> list[str]:
    """The words of an operand: by one instruction, where rows of 16 bytes are in shared memory."""
    size = ELEMENT_BYTES[load.buffer.dtype]
    count = ROW_BYTES // size
    if _follows(at, load, access.plain.along, count):
        return _matrices(at, load, access, access.plain, "", loops)
    if size == 2 and _follows(at, load, access.transposed.along, count):
        return _matrices(at, load, access, access.transposed, ".trans", loops)
    return access.words(at, load, loops)


def _matrices(
    at: Expressions, load: Load, access: _Access, rows: _Rows, trans: str, loops: _Loops
) -> list[str]:
    """Two matrices are loaded with those of the product of the next columns, if there is one, which
    writes the same instruction. Source: NVIDIA, PTX ISA 8.0, "ldmatrix"."""
    text, lane, buffer = at.text, at.values[loops.lane], load.buffer
    before = dict(at.values)
    count = ROW_BYTES // ELEMENT_BYTES[buffer.dtype]
    pair = _next_to_each_other(at, load, loops) if access.count < MATRICES else None
    found: dict[Var, str] = {}
    with text.at(at.places[0]):
        for var, lines in rows.values.items():
            names: list[str] = []
            for line in lines:
                names.append(text.value(line.format(*names, lane=lane, count=count)))
            found[var] = names[-1]
        if pair is not None:
            upper = text.value(f"lshr i64 {lane}, 4")
            found[pair[0]] = text.value(f"add i64 {upper}, {pair[1] - pair[1] % 2}")
    at.values.update(found)
    address = at.address(buffer, at.place(load))
    at.values.clear()
    at.values.update(before)
    loaded = access.count if pair is None else MATRICES
    first = 0 if pair is None else pair[1] % 2 * access.count
    result = "{" + ", ".join(["i32"] * loaded) + "}"
    words = text.value(f"call {result} @gpu.ldmatrix.x{loaded}{trans}(ptr %gpu, {address})")
    numbers = range(first, first + access.count)
    return [text.value(f"extractvalue {result} {words}, {number}") for number in numbers]


def _next_to_each_other(at: Expressions, load: Load, loops: _Loops) -> tuple[Var, int] | None:
    """The unrolled loop over products of neighbouring columns, if it has an even extent, and the
    number of this one."""
    for index in load.indices:
        if loops.columns not in free_vars(index):
            continue
        for term, factor in linear(index).terms:
            if isinstance(term, Var) and factor == COLUMNS and at.extents.get(term, 1) % 2 == 0:
                number = at.values[term]
                if isinstance(number, int):
                    return term, number
    return None


def _a_words(at: Expressions, load: Load, loops: _Loops) -> list[str]:
    """The first operand's: both rows of the first half of terms, then of the second."""
    words = []
    for half in range(2):
        for row in range(2):
            at.values[loops.rows] = row
            words.append(_word(at, load, loops, half))
    del at.values[loops.rows]
    return words


def _b_words(at: Expressions, load: Load, loops: _Loops) -> list[str]:
    """The second operand's: a thread's column is not one of its result's.

    The column ``t % 4 * 2 + j`` is ``lane // 4`` for ``t = lane // 8`` and ``j = lane // 4 % 2``.
    """
    lane = at.values[loops.lane]
    with at.text.at(at.places[0]):
        at.values[loops.lane] = at.text.value(f"lshr i64 {lane}, 3")
        group = at.text.value(f"lshr i64 {lane}, 2")
        at.values[loops.columns] = at.text.value(f"and i64 {group}, 1")
    own = replace(loops, lane=Var("lane"))
    at.values[own.lane] = lane
    words = [_word(at, load, own, half) for half in range(2)]
    at.values[loops.lane] = lane
    del at.values[loops.columns]
    return words


def _word(at: Expressions, load: Load, loops: _Loops, half: int) -> str:
    """Elements that follow each other along the terms, as one number."""
    dtype = load.buffer.dtype
    count = WORD_BYTES // ELEMENT_BYTES[dtype]
    with at.text.at(at.places[0]):
        number = at.text.value(f"and i64 {at.values[loops.lane]}, {LANES_ALONG - 1}")
        first = at.text.value(f"mul i64 {number}, {count}")
    later = loops.terms + half * LANES_ALONG * count
    moved = Load(
        load.buffer, tuple(substitute(index, {loops.terms: later}) for index in load.indices)
    )
    at.lane = Lane(loops.terms, count, first)
    try:
        return _joined(at, moved, count)
    finally:
        at.lane = None


def _joined(at: Expressions, load: Load, count: int) -> str:
    assert at.lane is not None
    if _follows(at, load, {at.lane.var: 1}, count):
        buffer = load.buffer
        address = at.address(buffer, at.place(load))
        if at.announce is not None:
            at.announce(buffer, address, WORD_BYTES, False)
        return at.text.value(f"load i32, {address}, align {WORD_BYTES}")
    return at.text.value(f"bitcast {at.value(load)} to i32")


def _follows(at: Expressions, load: Load, along: Mapping[Expr, int], count: int) -> bool:
    """Whether `count` elements along some terms follow each other, from a multiple of it on."""
    form = accessed_element(load)
    others = [
        (term, factor)
        for term, factor in form.terms
        if term not in along and not (isinstance(term, Var) and at.extents.get(term) == 1)
    ]
    own = {var for term in along for var in free_vars(term)}
    mixed = any(own.intersection(free_vars(term)) for term, _ in others)
    follows = all(form.coefficient(term) == factor for term, factor in along.items()) and not mixed
    return follows and not any(
        number % count for number in (form.constant, *(f for _, f in others))
    )
