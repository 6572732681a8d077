"""TopK: the largest or smallest elements along an axis, in order.

Where elements are few, each one's rank is how many precede it. Else the first is found, then the
first behind it, and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import converted
from daedal.compiler.ops.onnx.operation import Operand, Operation
from daedal.compiler.ops.onnx.over_axes import count_of, normalized_axis
from daedal.compiler.ops.onnx.scans import MAX_PAIRS, check_pairs
from daedal.compiler.tir.dtype import is_float, limits
from daedal.compiler.tir.expr import Expr

__all__ = ["topk"]

MAX_ROUNDS = 64
"""Most elements that are found one after the other."""


@dataclass(frozen=True)
class _Order:
    """The elements of `x` along `axis`, the largest or smallest first, equal ones as they are."""

    operation: Operation
    x: Operand
    axis: int
    largest: bool

    @property
    def extent(self) -> int:
        return self.x.shape[self.axis]

    def shape(self, count: int) -> tuple[int, ...]:
        """That of `count` elements along the axis."""
        return (*self.x.shape[: self.axis], count, *self.x.shape[self.axis + 1 :])

    def at(self, i: tuple[Expr, ...], index: Expr | int) -> tuple[Expr, ...]:
        """`i` with another index along the axis."""
        put = i[self.axis] * 0 + index if isinstance(index, int) else index
        return (*i[: self.axis], put, *i[self.axis + 1 :])

    def precedes(self, one: Expr, other: Expr) -> Expr:
        """Whether a value is before another one, wherever they are."""
        return one > other if self.largest else one < other

    def by_rank(self, count: int) -> te.Tensor:
        """Where the first `count` elements are, int32, by the rank of all."""
        j, m = te.reduce_axis(self.extent, "j"), te.reduce_axis(self.extent, "m")
        x, axis = self.x, self.axis

        def ahead(*i: Expr) -> Expr:
            one, other = x[self.at(i, j)], x[i]
            tie = te.eq(one, other) & (j < i[axis])
            return te.sum(te.select(self.precedes(one, other) | tie, 1, 0), j)

        rank = self.operation.compute(x.shape, ahead, "rank")

        def place(*i: Expr) -> Expr:
            return te.max(te.select(te.eq(rank[self.at(i, m)], i[axis]), m, 0), m)

        return self.operation.compute(self.shape(count), place, "place")

    def by_rounds(self, count: int) -> te.Tensor:
        """Where the first `count` elements are, int32, each from the one before it."""
        found: list[te.Tensor] = []
        value: te.Tensor | None = None
        for _ in range(count):
            behind = self._behind(value, found[-1] if found else None)
            value = self._value(behind)
            found.append(self._place(behind, value))
        axis = self.axis

        def chosen(*i: Expr) -> Expr:
            result = found[-1][self.at(i, 0)]
            for number in reversed(range(count - 1)):
                result = te.select(te.eq(i[axis], number), found[number][self.at(i, 0)], result)
            return result

        return self.operation.compute(self.shape(count), chosen, "place")

    def _behind(
        self, value: te.Tensor | None, place: te.Tensor | None
    ) -> Callable[[tuple[Expr, ...], Expr], Expr | None]:
        """Whether element k is behind the one last found; None where none was."""

        def behind(i: tuple[Expr, ...], k: Expr) -> Expr | None:
            if value is None or place is None:
                return None
            last, element = value[i], self.x[self.at(i, k)]
            return self.precedes(last, element) | (te.eq(last, element) & (k > place[i]))

        return behind

    def _value(self, behind: Callable[[tuple[Expr, ...], Expr], Expr | None]) -> te.Tensor:
        """The first value of those that are behind."""
        k, dtype = te.reduce_axis(self.extent, "k"), self.x.dtype
        if is_float(dtype):
            last: int | float = float("-inf") if self.largest else float("inf")
        else:
            last = limits(dtype)[0 if self.largest else 1]

        def formula(*i: Expr) -> Expr:
            element, open_ = self.x[self.at(i, k)], behind(i, k)
            term = element if open_ is None else te.select(open_, element, last)
            return te.max(term, k) if self.largest else te.min(term, k)

        return self.operation.compute(self.shape(1), formula, "value")

    def _place(
        self, behind: Callable[[tuple[Expr, ...], Expr], Expr | None], value: te.Tensor
    ) -> te.Tensor:
        """Where the first value of those that are behind is first."""
        k = te.reduce_axis(self.extent, "k")

        def formula(*i: Expr) -> Expr:
            found, open_ = te.eq(self.x[self.at(i, k)], value[i]), behind(i, k)
            here = found if open_ is None else found & open_
            return te.min(te.select(here, k, self.extent - 1), k)

        return self.operation.compute(self.shape(1), formula, "first")


def topk(operation: Operation) -> Sequence[te.Tensor]:
    """TopK-1, -10, -11, -24. The order of NaN is not defined."""
    node, x = operation.node, operation.operand(0)
    axis = normalized_axis(operation, node.integer("axis", -1), x.rank)
    order = _Order(operation, x, axis, bool(node.integer("largest", 1)))
    # sorted = 0 leaves the order open.
    node.integer("sorted", 1)
    given = (node.integer("k", 0),) if operation.opset < 10 else operation.integers(1)
    if given is None or len(given) != 1 or not 0 < given[0] <= order.extent:
        raise node.damaged(f"k must be from 1 to {order.extent}")
    count = given[0]
    many = count_of(x, range(x.rank)) * order.extent > MAX_PAIRS
    if many and count <= MAX_ROUNDS:
        place = order.by_rounds(count)
    else:
        check_pairs(operation, x, order.extent)
        place = order.by_rank(count)
    values = operation.compute(order.shape(count), lambda *i: x[order.at(i, place[i])])
    return [values, converted(operation, place, "int64")]
