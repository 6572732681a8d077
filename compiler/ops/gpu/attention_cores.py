"""Attention of float16 or bfloat16 on tensor cores: a warp has sixteen queries.

The scores of its queries and of the keys of a step are in the warp's registers, as its products
leave them: a thread has two queries, and shares each with three others. Weights are rounded to 16
bits, too, and pass through shared memory to the products with values. Sums are float32.
"""

import operator
from collections.abc import Callable

from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import SWIZZLE
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu import loops
from daedal.compiler.ops.gpu.attention_form import AttentionForm
from daedal.compiler.ops.gpu.attention_loops import (
    FLOAT,
    LEAST,
    ZERO,
    AttentionLoops,
    Rows,
    lanes,
)
from daedal.compiler.ops.gpu.attention_tiles import (
    HALVES_APART,
    PRODUCT,
    ROW_LANES,
    AttentionTiles,
    core_product,
    depth_of,
    width_of,
)
from daedal.compiler.ops.onnx.over_axes import power
from daedal.compiler.tir.expr import (
    Buffer,
    Expr,
    IntImm,
    Load,
    Var,
    maximum,
)
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.lower.stages import STAGES
from daedal.compiler.tir.region import whole_window
from daedal.compiler.tir.stmt import Allocate, Allocation, For, PrimFunc, Stmt, Value
from daedal.compiler.tir.warp_products import WARP_THREADS, product_loops

__all__ = ["CoreAttention"]

UPPER = 2
"""Queries of a thread."""
PAIR = 2
"""Neighbouring sums of a thread."""
SWIZZLE_BYTES = 128
"""Of the lines whose chunks are exchanged."""
CHUNKS = (8, 4, 2)
"""Elements that one asynchronous copy may have."""


class CoreAttention(AttentionLoops):
    """Writes the loops of one kernel."""

    def __init__(self, kernel: Kernel, form: AttentionForm, tiles: AttentionTiles) -> None:
        super().__init__(kernel, form, tiles)
        rows, columns = tiles.rows, tiles.columns
        self._depth, self._width = depth_of(form), width_of(form)

        def shared(name: str, count: int, width: int, dtype: str = form.half) -> Buffer:
            return Buffer(name, (count, width), dtype, "shared")

        self._queries = shared("queries", rows, self._depth + HALVES_APART)
        self._weights = shared("weights", rows, columns + HALVES_APART)
        self._parts = shared("parts", rows, ROW_LANES, FLOAT)
        self._keys, self._key_notes = self._ring("keys", self._depth, self.keys(IntImm(0)))
        self._values, self._value_notes = self._ring("values", self._width, self.values(IntImm(0)))
        self._scores = Buffer("scores", (rows, columns), FLOAT, "fragment")
        self._sums = Buffer("sums", (rows, self._width), FLOAT, "fragment")
        self._tops = Buffer("tops", (rows, ROW_LANES), FLOAT, "fragment")
        self._totals = Buffer("totals", (rows, ROW_LANES), FLOAT, "fragment")

    def function(self) -> PrimFunc:
        """The kernel."""
        shared = [self._queries, self._weights, self._parts]
        own = [self._scores, self._sums, self._tops, self._totals]
        queries = self._copied(self._queries, self._depth, self.queries)
        after = [self._summed(), self._stored()]
        return self.kernel([*shared, *own], [queries, self._begun()], self._step, after)

    def _step(self, first: Expr) -> Stmt:
        """The keys from `first` on; the copies of later steps are begun ahead, if these are of
        neighbouring elements."""
        found = tuple(
            Allocation(buffer, whole_window(buffer), notes)
            for buffer, notes in (
                (self._keys, self._key_notes),
                (self._values, self._value_notes),
            )
        )
        body = [
            self._copied(self._keys, self._depth, self.keys(first)),
            self._copied(self._values, self._width, self.values(first)),
            self._multiplied(),
            self._compared(first),
            self._weighed(),
            self._added(),
        ]
        return Allocate(found, flat_seq(body))

    def _ring(self, name: str, width: int, rows: Rows) -> tuple[Buffer, dict[str, Value]]:
        """A buffer for the rows of a step, and how it is allocated: in stages, where asynchronous
        copies can fill it. Its banks are those of other chunks in each line of 128 bytes, or its
        rows are apart."""
        notes: dict[str, Value] = {}
        if self.tiles.stages > 1 and rows.chunk(CHUNKS):
            notes[STAGES] = self.tiles.stages
            if width & (width - 1) == 0:
                notes[SWIZZLE] = SWIZZLE_BYTES
        apart = 0 if SWIZZLE in notes else HALVES_APART
        return Buffer(name, (self.tiles.columns, width + apart), self.form.half, "shared"), notes

    def _threads(self, body: Callable[[Var, Var], Stmt]) -> Stmt:
        """Warps, and their threads."""
        warp, lane = Var("warp"), Var("lane")
        inner = For(lane, WARP_THREADS, body(warp, lane), "thread.x")
        return For(warp, self.tiles.warps, inner, "thread.y")

    def _copied(self, to: Buffer, width: int, rows: Rows) -> Stmt:
        """Rows of an operand in shared memory."""

        def of_thread(warp: Var, lane: Var) -> Stmt:
            return self.copied(to, width, rows, CHUNKS, warp * WARP_THREADS + lane)

        return self._threads(of_thread)

    def _begun(self) -> Stmt:
        """Nothing was seen yet."""

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                row, _ = query = self._query(warp, lane, i)
                sums = self._each(
                    self._width, lane, lambda j: loops.store(self._sums, (row, j), ZERO)
                )
                tops = loops.store(self._tops, query, LEAST)
                return flat_seq([tops, loops.store(self._totals, query, ZERO), sums])

            return loops.unrolled("row", UPPER, of_row)

        return self._threads(of_thread)

    def _query(self, warp: Var, lane: Var, number: Expr) -> tuple[Expr, Expr]:
        """A query of a thread, and which of its four threads it is."""
        row = warp * PRODUCT.rows + number * (PRODUCT.rows // UPPER) + lane // ROW_LANES
        return row, lane % ROW_LANES

    def _each(self, width: int, lane: Var, body: Callable[[Expr], Stmt]) -> Stmt:
        """A statement for each of the columns that a thread has."""

        def of_tile(tile: Var) -> Stmt:
            return loops.unrolled("column", PAIR, lambda j: body(_column(tile, lane, j)))

        return loops.unrolled("tile", width // PRODUCT.columns, of_tile)

    def _products(
        self, sums: Buffer, one: Buffer, depth: int, other: Callable[[Expr, Expr], Load]
    ) -> Stmt:
        """Add the products of a warp's rows of `one` and of `other`, whose elements have a term and
        a column."""

        def of_warp(warp: Var) -> Stmt:
            def product(chunk: Var, tile: Var) -> Stmt:
                def term(k: Expr) -> Expr:
                    return chunk * PRODUCT.depth + k

                return product_loops(
                    core_product(self.form),
                    lambda i, j: Load(sums, (warp * PRODUCT.rows + i, tile * PRODUCT.columns + j)),
                    lambda i, k: Load(one, (warp * PRODUCT.rows + i, term(k))),
                    lambda j, k: other(term(k), tile * PRODUCT.columns + j),
                )

            def of_chunk(chunk: Var) -> Stmt:
                count = sums.shape[1] // PRODUCT.columns
                return loops.unrolled("tile", count, lambda tile: product(chunk, tile))

            return loops.unrolled("chunk", depth // PRODUCT.depth, of_chunk)

        return loops.loop("warp", self.tiles.warps, of_warp, "thread.y")

    def _multiplied(self) -> Stmt:
        """Queries and keys."""

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                row, _ = self._query(warp, lane, i)
                return self._each(
                    self.tiles.columns, lane, lambda j: loops.store(self._scores, (row, j), ZERO)
                )

            return loops.unrolled("row", UPPER, of_row)

        products = self._products(
            self._scores, self._queries, self._depth, lambda k, j: Load(self._keys, (j, k))
        )
        return flat_seq([self._threads(of_thread), products])

    def _compared(self, first: Expr) -> Stmt:
        """Scores, and the largest one of each thread's part of a query; what is no number is left
        out."""
        top = Buffer("top", (1,), FLOAT, "local")

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                row, part = self._query(warp, lane, i)

                def score(column: Expr) -> Stmt:
                    at = row, column
                    value = self.score(row, first + column, Load(self._scores, at))
                    found = te.number_or(Load(self._scores, at), LEAST)
                    return flat_seq(
                        [
                            loops.store(self._scores, at, value),
                            loops.store(top, (0,), maximum(loops.first(top), found)),
                        ]
                    )

                return flat_seq(
                    [
                        loops.store(top, (0,), LEAST),
                        self._each(self.tiles.columns, lane, score),
                        loops.store(self._parts, (row, part), loops.first(top)),
                    ]
                )

            return loops.allocated([top], loops.unrolled("row", UPPER, of_row))

        return self._threads(of_thread)

    def _weighed(self) -> Stmt:
        """Scores become weights, and sums are scaled."""
        own, state = self.running, (self._tops, self._totals)
        weight = Buffer("weight", (PAIR,), FLOAT, "local")

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                row, _ = query = self._query(warp, lane, i)

                def weighed(tile: Var) -> Stmt:
                    def one(j: Var) -> Stmt:
                        score = Load(self._scores, (row, _column(tile, lane, j)))
                        total = loops.first(own.total) + Load(weight, (j,))
                        return flat_seq(
                            [
                                loops.store(weight, (j,), power(score - loops.first(own.base))),
                                loops.store(own.total, (0,), total),
                            ]
                        )

                    def kept(j: Var) -> Stmt:
                        at = row, _column(tile, lane, j)
                        value = Load(weight, (j,)).astype(self.form.half)
                        return loops.store(self._weights, at, value)

                    return flat_seq([loops.unrolled("column", PAIR, one), loops.vector(PAIR, kept)])

                def scaled(column: Expr) -> Stmt:
                    at = row, column
                    value = Load(self._sums, at) * loops.first(own.scale)
                    return loops.store(self._sums, at, value)

                tiles = self.tiles.columns // PRODUCT.columns
                weights = loops.unrolled("tile", tiles, weighed)
                sums = self._each(self._width, lane, scaled)
                return self.weighed(query, self._parts, state, weights, sums)

            body = loops.unrolled("row", UPPER, of_row)
            return loops.allocated([*own.buffers, weight], body)

        return self._threads(of_thread)

    def _added(self) -> Stmt:
        """The values by their weights."""
        return self._products(
            self._sums,
            self._weights,
            self.tiles.columns,
            lambda k, j: Load(self._values, (k, j)),
        )

    def _summed(self) -> Stmt:
        """The sums of weights where all threads see them."""

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                query = self._query(warp, lane, i)
                return loops.store(self._parts, query, Load(self._totals, query))

            return loops.unrolled("row", UPPER, of_row)

        return self._threads(of_thread)

    def _stored(self) -> Stmt:
        """The result and what follows it."""

        def of_thread(warp: Var, lane: Var) -> Stmt:
            def of_row(i: Var) -> Stmt:
                row, _ = self._query(warp, lane, i)
                total = lanes(self._parts, row, operator.add)

                def stored(column: Expr) -> Stmt:
                    at = row, column
                    return self.stored(at, self.mean(Load(self._sums, at), total), self._width)

                return self._each(self._width, lane, stored)

            return loops.unrolled("row", UPPER, of_row)

        return self._threads(of_thread)


def _column(tile: Expr, lane: Expr, number: Expr) -> Expr:
    """A column that a thread has of a product: two neighbouring ones of each tile."""
    return tile * PRODUCT.columns + lane % ROW_LANES * PAIR + number
