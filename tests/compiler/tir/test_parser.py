"""The loop IR as text: what is printed is read back, and wrong text is refused in a sentence."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.ops.cpu.schedule import (
    SCOPES,
    schedule_map,
    schedule_partial_sums,
    schedule_reduction,
)
from daedal.compiler.schedule import Schedule, examples
from daedal.compiler.te import create_prim_func
from daedal.compiler.tir.errors import ParseError
from daedal.compiler.tir.expr import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Not,
    Select,
    Var,
    as_expr,
    eq,
    select,
)
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.lower.blocks import lower_blocks
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.region import make_block, whole_window
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Region,
    Seq,
    Stmt,
)
from daedal.compiler.tir.verify import verify
from tests.compiler.tir.test_interpreter_order import Nests
from tests.support.same_function import assert_read_back, assert_same_function
from tests.support.tensor_programs import conv2d, matmul, stencil

X = Buffer("x", (8,), "int32")
Y = Buffer("y", (8,), "int32")

COPY = """\
func copy(x: int8[8], out y: int8[8]):
    alloc t: int8[8] in acc
    for i in 8:
        block t(vi:8 = i):
            t[vi] = x[vi]
    for i in 2, j in 4 unroll {note: "a b"}:
        block y(vi:8 = i * 4 + j) where i * 4 + j < 8:
            y[vi] = t[vi]
"""


STORE = "t[vi] = x[vi]"


def func(body: Stmt, *inputs: Buffer) -> PrimFunc:
    return PrimFunc("f", (*(inputs or (X,)), Y), body)


def whole(name: str, target: Buffer, source: Buffer) -> Stmt:
    """``target[i] = source[i]``."""
    var, axis = Var("i"), Axis("vi", extent=8)
    block = make_block(name, (axis,), BufferStore(target, (axis,), Load(source, (axis,))))
    return For(var, 8, BlockRealize((var,), block))


def allocated(buffer: Buffer) -> Allocation:
    return Allocation(buffer, whole_window(buffer))


# -- what is printed is read back -----------------------------------------------------------------

PROGRAMS = {
    "conv2d": conv2d(height=3, width=3, block=2),
    "matmul": matmul(),
    "stencil": stencil(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_before_and_after_they_are_lowered(name: str) -> None:
    made = create_prim_func(*PROGRAMS[name], name)
    for step in (lambda same: same, lower_blocks, lower):
        assert_read_back(step(made))


@pytest.mark.parametrize("name", examples.__all__)
def test_examples_of_the_documentation(name: str) -> None:
    made = getattr(examples, name)().func
    for step in (lambda same: same, lower_blocks, lower):
        assert_read_back(step(made))


def test_loops_of_the_tutorial() -> None:
    """What docs/schedules.md prints."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "schedules.md").read_text("utf-8")
    texts = re.findall(r"^func .*:\n(?:    .*\n)+", page, re.MULTILINE)
    assert len(texts) == 2
    for text in texts:
        assert func_text(parse_func(text)) == text


def normalized() -> PrimFunc:
    """``y[i] = exp(x[i] - m) / 2`` with m the maximum over lanes and their rest."""
    x = te.placeholder((2, 12), "float32", "x")
    k, lane = te.reduce_axis(3, "k"), te.reduce_axis(4, "lane")
    part = te.compute((2, 4), lambda i, r: te.max(x[i, k * 4 + r], k), "part")
    most = te.compute((2,), lambda i: te.max(part[i, lane], lane), "most")
    y = te.compute((2,), lambda i: te.exp(most[i] - 0.1) / 2 + 1e-30, "y")
    return create_prim_func([x], [y], "kernel")


@pytest.mark.parametrize(
    "scheduled",
    [
        lambda: schedule_map(create_prim_func(*gelu(), "kernel"), "y"),
        lambda: schedule_reduction(create_prim_func(*matmul(), "kernel"), "c", "d", None),
        lambda: schedule_partial_sums(normalized(), ["part", "most"], "y", [1]),
    ],
)
def test_kernels_of_processors(scheduled: Callable[[], PrimFunc]) -> None:
    made = scheduled()
    assert_read_back(made)
    assert_read_back(lower(made))


def gelu() -> tuple[list[te.Tensor], list[te.Tensor]]:
    """A function of floats with constants of every kind."""
    x = te.placeholder((3, 8), "float16", "x")
    y = te.compute(
        (3, 8),
        lambda i, j: select(
            (x[i, j] > -6.5) & ~eq(x[i, j], 0), x[i, j] * (te.erf(x[i, j] * 0.7071) + 1.0) * 0.5, 0
        ),
        "y",
    )
    return [x], [y]


def test_loops_on_a_grid() -> None:
    schedule = Schedule(create_prim_func(*stencil(), "f"), scopes=SCOPES)
    for name in "pqr":
        i, j, *_ = schedule.get_loops(schedule.get_block(name))
        schedule.bind(i, "block.x")
        schedule.bind(j, "thread.x")
        schedule.pragma(j, "note", True)
    assert "for i in 11 block.x, j in 3 thread.x {pragma_note: True}:" in str(schedule)
    assert_read_back(schedule.func)


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool"])
def test_random_nests(dtype: str, seed: int) -> None:
    for number in range(12):
        assert_read_back(Nests(np.random.default_rng((seed, number)), dtype).func())


# -- what the printer must not lose ---------------------------------------------------------------

I = Load(X, (IntImm(0),))  # noqa: E741 an integer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (I - 1, "x[0] - 1"),
        (I + -1, "x[0] + -1"),
        (I - (I - -2), "x[0] - (x[0] - -2)"),
        (as_expr(-2, "int32") * I << 3, "-2 * x[0] << 3"),
        (Binary("+", IntImm(2), IntImm(3)), "2 + 3"),
        (Cast("int32", IntImm(200, "uint8")), "int32(200:uint8)"),
        (Cast("int32", FloatImm(1.5)), "int32(1.5)"),
        (Cast("int32", FloatImm(-1e-30, "float64")), "int32(-1e-30:float64)"),
        (Cast("int32", FloatImm(float("-inf")) * I.astype("float32")), None),
        (Cast("int32", FloatImm(float("nan"))), "int32(nan)"),
        (Cast("int32", Cast("int32", I)), "int32(int32(x[0]))"),
        (select(IntImm(1, "bool") & ~(I < 3), I, 4), "select(True & ~(x[0] < 3), x[0], 4)"),
        (select(eq(I < 1, I < 2) | (I < 3), I, 5),
         "select(x[0] < 1 == (x[0] < 2) | x[0] < 3, x[0], 5)"),
        (select(as_expr(1, "int64") < as_expr(2, "int64"), I, 0),
         "select(1:int64 < 2:int64, x[0], 0)"),
        (Select(I < 0, IntImm(3), IntImm(4)), "select(x[0] < 0, 3, 4)"),
        (te.shift_right_even(I, 2), "shift_right_even(x[0], 2)"),
        (te.shift_right_even(I.astype("int64"), 2).astype("int32"), None),
        (te.requantize(I, 1, 2, 3, 4, 5, 6).astype("int32"), None),
        (te.requantize(I, I, 2, 3, 4, 5, 6, "int32"), "requantize(x[0], x[0], 2, 3, 4, 5, 6)"),
        (te.abs(as_expr(-3, "int32")), "abs(-3)"),
        (te.exp(as_expr(1.0, "float64")).astype("int32"), "int32(exp(1.0:float64):float64)"),
        (Call("bit_xor", (IntImm(1), I), "int32"), "bit_xor(1, x[0])"),
        (te.clip(I, -128, 127), "min(max(x[0], -128), 127)"),
        (X.padded(-3)[as_expr(0) - 1], "x.padded(-3)[-1]"),
    ],
)  # fmt: skip
def test_expressions(value: Expr, text: str | None) -> None:
    made = func(BufferStore(Y, (IntImm(0),), value))
    assert_read_back(made)
    if text is not None:
        assert func_text(made).splitlines()[1] == f"    y[0] = {text}"


def test_a_constant_bears_the_dtype_that_nothing_else_tells() -> None:
    wide = te.requantize(I, 1, 2, 3, 4, 5, 6)
    text = func_text(func(BufferStore(Y, (IntImm(0),), wide.astype("int32"))))
    assert "int32(requantize(x[0], 1, 2, 3, 4, 5, 6):int8)" in text
    indirect = Buffer("at", (4,), "int64")
    store = BufferStore(Y, (Load(indirect, (IntImm(0),)) + 1,), IntImm(5))
    assert "y[at[0] + 1] = 5\n" in func_text(func(store, indirect))
    assert_read_back(func(store, indirect))


@pytest.mark.parametrize("name", ["conv/0:out", 'a "b"', "i_1_", "True", "nan", "é", "", "out"])
def test_any_name(name: str) -> None:
    """Names may come from a model; those that read as something else are in quotes."""
    source, inner = Buffer(name, (8,), "int32"), Buffer(name, (8,), "int32", name or "acc")
    var, axis = Var(name), Axis(name, extent=8)
    blocks = [
        make_block(f"{name}{n}", (axis,), BufferStore(b, (axis,), Load(a, (axis,))), None, notes)
        for n, (a, b, notes) in enumerate([(source, inner, {name: name}), (inner, Y, {})])
    ]
    loops = tuple(For(var, 8, BlockRealize((var,), block)) for block in blocks)
    assert_read_back(PrimFunc(name, (source, Y), Allocate((allocated(inner),), Seq(loops))))


@pytest.mark.parametrize("name", ["init", "reads", "writes"])
def test_a_block_may_store_to_a_buffer_named_as_what_blocks_begin_with(name: str) -> None:
    buffer = Buffer(name, (8,), "int32")
    made = PrimFunc("f", (X, buffer), whole("b", buffer, X))
    assert f"            {name}[vi] = x[vi]\n" in func_text(made)
    assert_read_back(made)


def test_annotations_keep_their_types() -> None:
    notes = {"a": 1, "b": "1", "c": True, "d": "True", "e": "x, y: {}", "f": -5, "g h": "word"}
    made = func(For(Var("i"), 8, BufferStore(Y, (IntImm(0),), IntImm(1)), "serial", notes))
    assert '{a: 1, b: "1", c: True, d: "True", e: "x, y: {}", f: -5, "g h": word}' in func_text(
        made
    )
    assert_read_back(made)


def test_where_allocations_end() -> None:
    """The body of an allocation is all that follows, or what is indented below it."""
    s, t = Buffer("t", (8,), "int32", "acc"), Buffer("t", (8,), "int32", "acc")
    first = Allocate((allocated(s),), Seq((whole("a", s, X), whole("b", Y, s))))
    second = Allocate((allocated(t),), Seq((whole("c", t, X), whole("d", Y, t))))
    for body in (
        Seq((first, second)),
        Seq((whole("e", Y, X), first)),
        Allocate((allocated(t),), Seq((whole("c", t, X), first))),
        Allocate((allocated(t),), Allocate((allocated(s),), whole("b", s, X))),
        Allocate((allocated(t), allocated(s)), whole("b", s, X)),
    ):
        assert_read_back(func(body))


def test_regions_that_are_not_those_of_the_store() -> None:
    axis = Axis("vi", extent=8)
    store = BufferStore(Y, (axis,), Load(X, (axis,)))
    block = make_block("y", (axis,), store)
    assert "reads" not in func_text(func(BlockRealize((IntImm(0),), block)))
    every = Region(X, (Range(IntImm(0), 8),), -1)
    for reads in ((every,), (), (*block.reads, every)):
        other = type(block)("y", (axis,), reads, block.writes, store)
        assert_read_back(func(BlockRealize((IntImm(0),), other)))


# -- what people write ----------------------------------------------------------------------------


def test_text_in_other_forms() -> None:
    """Comments, empty lines, any indentation, loops line by line."""
    text = """
      func copy(x: int8[8], out y: int8[8]):  # of eight

        alloc t: int8[8] in acc window [0:+8]:
           for i in 8:
             block t(vi:8 = i):
               reads x[vi]
               writes t[vi]
               t[vi] = x[vi]
           # the other way
           for i in 2:
              for j in 4 unroll {note: "a b"}:
                block y(vi:8 = (i * 4) + j) where i*4+j < 8:
                  y[vi] = t[vi]
    """
    assert_same_function(parse_func(text), parse_func(COPY))
    assert func_text(parse_func(text)) == COPY
    verify(parse_func(text))


def test_regions_that_are_left_out_are_what_the_body_touches() -> None:
    text = """
    func f(x: int32[8], out y: int32[8]):
        for i in 2:
            block outer(vi:2 = i):
                for j in 4:
                    block y(vj:8 = vi * 4 + j):
                        y[vj] = x[vj]
    """
    made = parse_func(text)
    verify(made)
    assert "reads x[vi * 4:+4]\n            writes y[vi * 4:+4]\n" in func_text(made)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("func copy", "copy"), "line 1 .*: the text of a function must begin with 'func NAME"),
        (("func copy", "func"), r"line 1 .*: the name of a function must be a name, not '\('"),
        (("out y: int8[8]):", "out y: int8[8])"), "needs ':', not the end of the line"),
        (("x: int8", "out x: int8", "out y", "y"), "parameters marked out come last"),
        (("x: int8[8]", "x: int4[8]"), "the dtype of 'x' must be one of int8, .*, not 'int4'"),
        (("x: int8[8]", "x: int8[0]"), "a dimension of 'x' must be positive, not 0"),
        (("x: int8[8]", "y: int8[8]"), "names differ where both are known, not two 'y'; write y_1"),
        (("for i in 8:", "for 8:"), "line 3 .*: a loop variable must be a name, not '8'"),
        (("for i in 8:", "for i to 8:"), "line 3 .*: loop 'i' needs 'in', not 'to'"),
        (("for i in 8:", "for i in n:"), "the extent of a loop must be an integer, not 'n'"),
        (("for i in 8:", "for i in 0:"), "the extent of a loop must be positive, not 0"),
        (("for i in 8:", f"for i in {10**30}:"), "an integer must fit its dtype, not 1000"),
        (("for i in 8:", "for i in 8"), "line 3 .*: a loop needs ':', not the end of the line"),
        (("for i in 8:", "for i in 8, i in 2:"), "not two 'i'; write i_1_ for it"),
        (("unroll", "thread.w"), "the kind of a loop must be one of block.x, .*, not 'thread.w'"),
        (("unroll", "unrolled"), "line 6 .*must be one of .*, not 'unrolled'"),
        (('"a b"', "a b"), "a list of annotations needs '}', not 'b'"),
        (('"a b"', '"a b'), "line 6 .*: there is no token that begins with '\"'; remove it"),
        (('"a b"', r'"\q"'), r'a name in quotes must be a JSON string, not "\\q"'),
        (('"a b"', "1.5"), "a value must be an integer, not '1.5'"),
        (("vi:8 = i)", "vi = i)"), "line 4 .*: variable 'vi' needs ':', not '='"),
        (("vi:8 = i)", "vi:8 = k)"), "line 4 .*: 'k' is not bound here; inside a block, use the"),
        ((STORE, "t[vi] = x[i]"), "line 5 .*: 'i' is not bound here"),
        ((STORE, "s[vi] = x[vi]"), "'s' is no buffer that lives here; allocate it above"),
        ((STORE, "t[vi, 0] = x[vi]"), "'t' has 1 dimensions and needs as many indices, "
         "not 2"),
        ((STORE, "t[vi] = x"), r"'x' is a buffer; an expression takes an element, x\["),
        ((STORE, "t[vi] = int16(x[vi])"), "what 't' holds must be int8, not int16; convert"),
        ((STORE, "t[vi] = 200"), "a constant of int8 must be from -128 to 127, not 200"),
        ((STORE, "t[vi] = 1.5"), r"a float constant cannot be int8 \(1.5\)"),
        ((STORE, "t[vi] = 1:float32"), "a constant of float32 must be a float, not 1"),
        ((STORE, "t[x[vi] < 1] = 2"), "an index of 't' must be an integer, not bool"),
        ((STORE, "t[vi] = x[vi] + vi"), "operands of .* must have one dtype, not int8 and"),
        ((STORE, "t[vi] = x[vi] / 2"), "/ is not defined for int8"),
        ((STORE, "t[vi] = x[vi] % 0"), "% needs a divisor other than 0"),
        ((STORE, "t[vi] = -x[vi]"), "a minus sign without a left operand .* write 0 - x"),
        ((STORE, "t[vi] = x[vi] +"), "cannot begin with the end of the line"),
        ((STORE, "t[vi] = x[vi] y"), "line 5 .*: nothing may follow a store, not 'y'"),
        ((STORE, "t[vi] = (x[vi]"), r"an expression in parentheses needs '\)', not the"),
        ((STORE, "t[vi] = sum(x[vi])"), "a function must be a dtype or one of select, "),
        ((STORE, "t[vi] = max(x[vi])"), "max takes 2 arguments, not 1"),
        ((STORE, "t[vi] = exp(x[vi])"), "value of exp must be a float, not int8"),
        ((STORE, "t[vi] = select(vi, 1, 2)"), "select needs a bool, not int32"),
        ((STORE, "t[vi] = x.padded(vi)[vi]"), "padded takes a constant of int8"),
        ((STORE, "t[vi] = x.T[vi]"), r"a buffer has only padded\(value\), not 'T'"),
        ((STORE, "t.padded(0)[vi] = 1"), "a store goes to an element inside a buffer"),
        ((STORE, "t[vi] := 5"), "a store to 't' needs '=', not ':'"),
        ((STORE, "t[vi] = 5 @ 2"), "there is no token that begins with '@'; remove it"),
        ((STORE, "return"), "line 5 .*: a statement must be a store, for, if, alloc, block"),
        ((STORE, "reads x[vi]"), "a block has both reads and writes, in this order, or"),
        ((STORE, "init:\n                t[vi] = 0"), "line 4 .*: a statement must follow"),
        (("            t[vi] = x[vi]\n", ""), "line 4 .*: a line that ends in ':' needs indented"),
        (("    for i in 8", "     for i in 8"), "line 3 .*indented by 5 spaces where 4 are"),
        (("    for i in 2", "\tfor i in 2"), "line 6 .*: lines are indented by spaces, not tabs"),
        (("    for i in 2", "for i in 2"), "line 6 .*: nothing may follow a function"),
        (("in acc", "in acc window [0:+4, 0:+1]"), "'t' has 1 dimensions and needs as many ranges"),
        (("in acc", "in acc window [0:+0]"), "the extent of a range must be positive, not 0"),
        (("where i * 4 + j < 8", "where i * 4 + j"), "a predicate must be bool, not int32"),
        (("where i * 4 + j < 8", "where i < 8 & j"), "& needs a bool, not int32; compare"),
        (("    block t(", "    if i:\n            block t("), "a condition must be bool, not"),
        (("x[vi]", "(" * 2000 + "x[vi]" + ")" * 2000), "line 5 .*: it is nested too deeply"),
    ],
)  # fmt: skip
def test_wrong_text_is_refused(change: tuple[str, ...], reason: str) -> None:
    text = COPY
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(ParseError, match=reason) as caught:
        parse_func(text)
    assert "\n" not in str(caught.value)


def test_damaged_text_is_read_or_refused(seed: int) -> None:
    """Whatever tokens are missing, doubled or exchanged: a function, or a sentence."""
    rng = np.random.default_rng(seed)
    texts = [COPY, func_text(create_prim_func(*PROGRAMS["stencil"], "stencil"))]
    refused = 0
    for number in range(120):
        tokens = re.findall(r"\s+|\w+|.", texts[number % 2])
        for _ in range(int(rng.integers(1, 4))):
            at, other = (int(place) for place in rng.integers(len(tokens), size=2))
            tokens[at] = [tokens[other], "", tokens[at] * 2, "-", "0"][int(rng.integers(5))]
        try:
            again = func_text(parse_func("".join(tokens)))
        except ParseError:
            refused += 1
        else:
            assert func_text(parse_func(again)) == again
    assert 0 < refused < 120


def test_no_text_is_refused() -> None:
    for text in ("", "\n", "  # nothing\n"):
        with pytest.raises(ParseError, match=r"must begin with 'func NAME\(...\):', not be empty"):
            parse_func(text)


def test_unary_operators_bind_strongest() -> None:
    value = Select(Not(Load(X, (IntImm(0),)) < 1), IntImm(1), IntImm(0))
    assert_read_back(func(BufferStore(Y, (IntImm(0),), value)))
