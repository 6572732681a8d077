"""Attention of few queries, as of a decoder's step: a block of threads for each query.

Each thread has the scores of every so many keys, then all threads their weights, which stay in
shared memory; at last each has some elements of the result, and one of several groups of threads
every so many values. Groups are summed through shared memory.
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
    lanes,
    relative_to,
)
from daedal.compiler.ops.gpu.attention_tiles import PARTS, AttentionTiles, element_threads
from daedal.compiler.ops.onnx.over_axes import power
from daedal.compiler.tir.expr import (
    Buffer,
    Expr,
    IntImm,
    Load,
    Var,
    maximum,
    minimum,
)
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.stmt import If, PrimFunc, Stmt

__all__ = ["SingleAttention"]

CHUNKS = (4, 2)
"""Neighbouring elements of a key that a thread may load at a time."""

Join = Callable[[Expr, Expr], Expr]


class SingleAttention(AttentionLoops):
    """Writes the loops of one kernel."""

    def __init__(
        self, kernel: Kernel, form: AttentionForm, tiles: AttentionTiles, has_vectors: bool
    ) -> None:
        super().__init__(kernel, form, tiles)
        self._count = tiles.threads
        self._steps = -(-form.columns // self._count)
        self._along = element_threads(form, self._count)
        self._groups = self._count // self._along
        self._own = -(-form.width // self._along)
        self._chunk = self.keys(IntImm(0)).chunk(CHUNKS) if has_vectors else 0
        shared = {
            "query": (form.depth,),
            "scores": (self._steps * self._count,),
            "parts": (self._count,),
            "tops": (1, PARTS),
            "totals": (1, PARTS),
            "sums": (self._groups, self._own * self._along),
        }
        self._shared = {
            name: Buffer(name, shape, FLOAT, "shared") for name, shape in shared.items()
        }

    def function(self) -> PrimFunc:
        """The kernel."""
        before = [
            self._queried(),
            self._scored(),
            self._joined("tops", LEAST, maximum),
            self._weighed(),
            self._joined("totals", ZERO, operator.add),
            self._added(),
            self._stored(),
        ]
        return self.block_kernel([*self._shared.values()], before)

    def _threads(self, body: Callable[[Var], Stmt]) -> Stmt:
        return loops.loop("thread", self._count, body, "thread.x")

    def _each(self, name: str, count: int, each: int, body: Callable[[Expr], Stmt]) -> Stmt:
        """A statement for every `each`-th of `count` numbers, beginning with that of the thread."""

        def of_thread(thread: Var) -> Stmt:
            def some(part: Var) -> Stmt:
                number = part * each + thread
                inner = body(number)
                return inner if count % each == 0 else If(number < count, inner)

            return loops.loop(name, -(-count // each), some)

        return self._threads(of_thread)

    def _queried(self) -> Stmt:
        query = self._shared["query"]
        rows = self.queries

        def element(number: Expr) -> Stmt:
            value = rows.load(rows.first, number).astype(FLOAT)
            return loops.store(query, (number,), value)

        return self._each("part", self.form.depth, self._count, element)

    def _scored(self) -> Stmt:
        """All scores, and the largest one of each thread; what is no number is left out."""
        form = self.form
        query, scores, parts = (self._shared[name] for name in ("query", "scores", "parts"))
        product, top = (Buffer(name, (1,), FLOAT, "local") for name in ("product", "top"))
        each = self._chunk or 1
        key = Buffer("key", (each,), FLOAT, "local")
        keys = self.keys(IntImm(0))

        def of_thread(thread: Var) -> Stmt:
            def of_key(part: Var) -> Stmt:
                column = part * self._count + thread
                row = column
                if form.columns % self._count:
                    row = minimum(column, form.columns - 1)

                def chunk(number: Var) -> Stmt:
                    def load(k: Expr) -> Stmt:
                        value = keys.load(row, number * each + k).astype(FLOAT)
                        return loops.store(key, (k,), value)

                    def term(k: Var) -> Stmt:
                        added = Load(query, (number * each + k,)) * Load(key, (k,))
                        return loops.store(product, (0,), loops.first(product) + added)

                    read = loops.vector(each, load) if each > 1 else load(IntImm(0))
                    return flat_seq([read, loops.unrolled("term", each, term)])

                score = self.score(IntImm(0), column, loops.first(product))
                found = te.number_or(Load(scores, (column,)), LEAST)
                return flat_seq(
                    [
                        loops.store(product, (0,), ZERO),
                        loops.loop("chunk", form.depth // each, chunk),
                        loops.store(scores, (column,), score),
                        loops.store(top, (0,), maximum(loops.first(top), found)),
                    ]
                )

            return loops.allocated(
                [product, top, key],
                loops.store(top, (0,), LEAST),
                loops.loop("part", self._steps, of_key),
                loops.store(parts, (thread,), loops.first(top)),
            )

        return self._threads(of_thread)

    def _joined(self, name: str, start: Expr, join: Join) -> Stmt:
        """The numbers of all threads as a few, by as many of these."""
        parts, few = self._shared["parts"], self._shared[name]
        held = Buffer("held", (1,), FLOAT, "local")

        def of_thread(thread: Var) -> Stmt:
            def part(number: Var) -> Stmt:
                other = Load(parts, (number * PARTS + thread,))
                return loops.store(held, (0,), join(loops.first(held), other))

            found = loops.allocated(
                [held],
                loops.store(held, (0,), start),
                loops.unrolled("number", self._count // PARTS, part),
                loops.store(few, (0, thread), loops.first(held)),
            )
            return If(thread < PARTS, found)

        return self._threads(of_thread)

    def _all(self, name: str, join: Join) -> Expr:
        """The joined numbers of all threads."""
        return lanes(self._shared[name], IntImm(0), join)

    def _weighed(self) -> Stmt:
        """Scores become weights, relative to the largest one."""
        scores, parts = self._shared["scores"], self._shared["parts"]
        base, total, weight = (Buffer(x, (1,), FLOAT, "local") for x in ("base", "total", "weight"))

        def of_thread(thread: Var) -> Stmt:
            def of_key(part: Var) -> Stmt:
                at = (part * self._count + thread,)
                return flat_seq(
                    [
                        loops.store(weight, (0,), power(Load(scores, at) - loops.first(base))),
                        loops.store(scores, at, loops.first(weight)),
                        loops.store(total, (0,), loops.first(total) + loops.first(weight)),
                    ]
                )

            top = loops.first(base)
            return loops.allocated(
                [base, total, weight],
                loops.store(base, (0,), self._all("tops", maximum)),
                loops.store(base, (0,), relative_to(top)),
                loops.store(total, (0,), ZERO),
                loops.loop("part", self._steps, of_key),
                loops.store(parts, (thread,), loops.first(total)),
            )

        return self._threads(of_thread)

    def _added(self) -> Stmt:
        """The values of each group of threads by their weights."""
        form = self.form
        scores, sums = self._shared["scores"], self._shared["sums"]
        held = Buffer("held", (self._own,), FLOAT, "local")
        values = self.values(IntImm(0))

        def of_thread(thread: Var) -> Stmt:
            group, first = thread // self._along, thread % self._along

            def each(body: Callable[[Var], Stmt]) -> Stmt:
                return loops.unrolled("element", self._own, body)

            def of_key(part: Var) -> Stmt:
                key = part * self._groups + group

                def added(x: Var) -> Stmt:
                    column = x * self._along + first
                    if form.width % self._along:
                        column = minimum(column, form.width - 1)
                    value = values.load(key, column).astype(FLOAT)
                    product = Load(scores, (key,)) * value
                    return loops.store(held, (x,), Load(held, (x,)) + product)

                inner = each(added)
                ends = form.columns % self._groups != 0
                return If(key < form.columns, inner) if ends else inner

            return loops.allocated(
                [held],
                each(lambda x: loops.store(held, (x,), ZERO)),
                loops.loop("part", -(-form.columns // self._groups), of_key),
                each(
                    lambda x: loops.store(sums, (group, x * self._along + first), Load(held, (x,)))
                ),
            )

        return self._threads(of_thread)

    def _stored(self) -> Stmt:
        """The result and what follows it."""
        sums, width = self._shared["sums"], self.form.width
        held = Buffer("held", (1,), FLOAT, "local")

        def element(number: Expr) -> Stmt:
            def group(other: Var) -> Stmt:
                added = Load(sums, (other, number))
                return loops.store(held, (0,), loops.first(held) + added)

            total = self._all("totals", operator.add)
            mean = self.mean(loops.first(held), total)
            return loops.allocated(
                [held],
                loops.store(held, (0,), ZERO),
                loops.loop("group", self._groups, group),
                self.stored((IntImm(0), number), mean, width),
            )

        return self._each("part", width, self._count, element)
