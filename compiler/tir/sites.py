"""The positions of blocks in a function: the loops and allocations around each."""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.stmt import Allocate, Allocation, Block, BlockRealize, For, Seq, Stmt

__all__ = ["Scope", "Site", "collect", "nested_realizes"]


@dataclass(frozen=True)
class Site:
    """A block that no other block encloses, and the loops around it, outermost first."""

    realize: BlockRealize
    loops: tuple[For, ...]

    @property
    def block(self) -> Block:
        """The block itself."""
        return self.realize.block

    @property
    def extents(self) -> dict[Var, int]:
        """The extents of the loops around it."""
        return {loop.var: loop.extent for loop in self.loops}

    def shared(self, other: "Site") -> int:
        """How many of the outermost loops this site and `other` have in common."""
        count = 0
        for mine, theirs in zip(self.loops, other.loops, strict=False):
            if mine.var is not theirs.var:
                break
            count += 1
        return count


@dataclass(frozen=True)
class Scope:
    """An allocation, and the loops around it."""

    allocation: Allocation
    loops: tuple[For, ...]


def collect(stmt: Stmt) -> tuple[list[Site], dict[Buffer, Scope]]:
    """Every outermost block and every allocation of `stmt`."""
    sites: list[Site] = []
    scopes: dict[Buffer, Scope] = {}

    def visit(node: Stmt, loops: tuple[For, ...]) -> None:
        match node:
            case Seq(body):
                for part in body:
                    visit(part, loops)
            case For():
                visit(node.body, (*loops, node))
            case Allocate(allocations, body):
                for item in allocations:
                    scopes[item.buffer] = Scope(item, loops)
                visit(body, loops)
            case BlockRealize():
                sites.append(Site(node, loops))

    visit(stmt, ())
    return sites, scopes


def nested_realizes(stmt: Stmt) -> Iterator[BlockRealize]:
    """Every realized block within `stmt`, those inside other blocks too, outermost first."""
    match stmt:
        case Seq(body):
            for part in body:
                yield from nested_realizes(part)
        case For(_, _, body) | Allocate(_, body):
            yield from nested_realizes(body)
        case BlockRealize(_, block):
            yield stmt
            if block.init is not None:
                yield from nested_realizes(block.init)
            yield from nested_realizes(block.body)
