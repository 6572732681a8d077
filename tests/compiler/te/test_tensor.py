"""What a tensor expression may say, what it refuses, and how it reads."""

import doctest
from collections.abc import Callable

import pytest

from daedal.compiler import te
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.intrinsics import INTRINSICS
from tests.support.tensor_programs import conv2d


def test_text_of_a_convolution() -> None:
    _, outputs = conv2d()
    assert te.tensors_text(outputs) == (
        "x: int8[1, 2, 7, 7, 1, 4]\n"
        "w: int8[2, 2, 3, 3, 4, 4]\n"
        "acc[n:1, oc:2, oh:7, ow:7, b:1, co:4] int32 = "
        "sum(int32(x.padded(0)[n, ic, oh + kh - 1, ow + kw - 1, b, ci]) "
        "* int32(w[oc, ic, kh, kw, co, ci]), over ic in 2, kh in 3, kw in 3, ci in 4)\n"
        "par: int64[2, 4, 3]\n"
        "y[n:1, oc:2, oh:7, ow:7, b:1, co:4] int8 = requantize(acc[n, oc, oh, ow, b, co], "
        "par[oc, co, 0], par[oc, co, 1], par[oc, co, 2], 3, -128, 127)\n"
    )


def test_operators_keep_their_precedence_in_text() -> None:
    x = te.placeholder((8,), "int32", "x")
    y = te.compute((8,), lambda i: (x[i] - (x[i] + 1)) * 2 // (x[i] * 3 % 5), "y")
    assert str(y) == "y[i:8] int32 = (x[i] - (x[i] + 1)) * 2 // (x[i] * 3 % 5)"
    z = te.compute(
        (8,), lambda i: te.select((x[i] < 3) & ~(te.eq(x[i], 1) | (x[i] >= 7)), x[i], -x[i]), "z"
    )
    assert str(z) == ("z[i:8] int32 = select(x[i] < 3 & ~(x[i] == 1 | x[i] >= 7), x[i], 0 - x[i])")


def test_constants_fold_in_indices_only() -> None:
    x = te.placeholder((8,), "int8", "x")
    y = te.compute((4,), lambda i: x[(i + 0) * 1 + 2 * 2] * 1, "y")
    assert str(y) == "y[i:4] int8 = x[i + 4] * 1"
    wide = te.placeholder((8,), "int32", "wide")
    z = te.compute((8,), lambda i: wide[i * 1] * 1 + wide[i] * 0 - 0, "z")
    assert str(z) == "z[i:8] int32 = wide[i] * 1 + wide[i] * 0 - 0"


X = te.placeholder((4, 8), "int8", "x")
F = te.placeholder((4, 8), "float16", "f")
U = te.placeholder((4, 8), "uint8", "u")
K = te.reduce_axis(8, "k")


def _computed_input() -> object:
    y = te.compute((4, 8), lambda i, j: X[i, j], "y")
    return te.create_prim_func([X, y], [te.compute((4, 8), lambda i, j: y[i, j], "z")], "f")


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: te.placeholder((4, 0), "int8", "x"),
        "every dimension must be a positive integer, not [4, 0] (tensor 'x')",
    ),
    (
        lambda: te.placeholder((4,), "int7", "x"),
        "dtype must be one of int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, "
        "float16, float32, float64, bfloat16, not 'int7'",
    ),
    (
        lambda: te.compute((4,), lambda i: X[i], "y"),
        "'x' has 2 dimensions and needs as many indices, not 1",
    ),
    (
        lambda: te.compute((4,), lambda i, j: X[i, j], "y"),
        "'y' has 1 dimensions; its function must take as many axes, not 2",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X[i, j] + X[i, j].astype("int32"), "y"),
        "both operands of + must have one dtype, not int8 and int32; convert one with astype",
    ),
    (
        lambda: te.compute((4, 9), lambda i, j: X[i, j], "y"),
        "'y' reads 'x' at 0..8 in dimension 1 of size 8; read it through padded(value), "
        "or change the shape",
    ),
    (
        lambda: te.compute((4,), lambda i: te.sum(X[i, K], K) + 1, "y"),
        "a reduction must be the whole formula of a tensor, not a part ('y'); "
        "compute it as a tensor of its own",
    ),
    (
        lambda: te.compute((4,), lambda i: X[i, K], "y"),
        "a formula may use its own axes and those it reduces over, not 'k' ('y')",
    ),
    (
        lambda: te.compute((4,), lambda i: te.sum(X[i, i], i), "y"),
        "sum needs at least one reduce_axis to reduce over",
    ),
    (
        lambda: te.compute((4,), lambda i: te.any(X[i, K], K), "y"),
        "any reduces a bool, not int8; convert the value first",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.select(X[i, j], X[i, j], 0), "y"),
        "select needs a bool, not int8; compare the value first",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X[i, j] / 2, "y"),
        "/ is not defined for int8; convert with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X[i, j] if X[i, j] > 0 else -X[i, j], "y"),
        "an expression has no truth value while it is being written; use select, & and |",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.call("sine", (X[i, j],), "int8"), "y"),
        f"an intrinsic must be one of {', '.join(INTRINSICS)}, not 'sine'",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.call("exp", (X[i, j],), "float32"), "y"),
        "value of exp must be a float, not int8; convert with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.call("exp", (), "float32"), "y"),
        "exp needs value: 1 arguments, not 0",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.requantize(X[i, j], 0, 1, 0, 0, -128, 128), "y"),
        "bounds of requantize must fit int8, not 128",
    ),
    (
        lambda: te.compute(
            (4, 8), lambda i, j: te.requantize(X[i, j], 0, 1, 0, 0, 0, 9, "float32"), "y"
        ),
        "requantize gives integers, not float32; convert them with astype",
    ),
    (
        lambda: te.compute((4,), lambda i: 3, "y"),
        "the function of 'y' must return an expression, not 3",
    ),
    (
        lambda: te.reduce_axis(0, "k"),
        "extent must be positive, not 0 (axis 'k')",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X[i, j] + 128, "y"),
        "a constant of int8 must be from -128 to 127, not 128; convert the other operand with "
        "astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.maximum(U[i, j], -1), "y"),
        "a constant of uint8 must be from 0 to 255, not -1; convert the other operand with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X.padded(200)[i - 1, j], "y"),
        "a constant of int8 must be from -128 to 127, not 200; convert the other operand with "
        "astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X.padded(0.5)[i - 1, j], "y"),
        "a float constant cannot be int8 (0.5); use astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: X[i, j] << 8, "y"),
        "<< of int8 shifts by 0 to 7 bits, not 8",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: F[i, j] // 2, "y"),
        "// is not defined for float16; convert with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.popcount(F[i, j]), "y"),
        "value of popcount must be an integer, not float16; convert with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.abs(X[i, j] > 0), "y"),
        "value of abs must be a number, not bool; convert with astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.bit_and(X[i, j], U[i, j]), "y"),
        "arguments and result of bit_and must have one dtype, not int8 and uint8; convert with "
        "astype",
    ),
    (
        lambda: te.compute((4, 8), lambda i, j: te.call("exp", (F[i, j],), "float32"), "y"),
        "arguments and result of exp must have one dtype, not float16 and float32; convert with "
        "astype",
    ),
    (
        lambda: te.compute((4,), lambda k: te.sum(X[k, K], K), "y"),
        "axes of one formula need distinct names, not two 'k' ('y')",
    ),
    (
        lambda: te.compute((4,), lambda i: te.sum(X[i, K], [K, K]), "y"),
        "a reduction takes each axis once ('y')",
    ),
    (
        lambda: te.create_prim_func([X], [X], "f"),
        "'f' needs outputs, and must compute each of them",
    ),
    (
        lambda: te.create_prim_func([X], [], "f"),
        "'f' needs outputs, and must compute each of them",
    ),
    (
        lambda: _computed_input(),
        "inputs of 'f' must be placeholders, not 'y'",
    ),
    (
        lambda: te.create_prim_func([], [te.compute((4, 8), lambda i, j: X[i, j], "y")], "f"),
        "placeholder 'x' must be among the inputs of 'f'",
    ),
    (
        lambda: te.create_prim_func([X], [te.compute((4, 8), lambda i, j: X[i, j], "x")], "f"),
        "tensors of one function need distinct names, not two 'x'",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSALS, ids=[text[:40] for _, text in REFUSALS])
def test_refusals(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        build()
    assert str(caught.value) == message


def test_each_step_reads_what_came_before() -> None:
    x = te.placeholder((4,), "int32", "x")
    y = te.compute((4,), lambda i: x[i] + 1, "y")
    z = te.compute((4,), lambda i: y[i] * x[i], "z")
    assert z.inputs == (y, x)
    assert te.tensors_text([z]).splitlines() == [
        "x: int32[4]",
        "y[i:4] int32 = x[i] + 1",
        "z[i:4] int32 = y[i] * x[i]",
    ]


def test_text_of_every_form() -> None:
    f, m = te.placeholder((8,), "float16", "f"), te.placeholder((8,), "bool", "m")
    k = te.reduce_axis(8, "k")
    lines = {
        "a[i:8] float16 = select(m[i] & f[i] != 0.5, exp(f[i]), (0.0 - f[i]) / 3.0)": te.compute(
            (8,), lambda i: te.select(m[i] & te.ne(f[i], 0.5), te.exp(f[i]), -f[i] / 3), "a"
        ),
        "b[i:8] bool = any(m.padded(1)[i + k - 4], over k in 8)": te.compute(
            (8,), lambda i: te.any(m.padded(True)[i + k - 4], k), "b"
        ),
        "c[i:8] uint32 = uint32(max(min(i, 5), 2)) << 3": te.compute(
            (8,), lambda i: te.maximum(te.minimum(i, 5), 2).astype("uint32") << 3, "c"
        ),
        "d[i:8] float16 = min(f[k] * f[i], over k in 8)": te.compute(
            (8,), lambda i: te.min(f[k] * f[i], k), "d"
        ),
    }
    for text, tensor in lines.items():
        assert str(tensor) == text
    assert str(m) == "m: bool[8]"


def test_any_number_of_axes() -> None:
    y = te.compute((4, 8), lambda *i: te.abs(X[i]), "y")
    assert str(y) == "y[i0:4, i1:8] int8 = abs(x[i0, i1])"


def test_the_documentation_runs() -> None:
    result = doctest.testmod(te)
    assert result.attempted > 0 and result.failed == 0
