"""Rebuilds lowered statements with other expressions."""

from collections.abc import Callable
from dataclasses import replace

from daedal.compiler.tir.expr import Expr
from daedal.compiler.tir.stmt import (
    Allocate,
    Barrier,
    BeginArrivals,
    BufferStore,
    CommitCopies,
    CommitProducts,
    ExpectBoxes,
    FenceSums,
    For,
    If,
    Prefetch,
    Range,
    Region,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)

__all__ = ["flat_seq", "rebuilt"]


def rebuilt(
    stmt: Stmt, expression: Callable[[Expr], Expr], statement: Callable[[Stmt], Stmt]
) -> Stmt:
    """`stmt` with `expression` of its own expressions and `statement` of the statements in it."""
    match stmt:
        case Seq(body):
            return flat_seq([statement(part) for part in body])
        case For(_, _, body) | Allocate(_, body):
            return replace(stmt, body=statement(body))
        case Barrier() | CommitCopies() | FenceSums() | CommitProducts() | WaitForProducts():
            return stmt
        case BeginArrivals():
            return stmt
        case ExpectBoxes(_, stage):
            return replace(stmt, stage=expression(stage))
        case WaitForBoxes(_, stage, turn, landed):
            regions = tuple(_region(part, expression) for part in landed)
            return replace(stmt, stage=expression(stage), turn=expression(turn), landed=regions)
        case Prefetch(buffer, indices):
            return Prefetch(buffer, tuple(expression(index) for index in indices))
        case WaitForCopies(_, landed):
            return replace(stmt, landed=tuple(_region(part, expression) for part in landed))
        case If(condition, body):
            return If(expression(condition), statement(body))
        case BufferStore(buffer, indices, value):
            return BufferStore(
                buffer, tuple(expression(index) for index in indices), expression(value)
            )
    raise AssertionError(f"not a lowered statement: {stmt!r}")


def _region(region: Region, expression: Callable[[Expr], Expr]) -> Region:
    ranges = tuple(Range(expression(part.min), part.extent) for part in region.ranges)
    return replace(region, ranges=ranges)


def flat_seq(parts: list[Stmt]) -> Stmt:
    """`parts` one after the other; sequences in it are flattened."""
    flat = [item for part in parts for item in (part.body if isinstance(part, Seq) else (part,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
