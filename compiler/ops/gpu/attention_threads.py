"""Attention of float32: every thread has sums of four queries.

A thread has the scores of four queries and of every sixteenth key, and sums of the same queries; of
the largest score and the sum of weights, four threads have a query, and each of them every fourth
key. Scores pass through shared memory between these.
"""

import operator
from collections.abc import Callable

from daedal.compiler import te
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
    APART,
    COLUMN_THREADS,
    OWN_ROWS,
    ROW_THREADS,
    AttentionTiles,
    depth_of,
    is_wide,
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
from daedal.compiler.tir.stmt import PrimFunc, Stmt

__all__ = ["ThreadAttention"]

CHUNKS = (4, 2)
"""Neighbouring elements that a thread may copy at a time."""


class ThreadAttention(AttentionLoops):
    """Writes the loops of one kernel."""

    def __init__(
        self, kernel: Kernel, form: AttentionForm, tiles: AttentionTiles, has_vectors: bool
    ) -> None:
        super().__init__(kernel, form, tiles)
        self._chunks = CHUNKS if has_vectors else ()
        rows, columns = tiles.rows, tiles.columns
        depth, self._width = depth_of(form), width_of(form)
        shared = {
            "queries": (rows, depth + APART),
            "scores": (rows, columns + APART),
            "parts": (rows, ROW_THREADS),
            "scales": (rows, ROW_THREADS),
        }
        own = {"sums": (rows, self._width), "tops": (rows, ROW_THREADS)}
        own["totals"] = own["tops"]
        self._shared = {
            name: Buffer(name, shape, FLOAT, "shared") for name, shape in shared.items()
        }
        self._own = {name: Buffer(name, shape, FLOAT, "fragment") for name, shape in own.items()}
        if is_wide(form):
            shape = columns, max(depth, self._width) + APART
            self._keys = self._values = Buffer("step", shape, FLOAT, "shared")
        else:
            self._keys = Buffer("keys", (columns, depth + APART), FLOAT, "shared")
            self._values = Buffer("values", (columns, self._width), FLOAT, "shared")
        self._depth = depth
        each = self._width // COLUMN_THREADS
        self._vector = next(n for n in (4, 2, 1) if each % n == 0)
        self._vectors = each // self._vector

    def function(self) -> PrimFunc:
        """The kernel."""
        return self.kernel(
            [*self._shared.values(), *self._own.values()],
            [self._copied(self._shared["queries"], self._depth, self.queries), self._begun()],
            self._step,
            [self._summed(), self._stored()],
        )

    def _step(self, first: Expr) -> Stmt:
        """The keys from `first` on."""
        values = self._copied(self._values, self._width, self.values(first))
        before, after = ([], [values]) if self._values is self._keys else ([values], [])
        return loops.allocated(
            list(dict.fromkeys((self._keys, self._values))),
            self._copied(self._keys, self._depth, self.keys(first)),
            *before,
            self._scored(first),
            *after,
            self._compared(),
            self._weighed(),
            self._added(),
        )

    def _copied(self, to: Buffer, width: int, rows: Rows) -> Stmt:
        """Rows of an operand in shared memory."""
        return self._threads(lambda thread: self.copied(to, width, rows, self._chunks, thread))

    def _threads(self, body: Callable[[Var], Stmt]) -> Stmt:
        return loops.loop("thread", self.tiles.threads, body, "thread.x")

    def _begun(self) -> Stmt:
        """Nothing was seen yet."""
        sums, tops, totals = (self._own[name] for name in ("sums", "tops", "totals"))

        def of_thread(thread: Var) -> Stmt:
            query = self._query(thread)
            return flat_seq(
                [
                    self._each_sum(thread, lambda at: loops.store(sums, at, ZERO)),
                    loops.store(tops, query, LEAST),
                    loops.store(totals, query, ZERO),
                ]
            )

        return self._threads(of_thread)

    def _query(self, thread: Var) -> tuple[Expr, Expr]:
        """The query of which a thread has the largest score, and which of its four it is."""
        return thread // ROW_THREADS, thread % ROW_THREADS

    def _each_sum(self, thread: Var, body: Callable[[tuple[Expr, Expr]], Stmt]) -> Stmt:
        """A statement for each element of the result that a thread has."""

        def at(i: Var, vector: Var, element: Var) -> Stmt:
            row = thread // COLUMN_THREADS * OWN_ROWS + i
            return body((row, self._column(thread, vector, element)))

        return self._each_own(at)

    def _each_own(self, at: Callable[[Var, Var, Var], Stmt]) -> Stmt:
        """A statement for each query of a thread and each element of its vectors of results."""

        def of_row(i: Var) -> Stmt:
            def of_vector(vector: Var) -> Stmt:
                return loops.unrolled(
                    "element", self._vector, lambda element: at(i, vector, element)
                )

            return loops.unrolled("vector", self._vectors, of_vector)

        return loops.unrolled("row", OWN_ROWS, of_row)

    def _column(self, thread: Var, vector: Expr, element: Expr) -> Expr:
        return (
            vector * (COLUMN_THREADS * self._vector)
            + thread % COLUMN_THREADS * self._vector
            + (element)
        )

    def _scored(self, first: Expr) -> Stmt:
        """The scores of all queries and of the keys from `first` on."""
        tiles = self.tiles
        queries, scores, keys = self._shared["queries"], self._shared["scores"], self._keys
        own = tiles.columns // COLUMN_THREADS
        products = Buffer("products", (OWN_ROWS, own), FLOAT, "local")
        query = Buffer("query", (OWN_ROWS, APART), FLOAT, "local")
        key = Buffer("key", (own, APART), FLOAT, "local")

        def each(body: Callable[[Var, Var], Stmt]) -> Stmt:
            return loops.unrolled(
                "row", OWN_ROWS, lambda i: loops.unrolled("key", own, lambda j: body(i, j))
            )

        def of_thread(thread: Var) -> Stmt:
            row = thread // COLUMN_THREADS * OWN_ROWS
            column = thread % COLUMN_THREADS

            def product(i: Var, j: Var, k: Var) -> Stmt:
                term = Load(query, (i, k)) * Load(key, (j, k))
                return loops.store(products, (i, j), Load(products, (i, j)) + term)

            def part(to: Buffer, i: Var, source: Buffer, at: Expr, first: Expr) -> Stmt:
                return loops.vector(
                    APART, lambda k: loops.store(to, (i, k), Load(source, (at, first + k)))
                )

            def chunk(number: Var) -> Stmt:
                begin = number * APART
                return flat_seq(
                    [
                        loops.unrolled(
                            "row", OWN_ROWS, lambda i: part(query, i, queries, row + i, begin)
                        ),
                        loops.unrolled(
                            "key",
                            own,
                            lambda j: part(key, j, keys, column + j * COLUMN_THREADS, begin),
                        ),
                        loops.unrolled(
                            "term", APART, lambda k: each(lambda i, j: product(i, j, k))
                        ),
                    ]
                )

            def score(i: Var, j: Var) -> Stmt:
                own_column = column + j * COLUMN_THREADS
                value = self.score(row + i, first + own_column, Load(products, (i, j)))
                return loops.store(scores, (row + i, own_column), value)

            return loops.allocated(
                [products, query, key],
                each(lambda i, j: loops.store(products, (i, j), ZERO)),
                loops.loop("chunk", self._depth // APART, chunk),
                each(score),
            )

        return self._threads(of_thread)

    def _compared(self) -> Stmt:
        """The largest score of each thread's part of a query; what is no number is left out."""
        scores, parts = self._shared["scores"], self._shared["parts"]
        top = Buffer("top", (1,), FLOAT, "local")

        def of_thread(thread: Var) -> Stmt:
            row, part = self._query(thread)

            def score(number: Var) -> Stmt:
                found = te.number_or(Load(scores, (row, number * ROW_THREADS + part)), LEAST)
                return loops.store(top, (0,), maximum(loops.first(top), found))

            return loops.allocated(
                [top],
                loops.store(top, (0,), LEAST),
                loops.unrolled("number", self.tiles.columns // ROW_THREADS, score),
                loops.store(parts, (row, part), loops.first(top)),
            )

        return self._threads(of_thread)

    def _weighed(self) -> Stmt:
        """Scores become weights; others scale the sums."""
        scores, parts, scales = (self._shared[name] for name in ("scores", "parts", "scales"))
        state, own = (self._own["tops"], self._own["totals"]), self.running
        weight = Buffer("weight", (1,), FLOAT, "local")

        def of_thread(thread: Var) -> Stmt:
            row, part = query = self._query(thread)

            def weighed(number: Var) -> Stmt:
                at = (row, number * ROW_THREADS + part)
                new = power(Load(scores, at) - loops.first(own.base))
                total = loops.first(own.total) + loops.first(weight)
                return flat_seq(
                    [
                        loops.store(weight, (0,), new),
                        loops.store(scores, at, loops.first(weight)),
                        loops.store(own.total, (0,), total),
                    ]
                )

            weights = loops.unrolled("number", self.tiles.columns // ROW_THREADS, weighed)
            scaled = loops.store(scales, query, loops.first(own.scale))
            body = self.weighed(query, parts, state, weights, scaled)
            return loops.allocated([*own.buffers, weight], body)

        return self._threads(of_thread)

    def _added(self) -> Stmt:
        """The values by their weights."""
        sums = self._own["sums"]
        scores, scales, values = self._shared["scores"], self._shared["scales"], self._values
        weight = Buffer("weight", (OWN_ROWS, APART), FLOAT, "local")
        value = Buffer("value", (self._vectors, self._vector), FLOAT, "local")

        def of_thread(thread: Var) -> Stmt:
            first = thread // COLUMN_THREADS * OWN_ROWS

            def scaled(at: tuple[Expr, Expr]) -> Stmt:
                return loops.store(sums, at, Load(sums, at) * Load(scales, (at[0], IntImm(0))))

            def weights(i: Var, begin: Expr) -> Stmt:
                return loops.vector(
                    APART,
                    lambda k: loops.store(weight, (i, k), Load(scores, (first + i, begin + k))),
                )

            def elements(vector: Var, key: Expr) -> Stmt:
                def element(x: Var) -> Stmt:
                    source = Load(values, (key, self._column(thread, vector, x)))
                    return loops.store(value, (vector, x), source)

                return loops.vector(self._vector, element)

            def chunk(number: Var) -> Stmt:
                begin = number * APART

                def key(k: Var) -> Stmt:
                    def added(i: Var, vector: Var, x: Var) -> Stmt:
                        at = (first + i, self._column(thread, vector, x))
                        product = Load(weight, (i, k)) * Load(value, (vector, x))
                        return loops.store(sums, at, Load(sums, at) + product)

                    return flat_seq(
                        [
                            loops.unrolled(
                                "vector", self._vectors, lambda v: elements(v, begin + k)
                            ),
                            self._each_own(added),
                        ]
                    )

                return flat_seq(
                    [
                        loops.unrolled("row", OWN_ROWS, lambda i: weights(i, begin)),
                        loops.unrolled("key", APART, key),
                    ]
                )

            return loops.allocated(
                [weight, value],
                *[
                    self._each_sum(thread, scaled),
                    loops.loop("chunk", self.tiles.columns // APART, chunk),
                ],
            )

        return self._threads(of_thread)

    def _summed(self) -> Stmt:
        """The sums of weights where all threads see them."""
        parts, totals = self._shared["parts"], self._own["totals"]

        def of_thread(thread: Var) -> Stmt:
            query = self._query(thread)
            return loops.store(parts, query, Load(totals, query))

        return self._threads(of_thread)

    def _stored(self) -> Stmt:
        """The result and what follows it."""
        sums, parts = self._own["sums"], self._shared["parts"]

        def of_thread(thread: Var) -> Stmt:
            def stored(at: tuple[Expr, Expr]) -> Stmt:
                total = lanes(parts, at[0], operator.add)
                return self.stored(at, self.mean(Load(sums, at), total), self._width)

            return self._each_sum(thread, stored)

        return self._threads(of_thread)
