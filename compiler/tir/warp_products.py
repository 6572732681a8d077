"""Products of matrices that the 32 threads of a warp compute together, as intrinsics.

    c[m, n] = c[m, n] + float32(a[m, k]) * float32(b[k, n])      for m in 16, n in 8, k in 16

Operands are in shared memory, in any layout, and the sums in a fragment. Who holds which sum is
part of the instruction: `lane_loops` says it. Some products are those of a group of four warps,
which follow each other: each of them has the sums of 16 rows of `a`, one after the other, and all
read the same `b`. The group goes on before they are done (`lower.stages`), and both operands lie
in shared memory as `codegen.gpu.group_products` says. Source: NVIDIA, PTX ISA 8.0, "Matrix
Fragments for mma.m16n8k16 with floating point type", "Matrix Fragments for mma.m16n8k32",
"Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from daedal.compiler.tir.expr import Binary, Cast, Expr, Load, Var
from daedal.compiler.tir.intrin import Match, Mismatch
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, For, Stmt
from daedal.compiler.tir.visit import free_vars, substitute

__all__ = [
    "COLUMNS",
    "GROUP_PRODUCTS",
    "GROUP_WARPS",
    "WARP_PRODUCTS",
    "WARP_THREADS",
    "WarpProduct",
    "factors_of",
    "lane_loops",
    "product_at",
    "product_loops",
    "product_named",
]

WARP_THREADS = 32
"""Of a warp: neighbours along the first axis of a block."""
COLUMNS = 8
"""That the threads of a warp have in pairs."""
GROUP_WARPS = 4
"""Of a group: neighbours along the second axis, from a multiple of it on."""


@dataclass(frozen=True)
class WarpProduct:
    """An instruction that adds a product of two matrices to sums.

    Attributes
    ----------
    rows, columns, depth : of a warp's part of the product; `depth` terms are added to each sum.
    dtype, sums : of the operands, and of the sums.
    warps : that execute it together.
    """

    name: str
    depth: int
    dtype: str
    sums: str
    rows: int = 16
    columns: int = 8
    warps: int = 1

    def match(self, extents: Mapping[Var, int], realize: BlockRealize) -> Match:
        """Match the nest of loops with `extents` around `realize`; raises Mismatch.

        Its loops are those of rows, columns and terms, in this order.
        """
        wanted = (self.rows, self.columns, self.depth)
        if tuple(extents.values()) != wanted:
            raise Mismatch(f"its loops must have extents {wanted}, not {tuple(extents.values())}")
        block = realize.block
        if block.init is not None or realize.predicate is not None:
            raise Mismatch("sums must be initialized elsewhere (decompose_reduction), and all used")
        found = factors_of(block.body)
        if found is None:
            raise Mismatch("the block must add a product of two converted elements")
        total, one, other = found
        m, n, k = extents
        bound = realize.binding
        if _used(total, bound) & set(extents) != {m, n}:
            raise Mismatch("sums must be indexed by rows and columns")
        a, b = (one, other) if m in _used(one, bound) else (other, one)
        for name, load, own in (("a", a, {m, k}), ("b", b, {n, k})):
            if _used(load, bound) & set(extents) != own:
                raise Mismatch(f"operand {name!r} must be indexed by one of the result's loops")
            self._check_operand(name, load, self.dtype, "shared")
        self._check_operand("c", total, self.sums, "fragment")
        return Match({total.buffer: "c", a.buffer: "a", b.buffer: "b"}, {})

    def _check_operand(self, name: str, load: Load, dtype: str, scope: str) -> None:
        buffer = load.buffer
        if (buffer.dtype, buffer.scope) != (dtype, scope) or load.pad_value is not None:
            raise Mismatch(
                f"operand {name!r} must be {dtype} in {scope}, and {buffer.name!r} is "
                f"{buffer.dtype} in {buffer.scope}"
            )


WARP_PRODUCTS: dict[str, WarpProduct] = {
    item.name: item
    for item in (
        WarpProduct("mma.m16n8k16.f16", 16, "float16", "float32"),
        WarpProduct("mma.m16n8k16.bf16", 16, "bfloat16", "float32"),
        WarpProduct("mma.m16n8k32.s8", 32, "int8", "int32"),
    )
}
"""Of one warp, by name."""


def _group_product(columns: int, depth: int, kind: str, dtype: str, sums: str) -> WarpProduct:
    name = f"wgmma.m64n{columns}k{depth}.{kind}"
    return WarpProduct(name, depth, dtype, sums, columns=columns, warps=GROUP_WARPS)


GROUP_PRODUCTS: dict[str, WarpProduct] = {
    item.name: item
    for columns in (64, 128, 256)
    for item in (
        _group_product(columns, 16, "f16", "float16", "float32"),
        _group_product(columns, 16, "bf16", "bfloat16", "float32"),
        _group_product(columns, 32, "s8", "int8", "int32"),
    )
}
"""Of groups of warps, by name."""


def product_named(name: object) -> WarpProduct | None:
    """The product of an intrinsic; None for other names."""
    return WARP_PRODUCTS.get(str(name)) or GROUP_PRODUCTS.get(str(name))


def product_at(stmt: Stmt) -> WarpProduct | None:
    """The product that a loop of a lowered function stands for, as `lane_loops` marks it."""
    return product_named(stmt.annotations.get("intrin")) if isinstance(stmt, For) else None


def factors_of(stmt: Stmt) -> tuple[Load, Load, Load] | None:
    """The element that a store adds to, and the two whose product it adds, each converted."""
    match stmt:
        case BufferStore(buffer, indices, Binary("+", a, b)):
            for total, product in ((a, b), (b, a)):
                match total, product:
                    case Load(), Binary("*", Cast(_, Load() as one), Cast(_, Load() as other)) if (
                        total.buffer is buffer and total.indices == indices
                    ):
                        return total, one, other
    return None


def lane_loops(product: WarpProduct, nest: For) -> For:
    """The loops of a product, those of rows and columns split into lanes and elements of each.

    for m in 16, n in 8, k in 16:        for t in 32 thread.x:
        c[m, n] = ...               =>       for i in 2, j in 2, k in 16:
                                                 c[i * 8 + t // 4, t % 4 * 2 + j] = ...

    The loop along `i` is marked as the intrinsic; with more than eight columns there is a loop of
    eights around `j`. The warp reads what these loops read, if not the
    same thread the same element; several threads read each element in both, so the same accesses of
    other threads race with them.
    """
    columns = nest.body
    assert isinstance(columns, For) and isinstance(columns.body, For)
    terms = columns.body

    def body(row: Expr, column: Expr) -> Stmt:
        return _substituted(terms.body, {nest.var: row, columns.var: column})

    return _lanes(product, terms.var, body)


def product_loops(
    product: WarpProduct,
    total: Callable[[Expr, Expr], Load],
    one: Callable[[Expr, Expr], Load],
    other: Callable[[Expr, Expr], Load],
) -> For:
    """The loops of a product as `lane_loops` gives them: to the element ``total(row, column)`` it
    adds those of ``one(row, term)`` and ``other(column, term)``."""
    term = Var("k")

    def body(row: Expr, column: Expr) -> Stmt:
        to, a, b = total(row, column), one(row, term), other(column, term)
        value = Cast(product.sums, a) * Cast(product.sums, b)
        return BufferStore(to.buffer, to.indices, to + value)

    return _lanes(product, term, body)


def _lanes(product: WarpProduct, term: Var, body: Callable[[Expr, Expr], Stmt]) -> For:
    """Loops around a statement of a row and a column, which are those of each thread."""
    lane, i, j, eight = Var("lane"), Var("i"), Var("j"), Var("eight")
    column: Expr = lane % 4 * 2 + j
    if product.columns > COLUMNS:
        column = eight * COLUMNS + column
    columns: Stmt = For(j, 2, For(term, product.depth, body(i * 8 + lane // 4, column)))
    if product.columns > COLUMNS:
        columns = For(eight, product.columns // COLUMNS, columns)
    marked = For(i, 2, columns, annotations={"intrin": product.name})
    return For(lane, WARP_THREADS, marked, "thread.x")


def _substituted(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    assert isinstance(stmt, BlockRealize)
    given = tuple(substitute(value, values) for value in stmt.values)
    return BlockRealize(given, stmt.block, stmt.predicate)


def _used(load: Load, bound: Mapping[Var, Expr]) -> set[Var]:
    return {var for index in load.indices for var in free_vars(substitute(index, bound))}
