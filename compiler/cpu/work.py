"""`kernel_nanoseconds`: a guess of how long one thread needs for a kernel.

Threads share a program where that is worth their hand-over, so a guess within a factor of two or so
is enough. The figures were measured on an AMD Zen 3, those of sums with AVX-512 on an Intel Emerald
Rapids (`bench/processors/cpu_operators.py`).
"""

import math

from daedal.compiler import te
from daedal.compiler.codegen.llvm.approximations import APPROXIMATIONS
from daedal.compiler.codegen.llvm.intrinsics import is_per_lane
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.cpu.combinations import alternatives
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.cpu.reuse import NARROW, Registers, grouped_loads
from daedal.compiler.ops.cpu.turned import turned_tile
from daedal.compiler.tir.dtype import INDEX_DTYPE, is_float
from daedal.compiler.tir.expr import Binary, Call, Cast, Expr, Reduce, Select
from daedal.compiler.tir.visit import loads, walk

__all__ = ["kernel_nanoseconds"]

BYTES = 50
"""A nanosecond: of vectors that lie side by side."""
TERMS, TERMS_OF_GROUPS = 30, {1: 1, 2: 1, 4: 3}
"""Products a nanosecond: of floats in register tiles of AVX2; and how many times as many where so
many are added at once."""
PRODUCTS = 4
"""Times as many in tile registers: see `compiler.ops.cpu.products`."""
OPERATION, DIVISION, FUNCTION, LIBRARY, GATHERED = 0.01, 0.05, 0.2, 5.0, 0.5
"""Nanoseconds of an element: by vectors, but for the C library's functions and what an index that
is read finds."""
TURNED = 3
"""Times as long where what is read lies along another axis than what is stored."""


def kernel_nanoseconds(
    kernel: Kernel, registers: Registers, *, tiled: bool, in_tiles: bool = False
) -> int:
    """Of one thread.

    Parameters
    ----------
    registers : of the processor.
    tiled : whether a reduction has its sums in registers.
    in_tiles : whether these are tile registers.
    """
    result, reduction = kernel.result, kernel.reduction
    assert result.value is not None
    total = _memory(kernel) + sum(_computed(item) for item in (*kernel.stages, result))
    if turned_tile(result.value, result.axes, result.dtype) is not None:
        total *= TURNED
    if reduction is not None:
        at_once = _terms_at_once(reduction, registers) if tiled else 1
        total += _terms(reduction) / (at_once * PRODUCTS if in_tiles else at_once)
    return round(total)


def _memory(kernel: Kernel) -> float:
    """Everything read and written once."""
    moved = _bytes(kernel.result) + sum(map(_bytes, kernel.inputs))
    return moved / BYTES


def _bytes(tensor: te.Tensor) -> int:
    return math.prod(tensor.shape) * ELEMENT_BYTES[tensor.dtype]


def _terms(reduction: te.Tensor) -> int:
    formula = reduction.value
    assert isinstance(formula, Reduce)
    return math.prod((*reduction.shape, *(axis.extent for axis in formula.axes)))


def _terms_at_once(reduction: te.Tensor, registers: Registers) -> float:
    """How many a nanosecond."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    group = max(grouped_loads(formula.value).values(), default=1)
    return TERMS * TERMS_OF_GROUPS[group] * registers.vector_bytes / NARROW.vector_bytes


def _computed(tensor: te.Tensor) -> float:
    """The operations of all elements, by vectors."""
    value = tensor.value
    assert value is not None
    if isinstance(value, Reduce):
        return _terms(tensor) * (OPERATION + _per_element(value.value))
    formulas = alternatives(value)
    return math.prod(tensor.shape) * sum(map(_per_element, formulas)) / len(formulas)


def _per_element(value: Expr) -> float:
    gathered = sum(any(loads(index) for index in load.indices) for load in set(loads(value)))
    return GATHERED * gathered + sum(map(_of_node, walk(value)))


def _of_node(node: Expr) -> float:
    match node:
        case Call(name) if is_per_lane(name, node.dtype):
            return LIBRARY
        case Call(name) if name in APPROXIMATIONS:
            return FUNCTION
        case Binary("/" | "//" | "%") if is_float(node.dtype):
            return DIVISION
        case Binary() | Select() | Cast() | Call():
            return OPERATION if node.dtype != INDEX_DTYPE else 0.0
    return 0.0
