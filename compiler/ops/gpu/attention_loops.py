"""`AttentionLoops`: what kernels of attention have in common."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from daedal.compiler.codegen.gpu.kernel import RESIDENT
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu import loops
from daedal.compiler.ops.gpu.attention_form import AttentionForm
from daedal.compiler.ops.gpu.attention_tiles import AttentionTiles
from daedal.compiler.ops.onnx.over_axes import power
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import (
    Buffer,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Select,
    Var,
    eq,
    maximum,
    minimum,
)
from daedal.compiler.tir.linear import Linear, element_number
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.stmt import For, If, PrimFunc, Stmt

__all__ = ["FLOAT", "LEAST", "ZERO", "AttentionLoops", "Rows", "lanes", "relative_to"]

FLOAT = "float32"
"""Of scores, and of all sums."""
ZERO, LEAST = FloatImm(0.0, FLOAT), FloatImm(-math.inf, FLOAT)


@dataclass(frozen=True)
class Rows:
    """Some rows of an operand.

    Attributes
    ----------
    first : of them.
    rows, columns : of the operand; zeros are beyond these.
    load : an element, by its row and column.
    """

    first: Expr
    rows: int
    columns: int
    load: Callable[[Expr, Expr], Load]

    def element(self, row: Expr, column: Expr, count: int, width: int) -> Expr:
        """An element of the next `count` rows, counted from `first`, of `width` elements each."""
        inside = [self.first + row < self.rows] if self.rows % count else []
        inside += [column < self.columns] if self.columns < width else []
        own = self.first + row
        own = minimum(own, self.rows - 1) if self.rows % count else own
        value: Expr = self.load(
            own, minimum(column, self.columns - 1) if self.columns < width else column
        )
        condition = all_of(inside)
        return value if condition is None else Select(condition, value, FloatImm(0.0, value.dtype))

    @cached_property
    def is_turned(self) -> bool:
        """Whether columns lie in memory one after the other, and not rows."""
        row, column = Var("row"), Var("column")
        number = self._number(row, column)
        return number.coefficient(row) == 1 and number.coefficient(column) != 1

    def chunk(self, counts: Sequence[int]) -> int:
        """The first of `counts` so that rows are so many neighbouring elements each, from multiples
        of it on; 0 where there is none."""
        row, column = Var("row"), Var("column")
        number = self._number(row, column)
        others = [factor for term, factor in number.terms if term is not column]
        if number.coefficient(column) != 1:
            return 0
        fits = (n for n in counts if not any(x % n for x in (*others, number.constant)))
        return next((n for n in fits if self.columns % n == 0), 0)

    def _number(self, row: Expr, column: Expr) -> Linear:
        load = self.load(row, column)
        return element_number(load.indices, load.buffer.shape)


RUNNING = ("top", "base", "scale", "total")


@dataclass(frozen=True)
class Running:
    """What a thread has of a query while it makes weights of a step's scores: one number each.

    Attributes
    ----------
    top : the largest score so far.
    base : what weights are relative to.
    scale : of the sums so far.
    total : of the step's weights.
    """

    top: Buffer
    base: Buffer
    scale: Buffer
    total: Buffer

    @property
    def buffers(self) -> list[Buffer]:
        """All."""
        return [self.top, self.base, self.scale, self.total]


def relative_to(top: Expr) -> Expr:
    """What scores are relative to. Where all were minus infinity, so are the differences from any
    number."""
    return Select(eq(top, LEAST), ZERO, top)


def lanes(parts: Buffer, row: Expr, join: Callable[[Expr, Expr], Expr]) -> Expr:
    """The numbers that the threads of a query have, as one."""
    found: list[Expr] = [Load(parts, (row, IntImm(number))) for number in range(parts.shape[1])]
    return reduce(join, found)


class AttentionLoops:
    """Loops of one kernel of attention.

    Attributes
    ----------
    output : what it writes.
    batch : the indices of a block along the axes of the same name.
    first_row : the first query of a block.
    running : what `weighed` has of a query.
    """

    def __init__(self, kernel: Kernel, form: AttentionForm, tiles: AttentionTiles) -> None:
        self._kernel, self.form, self.tiles = kernel, form, tiles
        self.running = Running(*(Buffer(name, (1,), FLOAT, "local") for name in RUNNING))
        self.output = Buffer(kernel.result.name, kernel.result.shape, kernel.result.dtype)
        self._block = Var("block")
        blocks = -(-form.rows // tiles.rows)
        self.batch = loops.digits(self._block // blocks, [axis.extent for axis in form.batch])
        self.first_row = self._block % blocks * tiles.rows

    def kernel(
        self,
        buffers: Sequence[Buffer],
        before: Sequence[Stmt],
        step: Callable[[Expr], Stmt],
        after: Sequence[Stmt],
    ) -> PrimFunc:
        """The function with the parameters of a kernel.

        Parameters
        ----------
        buffers : of a block.
        before, after : the keys.
        step : what is done with the keys from a number on.
        """
        tiles = self.tiles
        steps = -(-self.form.columns // tiles.columns)
        every = loops.loop("step", steps, lambda number: step(number * tiles.columns))
        return self.block_kernel(buffers, [*before, every, *after])

    def block_kernel(self, buffers: Sequence[Buffer], body_of_block: Sequence[Stmt]) -> PrimFunc:
        """The function with the parameters of a kernel, and what a block does."""
        form, tiles = self.form, self.tiles
        count = -(-form.rows // tiles.rows) * math.prod(axis.extent for axis in form.batch)
        body = loops.allocated(buffers, *body_of_block)
        notes = {RESIDENT: tiles.resident(form)}
        params = (*self._kernel.inputs, self.output)
        return PrimFunc("kernel", params, For(self._block, count, body, "block.x", notes))

    @property
    def queries(self) -> Rows:
        """Of a block."""
        form = self.form

        def load(row: Expr, column: Expr) -> Load:
            return form.query_at(self.batch, row, column)

        return Rows(self.first_row, form.rows, form.depth, load)

    def keys(self, first: Expr) -> Rows:
        """From `first` on."""
        form = self.form

        def load(row: Expr, column: Expr) -> Load:
            return form.key_at(self.batch, row, column)

        return Rows(first, form.columns, form.depth, load)

    def values(self, first: Expr) -> Rows:
        """From `first` on."""
        form = self.form

        def load(row: Expr, column: Expr) -> Load:
            return form.value_at(self.batch, row, column)

        return Rows(first, form.columns, form.width, load)

    def score(self, row: Expr, column: Expr, product: Expr) -> Expr:
        """The score of a query of the block and a key; minus infinity if there is no such key."""
        form, tiles = self.form, self.tiles
        query = self.first_row + row
        if form.rows % tiles.rows:
            query = minimum(query, form.rows - 1)
        ends = form.columns % tiles.columns != 0
        key = minimum(column, form.columns - 1) if ends else column
        value = form.score_at(self.batch, query, key, product)
        if value.dtype != product.dtype:
            value = value.astype(product.dtype)
        if ends:
            value = Select(column < form.columns, value, FloatImm(-math.inf, value.dtype))
        return value

    def copied(
        self, to: Buffer, width: int, rows: Rows, chunks: Sequence[int], thread: Expr
    ) -> Stmt:
        """What a thread copies of rows of an operand to shared memory, `width` elements of each:
        some neighbouring ones at a time, the first of `chunks` that fits. Neighbouring threads copy
        what is next to each other."""
        count, threads = to.shape[0], self.tiles.threads
        each = rows.chunk(chunks) or 1
        total, along = count * width // each, width // each

        def some(part: Var) -> Stmt:
            at = part * threads + thread
            i, j = (at % count, at // count) if rows.is_turned else (at // along, at % along)

            def element(number: Expr) -> Stmt:
                column = j * each + number
                value = rows.element(i, column, count, width)
                return loops.store(to, (i, column), value.astype(to.dtype))

            chunk = element(IntImm(0)) if each == 1 else loops.vector(each, element)
            return chunk if total % threads == 0 else If(at < total, chunk)

        return loops.loop("part", -(-total // threads), some)

    def weighed(
        self,
        query: tuple[Expr, Expr],
        parts: Buffer,
        state: tuple[Buffer, Buffer],
        weights: Stmt,
        scaled: Stmt,
    ) -> Stmt:
        """The scores of a step become weights, relative to the largest one so far, and sums are
        scaled. `running` must be allocated.

        Parameters
        ----------
        query : its row, and which of its threads this is.
        parts : the largest scores of its threads.
        state : the largest score so far, and the sum of weights.
        weights : makes them, and adds them to the running total.
        scaled : does as much with other sums.
        """
        tops, totals = state
        own, first = self.running, loops.first
        highest = maximum(Load(tops, query), lanes(parts, query[0], maximum))
        return flat_seq(
            [
                loops.store(own.top, (0,), highest),
                loops.store(own.base, (0,), relative_to(first(own.top))),
                loops.store(own.scale, (0,), power(Load(tops, query) - first(own.base))),
                loops.store(own.total, (0,), ZERO),
                weights,
                loops.store(
                    totals, query, Load(totals, query) * first(own.scale) + first(own.total)
                ),
                loops.store(tops, query, first(own.top)),
                scaled,
            ]
        )

    def mean(self, weighted: Expr, total: Expr) -> Expr:
        """A weighted sum over the sum of all weights."""
        if self._kernel.is_guarded:
            total = Select(eq(total, 0.0), FloatImm(1.0, total.dtype), total)
        return weighted / total

    def stored(self, at: tuple[Expr, Expr], mean: Expr, width: int) -> Stmt:
        """Store a mean of a query of the block, which has `width` elements here."""
        row, column = at
        form = self.form
        query = self.first_row + row
        indices, value = form.result_at(self.batch, query, column, mean)
        inside = [query < form.rows] if form.rows % self.tiles.rows else []
        inside += [column < form.width] if form.width < width else []
        condition = all_of(inside)
        store = loops.store(self.output, indices, value)
        return store if condition is None else If(condition, store)
