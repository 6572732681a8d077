"""Small functions that the examples in the documentation of primitives transform."""

from daedal.compiler import te
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.intrin import TensorIntrin

__all__ = ["chain", "matmul", "row_sum"]


def chain() -> Schedule:
    """``b[i] = a[i] + 1`` over 8, then ``c[i] = b[i] * 2``."""
    a = te.placeholder((8,), "int32", "a")
    b = te.compute((8,), lambda i: a[i] + 1, "b")
    c = te.compute((8,), lambda i: b[i] * 2, "c")
    return Schedule(te.create_prim_func([a], [c], "chain"))


def row_sum() -> Schedule:
    """``s[i] = sum over k of x[i, k]``, 2 rows of 8."""
    x = te.placeholder((2, 8), "int32", "x")
    k = te.reduce_axis(8, "k")
    s = te.compute((2,), lambda i: te.sum(x[i, k], k), "s")
    return Schedule(te.create_prim_func([x], [s], "row_sum"))


def matmul() -> Schedule:
    """``c[i, j] = sum over k of a[i, k] * b[j, k]``; ``mac`` is an intrinsic for a row of ``c``."""
    a, b = te.placeholder((4, 2), "int32", "a"), te.placeholder((2, 2), "int32", "b")
    k = te.reduce_axis(2, "k")
    c = te.compute((4, 2), lambda i, j: te.sum(a[i, k] * b[j, k], k), "c")
    x, y = te.placeholder((2,), "int32", "x"), te.placeholder((2, 2), "int32", "y")
    r = te.reduce_axis(2, "r")
    row = te.compute((2,), lambda q: te.sum(x[r] * y[q, r], r), "z")
    mac = TensorIntrin("mac", te.pattern(row))
    return Schedule(te.create_prim_func([a, b], [c], "matmul"), {"mac": mac})
