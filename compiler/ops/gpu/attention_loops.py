"""`AttentionLoops`: what kernels of attention have in common."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from daedal.compiler.codegen.gpu.kernel import RESIDENT
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu import loops
from daedal.compiler.ops.gpu.attention_form import AttentionForm
from daedal.compiler.ops.gpu.attention_tiles import AttentionTiles
from daedal.compiler.tir.expr import (
    Buffer,
    Expr,
    FloatImm,
    Load,
    Select,
    Var,
    all_of,
    eq,
    minimum,
)
from daedal.compiler.tir.linear import Linear, element_number
from daedal.compiler.tir.stmt import For, If, PrimFunc, Stmt

__all__ = ["AttentionLoops", "Rows"]


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


class AttentionLoops:
    """Loops of one kernel of attention.

    Attributes
    ----------
    output : what it writes.
    batch : the indices of a block along the axes of the same name.
    first_row : the first query of a block.
    """

    def __init__(self, kernel: Kernel, form: AttentionForm, tiles: AttentionTiles) -> None:
        self._kernel, self.form, self.tiles = kernel, form, tiles
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
        notes = {RESIDENT: tiles.resident}
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
