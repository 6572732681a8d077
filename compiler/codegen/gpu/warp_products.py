"""`write_product`: a product of matrices that the threads of a warp compute together.

Each thread loads the elements of both operands that the instruction wants from it, some to a word
of 32 bits, and keeps sums. Source: NVIDIA, PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with
floating point type", "Matrix Fragments for mma.m16n8k32".
"""

from dataclasses import dataclass, replace

from daedal.compiler.codegen.llvm.expressions import Expressions, Lane
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES, Value, llvm_type
from daedal.compiler.tir.expr import Load, Var
from daedal.compiler.tir.linear import element_number
from daedal.compiler.tir.stmt import BufferStore, For
from daedal.compiler.tir.visit import free_vars, substitute
from daedal.compiler.tir.warp_products import WarpProduct, factors_of

__all__ = ["write_product"]

WORD_BYTES = 4
ROW_BYTES = 16
"""Of a matrix of eight rows, as ``ldmatrix`` loads four."""
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
    is_in_rows = _is_aligned(a, loops.terms, ROW_BYTES // ELEMENT_BYTES[product.dtype])
    a_words = _a_matrices(at, a, loops) if is_in_rows else _a_words(at, a, loops)
    words = [*a_words, *_b_words(at, b, loops)]
    sums = _sums(at, total, loops)
    result = _called(at, product, words, sums)
    for number, (i, j) in enumerate(_ELEMENTS):
        at.values[loops.rows], at.values[loops.columns] = i, j
        place = at.place(store.buffer, store.indices)
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


def _a_words(at: Expressions, load: Load, loops: _Loops) -> list[str]:
    """The first operand's: both rows of the first half of terms, then of the second."""
    words = []
    for half in range(2):
        for row in range(2):
            at.values[loops.rows] = row
            words.append(_word(at, load, loops, half))
    return words


def _a_matrices(at: Expressions, load: Load, loops: _Loops) -> list[str]:
    """The same by one instruction: each thread has the address of a row of 16 bytes.

    They are four matrices of eight rows: the upper and the lower rows of the first half of terms,
    then of the second. The row ``i * 8 + t // 4`` is ``lane % 16`` for ``i = lane // 8 % 2`` and
    ``t = lane % 8 * 4``. Source: NVIDIA, PTX ISA 8.0, "ldmatrix".
    """
    text, lane, buffer = at.text, at.values[loops.lane], load.buffer
    with text.at(at.places[0]):
        upper = text.value(f"lshr i64 {lane}, 3")
        at.values[loops.rows] = text.value(f"and i64 {upper}, 1")
        row = text.value(f"and i64 {lane}, 7")
        at.values[loops.lane] = text.value(f"shl i64 {row}, 2")
        half = text.value(f"lshr i64 {lane}, 4")
        count = ROW_BYTES // ELEMENT_BYTES[buffer.dtype]
        at.values[loops.terms] = text.value(f"mul i64 {half}, {count}")
    address = at.address(buffer, at.place(buffer, load.indices))
    at.values[loops.lane] = lane
    del at.values[loops.terms]
    four = "{i32, i32, i32, i32}"
    found = text.value(f"call {four} @gpu.ldmatrix.x4(ptr %gpu, {address})")
    return [text.value(f"extractvalue {four} {found}, {number}") for number in range(4)]


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
    if _is_aligned(load, at.lane.var, count):
        buffer = load.buffer
        address = at.address(buffer, at.place(buffer, load.indices))
        if at.announce is not None:
            at.announce(buffer, address, WORD_BYTES, False)
        return at.text.value(f"load i32, {address}, align {WORD_BYTES}")
    return at.text.value(f"bitcast {at.value(load)} to i32")


def _is_aligned(load: Load, terms: Var, count: int) -> bool:
    """Whether `count` elements along `terms` follow each other, and begin at a multiple of it."""
    form = element_number(load.indices, load.buffer.shape)
    others = [factor for term, factor in form.terms if term is not terms]
    mixed = any(term is not terms and terms in free_vars(term) for term, _ in form.terms)
    follows = form.coefficient(terms) == 1 and not mixed
    return follows and not any(number % count for number in (form.constant, *others))
