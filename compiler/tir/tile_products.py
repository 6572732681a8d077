"""Products of matrices in the tile registers of a processor (AMX), as intrinsics.

    tile_zero:      c[m, n] = 0                                                 for m, n
    tile_multiply:  c[m, n] = c[m, n] + dot_quads(a[m, 4 * k + 0..3], b[k, n, 0..3])  for m, n, k
    tile_store:     s[m, n] = c[m, n]                                           for m, n

`c` is in scope `TILE`: int32 in registers, which have no addresses. The other operands are in
memory: a row of `a` has its elements side by side, and so has a row of `b`, the four factors of
each column together. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume
2, TDPBUSD.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from daedal.compiler.tir.expr import Binary, Call, Expr, IntImm, Load, Var
from daedal.compiler.tir.intrin import Match, Mismatch
from daedal.compiler.tir.linear import Linear, accessed_element, simplify
from daedal.compiler.tir.stmt import Allocate, BlockRealize, BufferStore, For, If, Seq, Stmt
from daedal.compiler.tir.visit import free_vars, substitute
from daedal.native.bodies.tile_products import TILE_ROW_BYTES, TILE_ROWS

__all__ = [
    "MOST_COLUMNS",
    "MOST_DEPTH",
    "MOST_ROWS",
    "QUAD",
    "TILE",
    "TILE_OPERATIONS",
    "TileOperation",
    "has_tiles",
    "quads_of",
    "tile_operation",
]

TILE = "tile"
"""The memory scope of tile registers."""

QUAD = 4
"""Products of a term; and bytes of a sum."""
MOST_ROWS, MOST_COLUMNS, MOST_DEPTH = TILE_ROWS, TILE_ROW_BYTES // QUAD, TILE_ROW_BYTES // QUAD
"""Of a product: a register has 16 rows of 64 bytes, 16 sums or 16 terms."""


@dataclass(frozen=True)
class TileOperation:
    """One of the intrinsics, of any shape up to the largest.

    Attributes
    ----------
    rank : the loops of its nest: rows, columns and, of a product, terms.
    pattern : what it computes.
    """

    name: str
    rank: int
    pattern: str

    def match(
        self, extents: Mapping[Var, int], realize: BlockRealize, outer: Mapping[Var, int]
    ) -> Match:
        """Match the nest of loops with `extents` around `realize`, in loops with those of `outer`;
        raises Mismatch.

        Its loops are those of rows, columns and terms, in this order.
        """
        limits = (MOST_ROWS, MOST_COLUMNS, MOST_DEPTH)[: self.rank]
        sizes = tuple(extents.values())
        if len(sizes) != self.rank or any(a > b for a, b in zip(sizes, limits, strict=True)):
            raise Mismatch(f"its loops must have extents of at most {limits}, not {sizes}")
        block = realize.block
        if block.init is not None or realize.predicate is not None:
            raise Mismatch("sums must be initialized elsewhere (decompose_reduction), and all used")
        if not isinstance(block.body, BufferStore):
            raise Mismatch("the block must be one store")
        stored = _bound(block.body, realize.binding, {**outer, **extents})
        operands = _OPERANDS[self.name](stored, *extents)
        return Match({load.buffer: name for name, load in operands.items()}, {})


TILE_OPERATIONS: dict[str, TileOperation] = {
    item.name: item
    for item in (
        TileOperation("tile_zero", 2, "c[m, n] = 0"),
        TileOperation(
            "tile_multiply",
            3,
            "c[m, n] = c[m, n] + dot_quads(a[m, 4 * k + 0..3], b[k, n, 0..3])",
        ),
        TileOperation("tile_store", 2, "s[m, n] = c[m, n]"),
    )
}
"""By name."""


def tile_operation(stmt: Stmt) -> TileOperation | None:
    """The operation that a loop of a lowered function stands for."""
    if not isinstance(stmt, For):
        return None
    return TILE_OPERATIONS.get(str(stmt.annotations.get("intrin")))


def has_tiles(stmt: Stmt) -> bool:
    """Whether a lowered statement has such loops."""
    match stmt:
        case Seq(body):
            return any(map(has_tiles, body))
        case For(_, _, body):
            return tile_operation(stmt) is not None or has_tiles(body)
        case Allocate(_, body) | If(_, body):
            return has_tiles(body)
    return False


def quads_of(value: Expr) -> tuple[Load, Load] | None:
    """The first elements of four uint8 side by side and of four int8 whose products are added;
    None for other sums."""
    match value:
        case Call("dot_quads", args) if all(isinstance(arg, Load) for arg in args):
            pass
        case _:
            return None
    given = [arg for arg in args if isinstance(arg, Load) and arg.pad_value is None]
    if len(given) < len(args):
        return None
    a, b = given[:QUAD], given[QUAD:]
    if (a[0].dtype, b[0].dtype) != ("uint8", "int8"):
        return None
    return (a[0], b[0]) if _side_by_side(a) and _side_by_side(b) else None


def _side_by_side(group: list[Load]) -> bool:
    forms = [accessed_element(load) for load in group]
    return all(
        load.buffer is group[0].buffer
        and form.terms == forms[0].terms
        and form.constant == forms[0].constant + number
        for number, (load, form) in enumerate(zip(group, forms, strict=True))
    )


def _bound(
    store: BufferStore, values: Mapping[Var, Expr], extents: Mapping[Var, int]
) -> BufferStore:
    """A store over the loops around its block."""

    def over_loops(expr: Expr) -> Expr:
        return simplify(substitute(expr, values), extents)

    return BufferStore(store.buffer, tuple(map(over_loops, store.indices)), over_loops(store.value))


def _zero(store: BufferStore, m: Var, n: Var) -> dict[str, Load]:
    if store.value != IntImm(0, "int32"):
        raise Mismatch("sums must begin at 0")
    return {"c": _in_registers(Load(store.buffer, store.indices), m, n)}


def _stored(store: BufferStore, m: Var, n: Var) -> dict[str, Load]:
    if not isinstance(store.value, Load):
        raise Mismatch("the block must copy sums")
    target = Load(store.buffer, store.indices)
    _check_steps("s", target, {m: None, n: 1})
    return {"s": target, "c": _in_registers(store.value, m, n)}


def _product(store: BufferStore, m: Var, n: Var, k: Var) -> dict[str, Load]:
    match store.value:
        case Binary("+", Load() as total, Call() as product) if (
            total.buffer is store.buffer and total.indices == store.indices
        ):
            found = quads_of(product)
        case _:
            found = None
    if found is None:
        raise Mismatch("the block must add four products of uint8 and int8 that lie side by side")
    a, b = found
    _check_steps("a", a, {m: None, n: 0, k: QUAD})
    _check_steps("b", b, {m: 0, n: QUAD, k: None})
    return {"c": _in_registers(total, m, n), "a": a, "b": b}


_OPERANDS: Mapping[str, Callable[..., dict[str, Load]]] = {
    "tile_zero": _zero,
    "tile_multiply": _product,
    "tile_store": _stored,
}
"""What a store over its loops reads and writes, by operand; raises Mismatch."""


def _in_registers(load: Load, m: Var, n: Var) -> Load:
    if (load.buffer.dtype, load.buffer.scope) != ("int32", TILE):
        raise Mismatch(
            f"operand 'c' must be int32 in {TILE}, and {load.buffer.name!r} is "
            f"{load.buffer.dtype} in {load.buffer.scope}"
        )
    _check_steps("c", load, {m: None, n: 1})
    return load


def _check_steps(name: str, load: Load, steps: Mapping[Var, int | None]) -> None:
    """Raise Mismatch unless a place moves by these steps along the loops; None: any but 0."""
    form = accessed_element(load)
    for var, wanted in steps.items():
        step = form.coefficient(var)
        if _mixes(form, var) or (step == 0 if wanted is None else step != wanted):
            wish = "equal steps" if wanted is None else f"steps of {wanted}"
            raise Mismatch(f"operand {name!r} must have {wish} along {var.name!r}")


def _mixes(form: Linear, var: Var) -> bool:
    return any(var in used for used in _inner_vars(form))


def _inner_vars(form: Linear) -> Iterator[set[Var]]:
    """What the terms that are no variables themselves depend on."""
    return (set(free_vars(term)) for term, _ in form.terms if not isinstance(term, Var))
