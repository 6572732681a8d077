"""Finds buffers that share rows: a register ALU operation works in place on its first operand.

``c = x + y`` needs c in the rows of x. That is correct if nothing else reads x, and if both buffers
are allocated at the same place of the loop nest with the same window. Chains of such operations
share one instance.
"""

from daedal.compiler.codegen.intrinsics import IMMEDIATE, REGISTER
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import Allocate, Allocation, Block, For, PrimFunc, Seq, Stmt

__all__ = ["shared_rows"]

IN_PLACE = (*IMMEDIATE, "requantize_widen")
"""Operations with one operand that may write over it."""


def shared_rows(func: PrimFunc) -> dict[Buffer, Buffer]:
    """For each buffer that can reuse the rows of another, the buffer that owns the rows."""
    sites, _ = collect(func.body)
    places = _places(func.body)
    readers: dict[Buffer, int] = {}
    for site in sites:
        for region in site.block.reads:
            readers[region.buffer] = readers.get(region.buffer, 0) + 1
    owners: dict[Buffer, Buffer] = {}
    for site in sites:
        for source in _operands(site.block):
            target = site.block.writes[0].buffer
            if readers[source] == 1 and _alike(source, target, places):
                owners[target] = owners.get(source, source)
                break
    return owners


def _operands(block: Block) -> list[Buffer]:
    """The operands whose rows the result may reuse, in order of preference."""
    name = str(block.annotations.get("intrin", ""))
    if name not in REGISTER and name not in IN_PLACE:
        return []
    names = str(block.annotations["operands"]).split(",")
    by_name = {operand: region.buffer for operand, region in zip(names, block.reads, strict=True)}
    wanted = ("x",) if name in IN_PLACE or name == "alu_sub" else ("x", "y")
    return [by_name[operand] for operand in wanted]


def _alike(a: Buffer, b: Buffer, places: dict[Buffer, tuple[int, Allocation]]) -> bool:
    if a not in places or b not in places or a.dtype != b.dtype or a.scope != b.scope:
        return False
    return places[a][0] == places[b][0] and places[a][1].window == places[b][1].window


def _places(stmt: Stmt) -> dict[Buffer, tuple[int, Allocation]]:
    """For each buffer, the number of its Allocate statement, and its allocation."""
    found: dict[Buffer, tuple[int, Allocation]] = {}
    count = 0

    def visit(node: Stmt) -> None:
        nonlocal count
        match node:
            case Allocate(allocations, body):
                count += 1
                for item in allocations:
                    found[item.buffer] = (count, item)
                visit(body)
            case For(_, _, body):
                visit(body)
            case Seq(body):
                for part in body:
                    visit(part)

    visit(stmt)
    return found
