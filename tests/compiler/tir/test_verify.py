"""Functions that break a rule of the loop IR are refused, each with the rule."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Select, Var
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Seq,
    Stmt,
)
from daedal.compiler.tir.verify import verify

X = Buffer("x", (8,), "int32")
Y = Buffer("y", (8,), "int32")
T = Buffer("t", (8,), "int32", "acc")


def copy(
    name: str,
    target: Buffer,
    source: Buffer,
    loops: dict[Var, int],
    value: Expr,
    predicate: Expr | None = None,
    shift: int = 0,
) -> Stmt:
    """Loops around ``target[v] = source[v + shift]`` with v bound to `value`."""
    axis = Axis("v", extent=8)
    block = make_block(name, (axis,), BufferStore(target, (axis,), Load(source, (axis + shift,))))
    stmt: Stmt = BlockRealize((value,), block, predicate)
    for var, extent in reversed(loops.items()):
        stmt = For(var, extent, stmt)
    return stmt


def whole(name: str, target: Buffer, source: Buffer) -> Stmt:
    var = Var("i")
    return copy(name, target, source, {var: 8}, var)


def func(body: Stmt) -> PrimFunc:
    return PrimFunc("f", (X, Y), body)


def staged(first: Stmt, second: Stmt, low: int = 0, extent: int = 8) -> PrimFunc:
    window = (Range(IntImm(low), extent),)
    return func(Allocate((Allocation(T, window),), Seq((first, second))))


def test_legal_functions_pass() -> None:
    i, j = Var("i"), Var("j")
    verify(func(whole("y", Y, X)))
    verify(staged(whole("t", T, X), whole("y", Y, T)))
    verify(func(copy("y", Y, X, {i: 2, j: 4}, i * 4 + j)))
    verify(func(copy("y", Y, X, {i: 3, j: 3}, i * 3 + j, i * 3 + j < 8)))
    verify(func(copy("y", Y, X, {i: 8}, (i + 3) % 8)))


def added(name: str) -> Stmt:
    """``y[v] += x[v]``."""
    var, axis = Var("i"), Axis("v", extent=8)
    total = Load(Y, (axis,)) + Load(X, (axis,))
    return For(
        var, 8, BlockRealize((var,), make_block(name, (axis,), BufferStore(Y, (axis,), total)))
    )


def test_one_that_accumulates_waits_for_one_earlier_writer() -> None:
    verify(func(Seq((whole("y", Y, X), added("one"), added("two")))))
    with pytest.raises(InvalidIRError, match=r"block 'one' reads y\[v\] before it is completely"):
        verify(func(Seq((added("one"), whole("y", Y, X)))))


def test_a_block_may_write_several_buffers() -> None:
    other = Buffer("u", (8,), "int32", "acc")
    var, axis = Var("i"), Axis("v", extent=8)
    stores = Seq(tuple(BufferStore(target, (axis,), Load(X, (axis,))) for target in (other, T)))
    first = For(var, 8, BlockRealize((var,), make_block("both", (axis,), stores)))
    window = (Range(IntImm(0), 8),)
    allocations = (Allocation(T, window), Allocation(other, window))
    verify(func(Allocate(allocations, Seq((first, whole("y", Y, T))))))


def both(outer: tuple[Var, int], first: Stmt, second: Stmt, low: Expr, extent: int) -> PrimFunc:
    """One loop around a window of `T`, filled by `first` and used by `second`."""
    window = (Range(low, extent),)
    var, count = outer
    return func(For(var, count, Allocate((Allocation(T, window),), Seq((first, second)))))


def test_conditions_on_outer_loops_leave_out_iterations() -> None:
    """Both blocks run in the first four of five iterations; the values stay in their domains."""
    g, a, b = Var("g"), Var("a"), Var("b")
    produce = copy("t", T, X, {a: 2}, g * 2 + a, g < 4)
    consume = copy("y", Y, T, {b: 2}, g * 2 + b, g * 2 + b < 8)
    verify(both((g, 5), produce, consume, g * 2, 2))


def test_a_condition_may_shorten_a_box() -> None:
    """Four rows in steps of three: the window need not hold six."""
    g, a, b, c = Var("g"), Var("a"), Var("b"), Var("c")
    produce = copy("t", T, X, {a: 2, b: 3}, g * 4 + a * 3 + b, a * 3 + b < 4)
    consume = copy("y", Y, T, {c: 4}, g * 4 + c)
    verify(both((g, 2), produce, consume, g * 4, 4))


def guarded() -> PrimFunc:
    """The producer leaves out an iteration in which the consumer runs."""
    g, a, b = Var("g"), Var("a"), Var("b")
    produce = copy("t", T, X, {a: 2}, g * 2 + a, g < 3)
    return both((g, 4), produce, copy("y", Y, T, {b: 2}, g * 2 + b), g * 2, 2)


def strided() -> PrimFunc:
    """In each iteration of the outer loop every other element is written, and all are read."""
    g, a, b = Var("g"), Var("a"), Var("b")
    produce = copy("t", T, X, {a: 4}, a * 2 + g)
    consume = copy("y", Y, T, {b: 4}, g * 4 + b)
    return func(
        Allocate((Allocation(T, (Range(IntImm(0), 8),)),), For(g, 2, Seq((produce, consume))))
    )


def short() -> PrimFunc:
    """A block over six elements fills a buffer of eight in two steps of four."""
    g, a, b = Var("g"), Var("a"), Var("b")
    axis = Axis("v", extent=6)
    block = make_block("t", (axis,), BufferStore(T, (axis,), Load(X, (axis,))))
    produce = For(a, 4, BlockRealize((g * 4 + a,), block, g * 4 + a < 6))
    return both((g, 2), produce, copy("y", Y, T, {b: 4}, g * 4 + b), g * 4, 4)


def two_variables() -> PrimFunc:
    i = Var("i")
    axes = (Axis("v", extent=8), Axis("u", extent=8))
    block = make_block("y", axes, BufferStore(Y, (axes[0],), Load(X, (axes[1],))))
    return func(For(i, 8, BlockRealize((i, i), block)))


def unreduced(accumulates: bool) -> PrimFunc:
    i, k = Var("i"), Var("k")
    v, r = Axis("v", extent=8), Axis("r", extent=3, kind="reduce")
    old = Load(Y, (v,))
    value = old + Load(X, (v,)) if accumulates else Load(X, (v,))
    init = BufferStore(Y, (v,), IntImm(0)) if accumulates else None
    block = make_block("y", (v, r), BufferStore(Y, (v,), value), init)
    return func(For(i, 8, For(k, 2, BlockRealize((i, k), block))))


def undeclared() -> PrimFunc:
    nest = whole("y", Y, X)
    assert isinstance(nest, For) and isinstance(nest.body, BlockRealize)
    block = replace(nest.body.block, reads=())
    return func(replace(nest, body=replace(nest.body, block=block)))


i, j = Var("i"), Var("j")
AXIS = Axis("v", extent=8)

ILLEGAL: list[tuple[Callable[[], PrimFunc], str]] = [
    (
        lambda: staged(whole("y", Y, X), whole("y", T, X)),
        "blocks need distinct names, not two 'y'",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 8}, j)),
        "variable 'j' is not bound where f uses it",
    ),
    (
        lambda: func(whole("y", Y, T)),
        "buffer 't' does not live where block 'y' uses it",
    ),
    (
        lambda: func(For(i, 1, copy("y", Y, X, {i: 8}, i))),
        "loops inside one another need variables of their own, not 'i' twice",
    ),
    (
        lambda: func(replace(whole("y", Y, X), kind="sideways")),
        "a loop is not 'sideways' with extent 8 ('i')",
    ),
    (
        lambda: func(For(i, 8, BufferStore(Y, (i,), Load(X, (i,))))),
        "a store must stand in a block ('y')",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 8, j: 2}, i)),
        "every loop around a block must take part in its bindings, not 'j' alone (block 'y')",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 4, j: 3}, i * 2 + j)),
        "bindings must stay within their domains, not v = i * 2 + j (block 'y'); "
        "a predicate is missing",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 3, j: 3}, i * 2 + j)),
        "bindings must be independent: v = i * 2 + j takes a value twice (block 'y')",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 4}, i * 2)),
        "bindings must cover a box: v = i * 2 leaves gaps (block 'y')",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 8}, i, i < 5)),
        "output 'y' must be written completely by every block that writes it",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 3, j: 3}, i * 3 + j)),
        "bindings must stay within their domains, not v = i * 3 + j (block 'y'); "
        "a predicate is missing",
    ),
    (
        lambda: func(
            copy("y", Y, X, {i: 8}, Select(i < 4, i, i + 0), (i < 5) | (i < 8))  # type: ignore[operator]
        ),
        "a predicate may only clip loops, as in i*4 + j < 7, not ask i < 5 | i < 8 (block 'y')",
    ),
    (
        two_variables,
        "bindings must be independent",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 8}, i, shift=1)),
        "block 'y' touches 'x' at 1..8 in dimension 0 of size 8",
    ),
    (
        lambda: func(copy("y", Y, X, {i: 4}, i)),
        "output 'y' must be written completely by every block that writes it",
    ),
    (
        lambda: staged(whole("y", Y, T), whole("t", T, X)),
        "block 'y' reads t[v] before it is completely written",
    ),
    (
        lambda: staged(copy("t", T, X, {i: 4}, i), whole("y", Y, T)),
        "block 'y' reads t[v] before it is completely written",
    ),
    (
        lambda: staged(whole("t", T, X), whole("y", Y, T), low=1, extent=7),
        "the window of 't' must hold t[0:+8], not just t[1:+7]",
    ),
    (
        lambda: unreduced(True),
        "output 'y' must be written completely by every block that writes it",
    ),
    (
        lambda: unreduced(False),
        "a block that reduces must accumulate into what it writes ('y')",
    ),
    (guarded, "block 'y' reads t[v] before it is completely written"),
    (strided, "block 'y' reads t[v] before it is completely written"),
    (short, "block 'y' reads t[v] before it is completely written"),
    (undeclared, "block 'y' must declare the regions that its body touches"),
]


@pytest.mark.parametrize(("build", "message"), ILLEGAL, ids=[text[:48] for _, text in ILLEGAL])
def test_illegal_functions(build: Callable[[], PrimFunc], message: str) -> None:
    with pytest.raises(InvalidIRError) as caught:
        verify(build())
    if message == "bindings must be independent":
        assert "leaves gaps" in str(caught.value) or message in str(caught.value)
    else:
        assert str(caught.value) == message


def test_scopes_are_those_of_the_target() -> None:
    function = staged(whole("t", T, X), whole("y", Y, T))
    verify(function)
    with pytest.raises(InvalidIRError) as caught:
        verify(function, frozenset({"global", "shared"}))
    assert str(caught.value) == ("a scope must be one of global, shared, not 'acc' (buffer 't')")
