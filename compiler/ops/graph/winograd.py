"""3x3 convolutions by Winograd's minimal filtering, F(4x4, 3x3).

Tiles of 4 x 4 results are computed from 6 x 6 elements: 36 products for each pair of channels
instead of 144. Elements, weights and results are transformed by small matrices, rows first, then
columns; between them lie 36 matrix products over the tiles.
Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.2.

Of floats, rounding moves a result by at most 1e-5 of the largest one (sums of products alone:
1e-6).

Of 8-bit integers, every bit is right. The rows of the weights' matrix are multiplied by 4, 6, 6,
24, 24 and 1, so that all matrices are whole: transformed elements and weights are int16, and the
results come out 24 * 24 = 576 times too large, modulo 2^32. As 9 has an inverse modulo 2^32, what
is left is a factor of 64, which a shift takes away: sums below 2^25 are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.ops.graph.factors import PAIRS
from daedal.compiler.ops.graph.maps import LANES, blocks, map_shape
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["INTEGERS", "REALS", "suits_integer_winograd", "suits_winograd", "winograd_sums"]

OUT, KERNEL = 4, 3
IN = OUT + KERNEL - 1

_ELEMENTS = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_WHOLE_WEIGHTS = np.array(
    [[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]],
)
_DIVISORS = np.array([4, 6, 6, 24, 24, 1])
"""Of the rows of `_WHOLE_WEIGHTS`."""
_RESULTS = np.array(
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
)

_MULTIPLE = 24
"""Of all divisors: by its square whole results are too large."""
_INVERSE = pow(_MULTIPLE // 8, -1, 1 << 32)
"""Of its odd factor, modulo 2^32: it is part of the results' matrix, once for each dimension."""
_SHIFT = 6
"""Takes away the even factor, 8, of both dimensions."""
SUM_BITS = 32 - _SHIFT - 1
"""Magnitude bits of exact sums of integers."""


@dataclass(frozen=True)
class Transform:
    """The matrices for one kind of numbers.

    Attributes
    ----------
    dtype : of transformed elements and weights.
    sums : of products and results.
    weights, results : the matrices; `_ELEMENTS` is whole.
    """

    dtype: str
    sums: str
    weights: npt.NDArray[Any]
    results: npt.NDArray[Any]

    @property
    def is_whole(self) -> bool:
        """Whether they are integers."""
        return self.sums == "int32"

    @property
    def group(self) -> int:
        """Channels whose products are added at once."""
        return PAIRS.group if self.is_whole else 1

    def products(
        self,
        element: Callable[[int], Expr],
        weight: Callable[[int], Expr],
        axis: Axis,
    ) -> Expr:
        """The sum along `axis` over groups of channels."""
        if self.is_whole:
            return PAIRS.total(element, weight, [axis])
        return te.sum(element(0) * weight(0), axis)


REALS = Transform("float32", "float32", _WHOLE_WEIGHTS / _DIVISORS[:, None], _RESULTS)
INTEGERS = Transform(
    "int16",
    "int32",
    _WHOLE_WEIGHTS,
    (_RESULTS * (_MULTIPLE // _DIVISORS) * _INVERSE).astype(np.uint32).astype(np.int32),
)

LEAST_TILES = 12
"""Fewer tiles do not make up for weights that take four times as many bytes."""
LEAST_CHANNELS = 32
"""With fewer, the transforms take longer than the products that they save."""


def suits_winograd(operation: GraphOperation) -> bool:
    """Whether a convolution with constant weights is computed so."""
    outs, ins, *kernel = operation.type(1).shape
    images, _, height, width = operation.kind.shape
    return (
        operation.reads_map(0)
        and operation.whole("groups") == 1
        and kernel == [KERNEL, KERNEL]
        and operation.ints("strides") == operation.ints("dilations") == (1, 1)
        and min(outs, ins) >= LEAST_CHANNELS
        and images * -(-height // OUT) * -(-width // OUT) >= LEAST_TILES
    )


def suits_integer_winograd(operation: GraphOperation) -> bool:
    """Whether a convolution of integers is computed so: each of its sums must be exact."""
    if operation.tensors.factors != PAIRS or not suits_winograd(operation):
        return False
    sums = np.abs(operation.constant(1).astype(np.int64)).sum(axis=(1, 2, 3))
    return int(sums.max()) << 7 < 1 << SUM_BITS


def winograd_sums(operation: GraphOperation, transform: Transform) -> te.Tensor:
    """The sums of products, a map."""
    weights, kind = operation.constant(1), operation.kind
    images, outs, height, width = kind.shape
    tiles = (images, -(-height // OUT), -(-width // OUT))
    moved = _transformed(operation, tiles, transform)
    ins, group = moved.shape[-2], transform.group
    flat = operation.tensors.viewed(moved, (*moved.shape[:-2], ins * LANES))
    packed = operation.tensors.table(_packed(weights, transform))
    groups = te.reduce_axis(packed.shape[3], "k")

    def product(u: Expr, v: Expr, n: Expr, i: Expr, j: Expr, b: Expr, o: Expr) -> Expr:
        return transform.products(
            lambda number: flat[u, v, n, i, j, groups * group + number],
            lambda number: packed[u, v, b, groups, o, number],
            groups,
        )

    products = operation.compute((IN, IN, *tiles, blocks(outs), LANES), product)
    back = operation.tensors.table(transform.results.astype(transform.sums))
    row, column = (te.reduce_axis(IN, name) for name in ("r", "s"))
    rows = operation.compute(
        (*tiles, OUT, IN, blocks(outs), LANES),
        lambda n, i, j, a, v, b, o: te.sum(back[a, row] * products[row, v, n, i, j, b, o], row),
    )

    def result(n: Expr, h: Expr, w: Expr, b: Expr, o: Expr) -> Expr:
        read = rows[n, h // OUT, w // OUT, h % OUT, column, b, o]
        return te.sum(back[w % OUT, column] * read, column)

    total = operation.compute(map_shape(kind.shape), result)
    if not transform.is_whole:
        return total
    return operation.compute(total.shape, lambda *index: total[index] >> _SHIFT)


def _transformed(
    operation: GraphOperation, tiles: tuple[int, int, int], transform: Transform
) -> te.Tensor:
    """The elements of all tiles, (6, 6, images, tiles of rows, tiles of columns, blocks, lanes)."""
    x, (top, left, _, _) = operation.map(0).tensor, operation.ints("pads")
    images, rows, columns = tiles
    count = x.shape[-2]
    read = x.padded(operation.whole("pad_value") if transform.is_whole else 0.0)
    padded = operation.compute(
        (images, rows * OUT + KERNEL - 1, columns * OUT + KERNEL - 1, count, LANES),
        lambda n, h, w, b, c: read[n, h - top, w - left, b, c].astype(transform.dtype),
    )
    matrix = operation.tensors.table(_ELEMENTS.astype(transform.dtype))
    row, column = (te.reduce_axis(IN, name) for name in ("r", "s"))
    by_rows = operation.compute(
        (*tiles, IN, IN, count, LANES),
        lambda n, i, j, u, s, b, c: te.sum(
            matrix[u, row] * padded[n, i * OUT + row, j * OUT + s, b, c], row
        ),
    )
    return operation.compute(
        (IN, IN, *tiles, count, LANES),
        lambda u, v, n, i, j, b, c: te.sum(
            matrix[v, column] * by_rows[n, i, j, u, column, b, c], column
        ),
    )


def _packed(weights: Array, transform: Transform) -> Array:
    """Transformed weights (O, I, 3, 3) as (6, 6, blocks of O, groups of I, lanes, group)."""
    matrix, group = transform.weights, transform.group
    moved = matrix @ weights.astype(matrix.dtype) @ matrix.T
    turned = np.moveaxis(moved, (2, 3), (0, 1))
    outs, ins = weights.shape[:2]
    groups = -(-ins // group)
    full = np.zeros((IN, IN, blocks(outs) * LANES, groups * group), transform.dtype)
    full[:, :, :outs, :ins] = turned
    split = full.reshape(IN, IN, -1, LANES, groups, group)
    return np.ascontiguousarray(np.moveaxis(split, 3, 4))
