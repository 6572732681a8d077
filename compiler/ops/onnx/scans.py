"""Sums and products of all elements up to each one."""

import math
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import converted, wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.over_axes import Reduction, count_of, normalized_axis
from daedal.compiler.tir.expr import Expr

__all__ = ["MAX_PAIRS", "check_pairs", "scan"]

MAX_PAIRS = 1 << 24
"""Most pairs of elements that one reduction of all elements may combine or compare."""

MAX_DIRECT = 64
"""Longer axes are scanned in blocks."""


def check_pairs(operation: Operation, x: Operand, partners: int) -> None:
    """Raise UnsupportedError where `partners` for each element of `x` are too many."""
    pairs = count_of(x, range(x.rank)) * partners
    if pairs > MAX_PAIRS:
        raise operation.node.refuse(
            f"the axis must make at most {MAX_PAIRS} pairs of elements, not {pairs}",
            "it is interpreted",
        )


@dataclass(frozen=True)
class _Scan:
    """A scan along an axis; positions count from where it starts."""

    operation: Operation
    x: Operand
    axis: int
    reduce: Reduction
    neutral: int
    exclusive: bool
    reverse: bool

    @property
    def extent(self) -> int:
        return self.x.shape[self.axis]

    def at(self, i: tuple[Expr, ...], index: Expr) -> tuple[Expr, ...]:
        """`i` with another index along the axis."""
        return (*i[: self.axis], index, *i[self.axis + 1 :])

    def turned(self, index: Expr) -> Expr:
        """The position of an index, and the index of a position."""
        return (self.extent - 1) - index if self.reverse else index

    def term(self, i: tuple[Expr, ...], position: Expr, counts: Expr) -> Expr:
        """The element at a position where it counts, else what changes nothing."""
        inside = te.minimum(position, self.extent - 1)
        value = self.x[self.at(i, self.turned(inside))].astype(wide(self.x.dtype))
        return te.select(counts, value, self.neutral)

    def part(self, i: tuple[Expr, ...], size: int) -> Expr:
        """What precedes an element in its block of `size`."""
        k = te.reduce_axis(size, "k")
        position = self.turned(i[self.axis])
        own = position % size
        counts = k < own if self.exclusive else k <= own
        return self.reduce(self.term(i, position // size * size + k, counts), [k])

    def direct(self) -> te.Tensor:
        """Each result from its first term on."""
        return self.operation.compute(self.x.shape, lambda *i: self.part(i, self.extent), "scan")

    def blocked(self, size: int) -> te.Tensor:
        """Scans inside blocks of `size`, combined with a scan of the blocks."""
        count = -(-self.extent // size)
        shape = (*self.x.shape[: self.axis], count, *self.x.shape[self.axis + 1 :])
        compute, axis = self.operation.compute, self.axis
        parts = compute(self.x.shape, lambda *i: self.part(i, size), "parts")

        def whole(*i: Expr) -> Expr:
            k = te.reduce_axis(size, "k")
            position = i[axis] * size + k
            return self.reduce(self.term(i, position, position < self.extent), [k])

        blocks = compute(shape, whole, "blocks")

        def ahead(*i: Expr) -> Expr:
            k = te.reduce_axis(count, "k")
            return self.reduce(te.select(k < i[axis], blocks[self.at(i, k)], self.neutral), [k])

        before = compute(shape, ahead, "before")

        def combined(*i: Expr) -> Expr:
            own = before[self.at(i, self.turned(i[axis]) // size)]
            return own * parts[i] if self.neutral else own + parts[i]

        return compute(self.x.shape, combined, "scan")


def scan(reduce: Reduction, neutral: int) -> Lowering:
    """CumSum-11, -14 and CumProd-26: quadratic in short axes, else in the size of blocks."""

    def lower(operation: Operation) -> list[te.Tensor]:
        node, x = operation.node, operation.operand(0)
        axes = operation.integers(1)
        if axes is None or len(axes) != 1:
            raise node.damaged("there must be one axis")
        axis = normalized_axis(operation, axes[0], x.rank)
        exclusive, reverse = bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0))
        made = _Scan(operation, x, axis, reduce, neutral, exclusive, reverse)
        direct = made.extent <= MAX_DIRECT
        size = made.extent if direct else math.isqrt(made.extent - 1) + 1
        check_pairs(operation, x, size)
        total = made.direct() if direct else made.blocked(size)
        return [converted(operation, total, x.dtype)]

    return lower
