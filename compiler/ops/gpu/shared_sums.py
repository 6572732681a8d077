"""Reductions of few results by blocks of threads: each thread reduces a part, then a few the parts.

    r[i] = sum(k, x[i, k])     =>     p[i, t] = sum(s, x[i, s * 256 + t])     256 threads
                                      q[i, u] = sum(v, p[i, v * 16 + u])      16 of them
                                      r[i] = sum(u, q[i, u])                  the first one

The parts are in shared memory. Source: Harris, "Optimizing Parallel Reduction in CUDA", 2007.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.te.reduction import identity
from daedal.compiler.tir.expr import (
    Axis,
    Expr,
    IntImm,
    Load,
    Reduce,
    Select,
    Var,
    minimum,
)
from daedal.compiler.tir.visit import rewrite, substitute

__all__ = ["SharedSums", "shared_sums"]

THREADS = 256
"""Of a block, at most."""
FEWEST_TERMS = 64
"""Of a result, from which on threads share it."""
MOST_RESULTS = 1 << 14
"""With more, each thread reduces one: there are enough of them."""


@dataclass(frozen=True)
class SharedSums:
    """A reduction in three stages: `parts` and `sums` in shared memory, and `reduction`, which
    `result` reads."""

    parts: te.Tensor
    sums: te.Tensor
    reduction: te.Tensor
    result: te.Tensor


def shared_sums(result: te.Tensor, reduction: te.Tensor) -> SharedSums | None:
    """The stages of a reduction; None where it has few terms or many results."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    terms = math.prod(axis.extent for axis in formula.axes)
    if terms < FEWEST_TERMS or math.prod(reduction.shape) > MOST_RESULTS:
        return None
    threads = min(THREADS, 1 << (terms.bit_length() - 1))
    few = 1 << (threads.bit_length() // 2)
    parts = _parts(reduction, formula, terms, threads)
    sums = _stage("q", parts, few, threads // few)
    last = Axis("u", extent=few, kind="reduce")
    axes = reduction.axes
    total = Reduce(formula.op, Load(sums, (*axes, last)), (last,))
    whole = te.Tensor(reduction.name, reduction.shape, reduction.dtype, "global", axes, total)

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer is reduction:
            return Load(whole, node.indices)
        return None

    assert result.value is not None
    value = rewrite(result.value, visit)
    result = te.Tensor(result.name, result.shape, result.dtype, "global", result.axes, value)
    return SharedSums(parts, sums, whole, result)


def _parts(reduction: te.Tensor, formula: Reduce, terms: int, threads: int) -> te.Tensor:
    """What each thread reduces: every so many terms of all axes, as if these were one."""
    thread = Axis("t", extent=threads)
    step = Axis("s", extent=-(-terms // threads), kind="reduce")
    number: Expr = step * threads + thread
    inside = None if terms % threads == 0 else number < terms
    number = number if inside is None else minimum(number, terms - 1)
    value = substitute(formula.value, _digits(number, formula.axes))
    if inside is not None:
        value = Select(inside, value, identity(formula.op, reduction.dtype))
    return _tensor("p", reduction, thread, Reduce(formula.op, value, (step,)))


def _stage(name: str, source: te.Tensor, few: int, each: int) -> te.Tensor:
    """`each` of the parts together, `few` times."""
    formula = source.value
    assert isinstance(formula, Reduce)
    *axes, _ = source.axes
    thread, step = Axis("u", extent=few), Axis("v", extent=each, kind="reduce")
    value = Load(source, (*axes, step * few + thread))
    shape = (*source.shape[:-1], few)
    own = (*axes, thread)
    return te.Tensor(name, shape, source.dtype, "global", own, Reduce(formula.op, value, (step,)))


def _tensor(name: str, reduction: te.Tensor, thread: Axis, value: Expr) -> te.Tensor:
    shape, axes = (*reduction.shape, thread.extent), (*reduction.axes, thread)
    return te.Tensor(name, shape, reduction.dtype, "global", axes, value)


def _digits(number: Expr, axes: Sequence[Axis]) -> dict[Var, Expr]:
    """The indices of a term by its number."""
    found: dict[Var, Expr] = {}
    for position, axis in enumerate(reversed(axes)):
        last = position == len(axes) - 1
        found[axis] = number if last else number % axis.extent
        number = number // axis.extent if axis.extent > 1 else number
        if axis.extent == 1:
            found[axis] = IntImm(0)
    return found
