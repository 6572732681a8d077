"""Buffers whose rows `Schedule.storage_align` keeps apart lie in memory as it asks for.

alloc s: int8[4, 31] in shared {align_0: "32n+8"}   =>    alloc s: int8[160] in shared
s[i, j] = ...                                             s[i * 40 + j] = ...
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.stmt import Allocate, Allocation, BufferStore, PrimFunc, Range, Stmt, Value
from daedal.compiler.tir.visit import rewrite

__all__ = ["lower_alignment"]

_PREFIX = "align_"

Flat = Mapping[Buffer, tuple[Buffer, tuple[int, ...]]]
"""Of each aligned buffer: the one with one dimension, and the steps along those that it had."""


def lower_alignment(func: PrimFunc) -> PrimFunc:
    """A lowered function whose allocations have no alignment."""
    return replace(func, body=_lowered(func.body, {}))


def _lowered(stmt: Stmt, flat: Flat) -> Stmt:
    def element(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer in flat:
            return Load(*_inside(node.buffer, node.indices, flat))
        return None

    def moved(expr: Expr) -> Expr:
        return rewrite(expr, element)

    if isinstance(stmt, Allocate):
        found = dict(flat)
        items = tuple(_aligned(item, found) for item in stmt.allocations)
        return Allocate(items, _lowered(stmt.body, found))
    part = rebuilt(stmt, moved, lambda inner: _lowered(inner, flat))
    if isinstance(part, BufferStore) and part.buffer in flat:
        buffer, indices = _inside(part.buffer, part.indices, flat)
        return BufferStore(buffer, indices, part.value)
    return part


def _aligned(item: Allocation, found: dict[Buffer, tuple[Buffer, tuple[int, ...]]]) -> Allocation:
    """An allocation without alignment; `found` gets a buffer that has one."""
    if not any(key.startswith(_PREFIX) for key in item.annotations):
        return item
    steps = _steps(item.shape, item.annotations)
    size = steps[0] * item.shape[0]
    old = item.buffer
    found[old] = Buffer(old.name, (size,), old.dtype, old.scope), steps
    kept = {key: x for key, x in item.annotations.items() if not key.startswith(_PREFIX)}
    return Allocation(found[old][0], (Range(IntImm(0), size),), kept)


def _steps(shape: Sequence[int], notes: Mapping[str, Value]) -> tuple[int, ...]:
    """Elements from one to the next along each dimension."""
    steps: list[int] = []
    step = 1
    for dim in reversed(range(len(shape))):
        note = notes.get(f"{_PREFIX}{dim}")
        if note is not None:
            factor, offset = (int(part) for part in str(note).split("n+"))
            step += (offset - step) % factor
        steps.append(step)
        step *= shape[dim]
    return tuple(reversed(steps))


def _inside(buffer: Buffer, indices: Sequence[Expr], flat: Flat) -> tuple[Buffer, tuple[Expr, ...]]:
    new, steps = flat[buffer]
    place: Expr = IntImm(0)
    for index, step in zip(indices, steps, strict=True):
        place = place + index * step
    return new, (place,)
