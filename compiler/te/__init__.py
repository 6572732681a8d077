"""Tensor expressions: what is computed, before anything says how.

>>> from daedal.compiler import te
>>> a = te.placeholder((4, 8), "int8", "a")
>>> b = te.placeholder((3, 8), "int8", "b")
>>> k = te.reduce_axis(8, "k")
>>> c = te.compute(
...     (4, 3), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), k), "c"
... )
>>> print(c)
c[i:4, j:3] int32 = sum(int32(a[i, k]) * int32(b[j, k]), over k in 8)

A formula may use its axes and constants, elements of other tensors (``x[i, j]``, or
``x.padded(0)[i - 1, j]`` where it may reach outside), ``+ - * / // % << >>``, comparisons with
`eq` and `ne`, ``& | ~`` on bools, `select`, `minimum`, `maximum`, `clip`, ``astype``, and the
functions of `daedal.compiler.te.functions`. A whole formula may be a reduction: `sum`, `prod`,
`max`, `min` or `any` over `reduce_axis`. Dtypes are never converted silently; shapes, dtypes and
reads are checked while a formula is written.

Role: the operator library is written in this language. Output: `Tensor`; `create_prim_func` gives
loop IR.
"""

from daedal.compiler.te.functions import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bit_and,
    bit_not,
    bit_or,
    bit_xor,
    ceil,
    clip,
    cos,
    cosh,
    dot_pairs,
    dot_quads,
    erf,
    exp,
    floor,
    fmod,
    log,
    multiply_add,
    nearest,
    nearest_product,
    nearest_scaled,
    number_or,
    popcount,
    pow,
    requantize,
    round,
    rounded_product,
    rounded_quotient,
    rounded_scaled,
    rsqrt,
    shift_even,
    shift_right_even,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from daedal.compiler.te.interpreter import evaluate_tensors
from daedal.compiler.te.lower import create_prim_func
from daedal.compiler.te.ops import any, max, min, prod, reduce_axis, sum
from daedal.compiler.te.pattern import pattern, scalar
from daedal.compiler.te.printer import tensors_text
from daedal.compiler.te.tensor import Tensor, compute, placeholder
from daedal.compiler.tir.expr import eq, maximum, minimum, ne, select
from daedal.compiler.tir.intrinsics import call

__all__ = [
    "Tensor",
    "abs",
    "acos",
    "acosh",
    "any",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bit_and",
    "bit_not",
    "bit_or",
    "bit_xor",
    "call",
    "ceil",
    "clip",
    "compute",
    "cos",
    "cosh",
    "create_prim_func",
    "dot_pairs",
    "dot_quads",
    "eq",
    "erf",
    "evaluate_tensors",
    "exp",
    "floor",
    "fmod",
    "log",
    "max",
    "maximum",
    "min",
    "minimum",
    "multiply_add",
    "ne",
    "nearest",
    "nearest_product",
    "nearest_scaled",
    "number_or",
    "pattern",
    "placeholder",
    "popcount",
    "pow",
    "prod",
    "reduce_axis",
    "requantize",
    "round",
    "rounded_product",
    "rounded_quotient",
    "rounded_scaled",
    "rsqrt",
    "scalar",
    "select",
    "shift_even",
    "shift_right_even",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "tensors_text",
    "trunc",
]
