"""`attention_form`: what a kernel of attention reads for each of its scores and results."""

from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.tiles import factors
from daedal.compiler.tir.expr import Axis, Expr, IntImm, Load, Reduce, Var
from daedal.compiler.tir.visit import free_vars, loads, rewrite, substitute

__all__ = ["AttentionForm", "attention_form"]

HALVES = ("float16", "bfloat16")
"""What tensor cores multiply."""


@dataclass(frozen=True)
class AttentionForm:
    """Means of values by the softmax of scores, which are products of queries and keys.

    Attributes
    ----------
    batch : axes of the mean other than those of queries and of elements.
    query, key : as the products read them.
    products : over its axes (..., query, key), the sums of products.
    scores : over the same, what the softmax reads of them.
    between : the products and what is computed of them for the scores, element by element.
    value : as the mean reads it.
    mean : over its axes, the sum of weights times values.
    result : what is stored of it.
    row, element : axes of the mean.
    outer : the axis of the mean for each axis of scores but the last two.
    half : dtype of 16 bits of all operands, weights too; empty if they have not one.
    """

    batch: tuple[Axis, ...]
    query: Load
    key: Load
    products: te.Tensor
    scores: te.Tensor
    between: tuple[te.Tensor, ...]
    value: Load
    mean: te.Tensor
    result: te.Tensor
    row: Axis
    element: Axis
    outer: tuple[Axis | None, ...]
    half: str

    @property
    def is_half(self) -> bool:
        """Whether tensor cores can multiply all operands."""
        return bool(self.half)

    @property
    def rows(self) -> int:
        """Queries."""
        return self.row.extent

    @property
    def columns(self) -> int:
        """Keys."""
        return self.products.shape[-1]

    @property
    def depth(self) -> int:
        """Elements of a query."""
        return _axis(self.products).extent

    @property
    def width(self) -> int:
        """Elements of a mean."""
        return self.element.extent

    def query_at(self, batch: Sequence[Expr], row: Expr, element: Expr) -> Load:
        """An element of a query; `batch` are the indices along the axes of the same name."""
        return self._factor_at(self.query, batch, row, IntImm(0), element)

    def key_at(self, batch: Sequence[Expr], row: Expr, element: Expr) -> Load:
        """An element of a key."""
        return self._factor_at(self.key, batch, IntImm(0), row, element)

    def score_at(self, batch: Sequence[Expr], row: Expr, column: Expr, product: Expr) -> Expr:
        """A score with the product of query `row` and key `column`."""
        if self.scores is self.products:
            return product

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Load) or node.buffer not in self.between:
                return None
            return product if node.buffer is self.products else formula(node.buffer)

        def formula(tensor: te.Tensor) -> Expr:
            assert tensor.value is not None
            values: dict[Var, Expr] = dict(zip(tensor.axes, indices, strict=True))
            return substitute(rewrite(tensor.value, visit), values)

        indices = self._scored_at(batch, row, column)
        return formula(self.scores)

    def value_at(self, batch: Sequence[Expr], row: Expr, element: Expr) -> Load:
        """An element of a value."""
        values = {**self._mean_at(batch, IntImm(0), element), _axis(self.mean): row}
        return _moved(self.value, values)

    def result_at(
        self, batch: Sequence[Expr], row: Expr, element: Expr, mean: Expr
    ) -> tuple[tuple[Expr, ...], Expr]:
        """Where an element is stored, and what."""
        value = self.result.value
        assert value is not None
        (read,) = {load.indices for load in loads(value) if load.buffer is self.mean}
        places = self._mean_at(batch, row, element)
        own: dict[Var, Expr] = {
            index: places[axis]
            for index, axis in zip(read, self.mean.axes, strict=True)
            if isinstance(index, Axis)
        }

        def visit(node: Expr) -> Expr | None:
            return mean if isinstance(node, Load) and node.buffer is self.mean else None

        indices = tuple(own.get(axis, IntImm(0)) for axis in self.result.axes)
        return indices, substitute(rewrite(value, visit), own)

    def _factor_at(
        self, factor: Load, batch: Sequence[Expr], row: Expr, column: Expr, element: Expr
    ) -> Load:
        indices = self._scored_at(batch, row, column)
        values: dict[Var, Expr] = dict(zip(self.products.axes, indices, strict=True))
        return _moved(factor, {**values, _axis(self.products): element})

    def _scored_at(self, batch: Sequence[Expr], row: Expr, column: Expr) -> list[Expr]:
        """The indices of a score."""
        known: dict[Axis | None, Expr] = dict(zip(self.batch, batch, strict=True))
        return [*(known.get(axis, IntImm(0)) for axis in self.outer), row, column]

    def _mean_at(self, batch: Sequence[Expr], row: Expr, element: Expr) -> dict[Var, Expr]:
        known: dict[Var, Expr] = dict(zip(self.batch, batch, strict=True))
        return {**known, self.row: row, self.element: element}


def attention_form(kernel: Kernel) -> AttentionForm | None:
    """What a kernel with `Kernel.scores` reads; None for another."""
    mean = kernel.reduction
    if kernel.scores is None or mean is None:
        return None
    products, weights = kernel.stages[0], kernel.stages[-1]
    pair, sums = _factors(mean), _factors(products)
    if pair is None or sums is None:
        return None
    own = [load for load in pair if load.buffer is weights]
    others = [load for load in pair if load.buffer is not weights]
    if len(own) != 1 or len(others) != 1 or others[0].buffer in kernel.stages:
        return None
    (weight,), (value,) = own, others
    *outer, row, last = weight.indices
    found = [axis for axis in mean.axes if axis in _used(value) and axis not in _used(weight)]
    if row == IntImm(0):  # of a single one
        row = Axis("row", extent=1, kind="spatial")
    if last is not _axis(mean) or not isinstance(row, Axis) or row.kind != "spatial":
        return None
    if len(found) != 1 or row in _used(value):
        return None
    if any(not isinstance(index, Axis) and index != IntImm(0) for index in outer):
        return None
    dtypes = {item.dtype for item in (*sums, *pair)}
    if not dtypes <= {"float32", *HALVES} or {products.dtype, mean.dtype} != {"float32"}:
        return None
    *_, own_row, own_column = products.axes
    queries = [
        load
        for load in sums
        if own_column not in _used(load) and (own_row in _used(load) or own_row.extent == 1)
    ]
    keys = [load for load in sums if own_column in _used(load) and own_row not in _used(load)]
    if len(queries) != 1 or len(keys) != 1:
        return None
    if any(load.pad_value is not None for load in (*sums, *pair)):
        return None
    if kernel.scores.shape != products.shape or weights.shape != products.shape:
        return None
    batch = tuple(axis for axis in mean.axes if axis is not row and axis is not found[0])
    return AttentionForm(
        batch=batch,
        query=queries[0],
        key=keys[0],
        products=products,
        scores=kernel.scores,
        between=kernel.stages[: kernel.stages.index(kernel.scores)] or (products,),
        value=value,
        mean=mean,
        result=kernel.result,
        row=row,
        element=found[0],
        outer=tuple(index if isinstance(index, Axis) else None for index in outer),
        half=next((item for item in HALVES if dtypes == {item}), ""),
    )


def _factors(tensor: te.Tensor) -> tuple[Load, Load] | None:
    """The elements whose products a tensor sums over one axis."""
    formula = tensor.value
    if not isinstance(formula, Reduce) or formula.op != "sum" or len(formula.axes) != 1:
        return None
    return factors(formula.value)


def _axis(tensor: te.Tensor) -> Axis:
    """That a tensor sums over."""
    formula = tensor.value
    assert isinstance(formula, Reduce)
    return formula.axes[0]


def _used(load: Load) -> set[Var]:
    return {var for index in load.indices for var in free_vars(index)}


def _moved(load: Load, values: dict[Var, Expr]) -> Load:
    return Load(load.buffer, tuple(substitute(index, values) for index in load.indices))
