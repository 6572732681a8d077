"""An integer matrix product on maps, from a float one whose operands are quantized tensors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.passes.lowering.requantization import (
    Quantization,
    QuantizedTensor,
    check_sums,
)

__all__ = ["add_matmul", "reshaped", "turned"]


@dataclass(frozen=True)
class _Batch:
    """Batch axes of two operands that broadcast.

    Parameters
    ----------
    extents : of the result.
    shared, first, second : the axes that both operands have, and those of which one of them has
        all elements and the other repeats its only one.
    """

    extents: tuple[int, ...]
    shared: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]

    @classmethod
    def of(cls, a: tuple[int, ...], b: tuple[int, ...]) -> "_Batch":
        """Of operands of equal rank with these batch extents."""
        pairs = list(enumerate(zip(a, b, strict=True)))
        return cls(
            np.broadcast_shapes(a, b),
            tuple(axis for axis, (x, y) in pairs if x == y),
            tuple(axis for axis, (x, y) in pairs if x > y),
            tuple(axis for axis, (x, y) in pairs if x < y),
        )

    def count(self, axes: tuple[int, ...]) -> int:
        """Elements of these axes."""
        return math.prod(self.extents[axis] for axis in axes)

    def order_of_rows(self) -> tuple[int, ...]:
        """The axes of the first operand, so that those of its own are next to its rows."""
        rank = len(self.extents)
        return (*self.shared, *self.second, *self.first, rank, rank + 1)

    def order_of_columns(self) -> tuple[int, ...]:
        """The axes of the second operand, so that those of its own are next to its columns."""
        rank = len(self.extents)
        return (*self.shared, *self.first, rank, *self.second, rank + 1)

    def restored(self, rows: int, columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape (shared, first, rows, second, columns), and its axes in the result's order."""
        rank = len(self.extents)
        axes = (*self.shared, *self.first, rank, *self.second, rank + 1)
        extents = (*self.extents, rows, columns)
        return tuple(extents[axis] for axis in axes), tuple(int(i) for i in np.argsort(axes))


def add_matmul(
    builder: GraphBuilder,
    node: Node,
    operands: tuple[QuantizedTensor, QuantizedTensor],
    q: Quantization,
    output: str,
    *,
    params: Callable[[Array, Array], str],
    accumulator_bits: int,
) -> str:
    """Add `output`, the product of (..., M, K) and (..., K, N) quantized as `q`; return its name.

    The reduction axis becomes the channels of both maps, so the first operand is transposed. The
    channels of the result are the columns of the second operand, so the result is transposed, too.
    A batch axis over which the second operand broadcasts becomes rows of the product; one over
    which the first operand does becomes columns.

    Parameters
    ----------
    params : defines the parameter constant from a bias and a ratio.

    Raises
    ------
    ModelError
        The sums could leave the accumulators.
    """
    a, b = operands
    shapes = [builder.types[item.name].shape for item in operands]
    rank = max(len(shape) for shape in shapes)
    shapes = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    (*batch_a, rows, depth), (*batch_b, _, columns) = shapes
    batch = _Batch.of(tuple(batch_a), tuple(batch_b))
    check_sums(node, depth * 255 * 255, accumulator_bits)
    count = batch.count(batch.shared)
    all_rows, all_columns = batch.count(batch.first) * rows, batch.count(batch.second) * columns
    arranged = _moved(builder, a.name, shapes[0], batch.order_of_rows())
    stacked = reshaped(builder, arranged, (count, all_rows, depth))
    left = reshaped(builder, turned(builder, stacked), (count, depth, all_rows, 1))
    arranged = _moved(builder, b.name, shapes[1], batch.order_of_columns())
    right = reshaped(builder, arranged, (count, depth, all_columns, 1))
    factor = np.array([correction(b.zero_point)[0]], dtype=np.int8)
    ratio = a.scale * b.scale / q.scale
    inputs = [
        left,
        right,
        builder.constant(builder.fresh_name(f"{output}.factor"), factor),
        params(np.array([depth * a.zero_point * b.zero_point]), np.array([ratio])),
    ]
    attrs = {
        "zero_point_a": a.zero_point,
        "zero_point_b": b.zero_point,
        "columns": all_columns,
        **q.attrs,
    }
    name = builder.fresh_name(f"{output}.map")
    maps = builder.add("q_matmul", inputs, attrs, output=name, name=node.name)
    stacked = reshaped(builder, maps, (count, all_columns, all_rows))
    if batch.extents == (count,) and not batch.first + batch.second:
        return turned(builder, stacked, output)
    shape, order = batch.restored(rows, columns)
    result = _moved(builder, turned(builder, stacked), shape, order)
    return reshaped(builder, result, (*batch.extents, rows, columns), output)


def _moved(builder: GraphBuilder, name: str, shape: tuple[int, ...], order: tuple[int, ...]) -> str:
    """The tensor with its axes, as those of `shape`, in another order."""
    if order == tuple(range(len(order))):
        return name
    if builder.types[name].shape != shape:
        name = reshaped(builder, name, shape)
    output = builder.fresh_name(f"{name}.moved")
    return builder.add("transpose", [name], {"order": order}, output=output)


def reshaped(builder: GraphBuilder, name: str, shape: tuple[int, ...], output: str = "") -> str:
    """Add a reshape; return its name."""
    output = output or builder.fresh_name(f"{name}.view")
    return builder.add("reshape", [name], {"shape": shape}, output=output)


def turned(builder: GraphBuilder, name: str, output: str = "") -> str:
    """Add a transpose that swaps the last two of three axes."""
    output = output or builder.fresh_name(f"{name}.turned")
    return builder.add("transpose", [name], {"order": (0, 2, 1)}, output=output)
