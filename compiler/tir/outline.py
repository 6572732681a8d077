"""Outlines: the names that a statement uses and defines, and the form of its parts, checked once.

Rules 1 and 2 of `daedal.compiler.tir.verify`. The outline of a statement is derived from those of
its parts and cached in it, so a primitive recomputes it only for the statements that it rebuilt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Buffer, Expr, Var
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.stmt import (
    LOOP_KINDS,
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import free_vars, loads

__all__ = ["Outline", "outline"]


@dataclass(frozen=True)
class Outline:
    """The surface of a statement.

    `variables` and `buffers` are those it uses and does not bind, each with the block that uses it
    ("" where none encloses the use); `loops` and `allocated` are those it binds; `blocks` are the
    names of its blocks, nested ones included; `stores` are targets of stores outside every block.
    """

    variables: Mapping[Var, str] = field(default_factory=dict)
    buffers: Mapping[Buffer, str] = field(default_factory=dict)
    loops: frozenset[Var] = frozenset()
    allocated: tuple[Buffer, ...] = ()
    blocks: tuple[str, ...] = ()
    stores: tuple[Buffer, ...] = ()


@Memo
def outline(stmt: Stmt) -> Outline:
    """The outline of a statement; raises InvalidIRError where a rule is broken within it."""
    match stmt:
        case Seq(body):
            return _joined([outline(part) for part in body])
        case For():
            return _loop(stmt)
        case Allocate(allocations, body):
            inner = outline(body)
            mine = tuple(item.buffer for item in allocations)
            sizes = _used(part.min for item in allocations for part in item.window)
            hidden = {buffer: user for buffer, user in inner.buffers.items() if buffer not in mine}
            return Outline(
                {**sizes.variables, **inner.variables},
                {**sizes.buffers, **hidden},
                inner.loops,
                (*mine, *inner.allocated),
                inner.blocks,
                inner.stores,
            )
        case BlockRealize(values, block, predicate):
            assert len(values) == len(block.iter_vars), "one value per variable"
            bound = _used(values if predicate is None else (*values, predicate))
            return _joined([bound, _block(block)])
        case BufferStore(buffer, indices, value):
            used = _used((*indices, value))
            return Outline(used.variables, {buffer: "", **used.buffers}, stores=(buffer,))
    raise AssertionError(f"not a statement: {stmt!r}")


def _loop(stmt: For) -> Outline:
    inner = outline(stmt.body)
    if stmt.kind not in LOOP_KINDS or stmt.extent < 1:
        raise InvalidIRError(
            f"a loop is not {stmt.kind!r} with extent {stmt.extent} ({stmt.var.name!r})"
        )
    if stmt.var in inner.loops:
        raise InvalidIRError(
            f"loops inside one another need variables of their own, not {stmt.var.name!r} twice"
        )
    return Outline(
        {var: user for var, user in inner.variables.items() if var is not stmt.var},
        inner.buffers,
        inner.loops | {stmt.var},
        inner.allocated,
        inner.blocks,
        inner.stores,
    )


@Memo
def _block(block: Block) -> Outline:
    """What is seen of a block: buffers alone, for it speaks of no variables but its own."""
    parts = [outline(part) for part in (block.init, block.body) if part is not None]
    inner = _joined(parts)
    where = f"block {block.name!r}"
    for var, user in inner.variables.items():
        if var not in block.iter_vars:
            raise InvalidIRError(
                f"variable {var.name!r} is not bound where {user or where} uses it"
            )
    buffers = {buffer: user or where for buffer, user in inner.buffers.items()}
    return Outline(buffers=buffers, allocated=inner.allocated, blocks=(block.name, *inner.blocks))


def _used(exprs: Iterable[Expr]) -> Outline:
    variables: dict[Var, str] = {}
    buffers: dict[Buffer, str] = {}
    for expr in exprs:
        variables.update(dict.fromkeys(free_vars(expr), ""))
        buffers.update(dict.fromkeys((load.buffer for load in loads(expr)), ""))
    return Outline(variables, buffers)


def _joined(parts: Sequence[Outline]) -> Outline:
    variables: dict[Var, str] = {}
    buffers: dict[Buffer, str] = {}
    for part in parts:
        variables.update(part.variables)
        buffers.update(part.buffers)
    return Outline(
        variables,
        buffers,
        frozenset(var for part in parts for var in part.loops),
        tuple(buffer for part in parts for buffer in part.allocated),
        tuple(name for part in parts for name in part.blocks),
        tuple(buffer for part in parts for buffer in part.stores),
    )
