"""Functional edits of statements that primitives share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from daedal.common.errors import ScheduleError
from daedal.compiler.tir.expr import Buffer, Expr, Load, Var, select
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import rewrite, substitute

__all__ = [
    "edit_block",
    "find_loop",
    "find_site",
    "guarded",
    "insert_at",
    "loop_chain",
    "loop_of",
    "map_stmt",
    "remove_block",
    "renamed_stmt",
    "replace_site",
    "seq",
    "substitute_loops",
    "with_body",
]


def seq(parts: Sequence[Stmt]) -> Stmt:
    """Statements in order, flattened; a single one is returned itself."""
    flat: list[Stmt] = []
    for part in parts:
        flat += part.body if isinstance(part, Seq) else (part,)
    assert flat, "an empty sequence has no meaning"
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def map_stmt(stmt: Stmt, visit: Callable[[Stmt], Stmt | None]) -> Stmt:
    """Rebuild from the top; what `visit` returns stands for a node, and blocks stay whole.

    Statements without a change in them stay the same objects.
    """
    replaced = visit(stmt)
    if replaced is not None:
        return replaced
    match stmt:
        case Seq(body):
            parts = [map_stmt(part, visit) for part in body]
            changed = any(new is not old for new, old in zip(parts, body, strict=True))
            return seq(parts) if changed else stmt
        case For() | Allocate():
            return with_body(stmt, map_stmt(stmt.body, visit))
    return stmt


def with_body(stmt: For | Allocate, body: Stmt) -> Stmt:
    """`stmt` around `body`; the same object where that is its body already."""
    return stmt if body is stmt.body else replace(stmt, body=body)


def find_site(func: PrimFunc, name: str) -> Site:
    """The outermost block called `name`."""
    sites, _ = collect(func.body)
    for site in sites:
        if site.block.name == name:
            return site
    known = ", ".join(repr(site.block.name) for site in sites)
    raise ScheduleError(f"there is no block {name!r} in {func.name!r}; its blocks are {known}")


def find_loop(func: PrimFunc, var: Var) -> For:
    """The loop of `var`."""
    loop = loop_of(func.body, var)
    if loop is None:
        raise ScheduleError(
            f"loop {var.name!r} is no longer in {func.name!r}; take its loops anew with get_loops"
        )
    return loop


def loop_of(stmt: Stmt, var: Var) -> For | None:
    """The loop of `var` outside every block of `stmt`."""
    match stmt:
        case Seq(body):
            found = (loop_of(part, var) for part in body)
            return next((loop for loop in found if loop is not None), None)
        case For() if stmt.var is var:
            return stmt
        case For(_, _, body) | Allocate(_, body):
            return loop_of(body, var)
    return None


def loop_chain(stmt: Stmt) -> tuple[list[For], Stmt]:
    """The loops directly inside one another from `stmt` down, and what is inside the innermost."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def substitute_loops(
    stmt: Stmt,
    values: Mapping[Var, Expr],
    extents: Mapping[Var, int],
    condition: Expr | None = None,
) -> Stmt:
    """Replace loop variables in bindings and predicates, and simplify these.

    `condition` joins the predicate of every block that speaks of a replaced variable.
    """

    def visit(node: Stmt) -> Stmt | None:
        if not isinstance(node, BlockRealize):
            return None

        def moved(expr: Expr) -> Expr:
            new = substitute(expr, values)
            return expr if new is expr else simplify(new, extents)

        touched = tuple(moved(value) for value in node.values)
        predicate = None if node.predicate is None else moved(node.predicate)
        if all(new is old for new, old in zip(touched, node.values, strict=True)):
            same = predicate is node.predicate
            return node if same else replace(node, predicate=predicate)
        if condition is not None:
            predicate = condition if predicate is None else predicate & condition
        return BlockRealize(touched, node.block, predicate)

    return map_stmt(stmt, visit)


def remove_block(stmt: Stmt, name: str) -> Stmt | None:
    """`stmt` without one block and the loops that then hold nothing; None where nothing is left."""
    match stmt:
        case Seq(body):
            parts = [remove_block(part, name) for part in body]
            if all(new is old for new, old in zip(parts, body, strict=True)):
                return stmt
            kept = [part for part in parts if part is not None]
            return seq(kept) if kept else None
        case For() | Allocate():
            inner = remove_block(stmt.body, name)
            return None if inner is None else with_body(stmt, inner)
        case BlockRealize(_, block) if block.name == name:
            return None
    return stmt


def contains(stmt: Stmt, names: frozenset[str]) -> bool:
    """Whether one of the outermost blocks of `stmt` bears one of `names`."""
    sites, _ = collect(stmt)
    return any(site.block.name in names for site in sites)


def insert_at(
    stmt: Stmt, loop: Var | None, new: Stmt, names: frozenset[str], after: bool = False
) -> Stmt:
    """Insert `new` in the body of `loop` (None: the function), next to the blocks called `names`.

    It goes before the first statement that contains one of them, or after the last.
    """

    def place(body: Stmt) -> Stmt:
        parts = list(body.body) if isinstance(body, Seq) else [body]
        hits = [position for position, part in enumerate(parts) if contains(part, names)]
        assert hits, "the neighbours are in the body"
        where = hits[-1] + 1 if after else hits[0]
        return seq([*parts[:where], new, *parts[where:]])

    if loop is None:
        return place(stmt)

    def visit(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var is loop:
            return replace(node, body=place(node.body))
        return None

    return map_stmt(stmt, visit)


def replace_site(stmt: Stmt, name: str, new: Stmt) -> Stmt:
    """Put `new` where the block called `name` is realized."""

    def visit(node: Stmt) -> Stmt | None:
        return new if isinstance(node, BlockRealize) and node.block.name == name else None

    return map_stmt(stmt, visit)


def edit_block(
    block: Block,
    load: Callable[[Load], Expr | None],
    store: Mapping[Buffer, Buffer] | None = None,
) -> Block:
    """`block` with its loads and the targets of its stores replaced, regions derived anew."""
    targets = store or {}

    def expr(node: Expr) -> Expr | None:
        return load(node) if isinstance(node, Load) else None

    def stmt(node: Stmt) -> Stmt:
        match node:
            case BufferStore(buffer, indices, value):
                return BufferStore(targets.get(buffer, buffer), indices, rewrite(value, expr))
            case Seq(body):
                return Seq(tuple(stmt(part) for part in body))
            case For():
                return replace(node, body=stmt(node.body))
            case BlockRealize(values, inner, predicate):
                return BlockRealize(values, edit_block(inner, load, store), predicate)
        raise AssertionError(f"not within a block: {node!r}")

    init = None if block.init is None else stmt(block.init)
    return make_block(block.name, block.iter_vars, stmt(block.body), init, block.annotations)


def guarded(value: Expr, condition: Expr, otherwise: Expr) -> Expr:
    """`value` where `condition` holds; its loads do no harm where it does not."""

    def safe(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.pad_value is None:
            return Load(node.buffer, node.indices, 0)
        return None

    return select(condition, rewrite(value, safe), otherwise)


def renamed_stmt(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """`stmt` of a block with the block's variables replaced."""
    match stmt:
        case BufferStore(buffer, indices, value):
            moved = tuple(substitute(index, values) for index in indices)
            return BufferStore(buffer, moved, substitute(value, values))
        case Seq(body):
            return Seq(tuple(renamed_stmt(part, values) for part in body))
        case For():
            return replace(stmt, body=renamed_stmt(stmt.body, values))
        case BlockRealize(bound, block, predicate):
            moved = tuple(substitute(value, values) for value in bound)
            where = None if predicate is None else substitute(predicate, values)
            return BlockRealize(moved, block, where)
    raise AssertionError(f"not within a block: {stmt!r}")
