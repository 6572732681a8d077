"""`without_immediates`: kernels that differ in scales alone are one function.

Each quantized tensor has a scale of its own, which formulas have as immediates. Where these are
read from a small constant instead, the layers of a transformer share their functions: there is less
to compile, and what runs stays in the processor's instruction cache::

    int8(round(x[i] / 0.0123))        int8(round(x[i] / s[0]));  s = [0.0123]
"""

from collections.abc import Sequence

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.expr import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Reduce,
)
from daedal.compiler.tir.visit import children, rewrite, walk

__all__ = ["LARGEST_KEPT", "without_immediates"]

QUANTIZED = frozenset(("int8", "uint8"))
LARGEST_KEPT = 256.0
"""Whole numbers up to this are bounds and zero points, which many kernels have alike."""


def without_immediates(formulas: Sequence[Expr]) -> tuple[list[Expr], dict[Buffer, Array]]:
    """The formulas of a kernel, which read their floats from constants, and these by placeholder.

    Formulas without 8-bit integers stay as they are, and so do bounds, which are the same in all
    layers, and which functions of a limited argument are written for.
    """
    values = [item.value if isinstance(item, Reduce) else item for item in formulas]
    nodes = [node for value in values for node in walk(value)]
    if not any(_is_quantized(node) for node in nodes):
        return list(formulas), {}
    bounds = {item for node in nodes if _limits(node) for item in children(node)}
    found: dict[str, list[float]] = {}

    def is_taken(node: Expr) -> bool:
        return isinstance(node, FloatImm) and _is_scale(node) and node not in bounds

    for node in nodes:
        if isinstance(node, FloatImm) and is_taken(node):
            numbers = found.setdefault(node.dtype, [])
            if node.value not in numbers:
                numbers.append(node.value)
    tables = {
        dtype: te.placeholder((len(numbers),), dtype, f"immediates_{dtype}")
        for dtype, numbers in found.items()
    }

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, FloatImm) and is_taken(node):
            return Load(tables[node.dtype], (IntImm(found[node.dtype].index(node.value)),))
        return None

    changed = [rewrite(value, visit) for value in values]
    results = [
        Reduce(item.op, value, item.axes) if isinstance(item, Reduce) else value
        for item, value in zip(formulas, changed, strict=True)
    ]
    constants: dict[Buffer, Array] = {
        tables[dtype]: np.array(numbers, numpy_dtype(dtype)) for dtype, numbers in found.items()
    }
    return results, constants


def _is_quantized(node: Expr) -> bool:
    """Whether a node converts an 8-bit integer."""
    return isinstance(node, Cast) and not QUANTIZED.isdisjoint((node.dtype, node.value.dtype))


def _limits(node: Expr) -> bool:
    """Whether the operands of a node that are immediates are bounds."""
    return isinstance(node, Compare) or (isinstance(node, Binary) and node.op in ("min", "max"))


def _is_scale(node: FloatImm) -> bool:
    is_kept = node.value.is_integer() and abs(node.value) <= LARGEST_KEPT
    return not is_kept and bool(np.isfinite(node.value))
