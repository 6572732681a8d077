"""3x3 convolutions of floats by Winograd's minimal filtering, F(4x4, 3x3).

Tiles of 4 x 4 results are computed from 6 x 6 elements: 36 products for each pair of channels
instead of 144. Elements, weights and results are transformed by small matrices, rows first, then
columns; between them lie 36 matrix products over the tiles. Rounding moves a result by at most
1e-5 of the largest one (sums of products alone: 1e-6).
Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.2.
"""

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.ops.graph.maps import LANES, blocks, map_shape
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.tir.expr import Expr

__all__ = ["suits_winograd", "winograd_sums"]

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
    ],
    np.float32,
)
_WEIGHTS = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
_RESULTS = np.array(
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    np.float32,
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
        operation.has_map(0)
        and operation.whole("groups") == 1
        and kernel == [KERNEL, KERNEL]
        and operation.ints("strides") == operation.ints("dilations") == (1, 1)
        and min(outs, ins) >= LEAST_CHANNELS
        and images * -(-height // OUT) * -(-width // OUT) >= LEAST_TILES
    )


def winograd_sums(operation: GraphOperation) -> te.Tensor:
    """The sums of products, a map."""
    weights, kind = operation.constant(1), operation.kind
    images, outs, height, width = kind.shape
    tiles = (images, -(-height // OUT), -(-width // OUT))
    moved = _transformed(operation, tiles)
    ins, depth = moved.shape[-2], weights.shape[1]
    flat = operation.tensors.viewed(moved, (*moved.shape[:-2], ins * LANES))
    packed = operation.tensors.table(_packed(weights))
    channel = te.reduce_axis(depth, "k")
    products = operation.compute(
        (IN, IN, *tiles, blocks(outs), LANES),
        lambda u, v, n, i, j, b, o: te.sum(
            flat[u, v, n, i, j, channel] * packed[u, v, b, channel, o], channel
        ),
    )
    back = operation.tensors.table(_RESULTS)
    row, column = (te.reduce_axis(IN, name) for name in ("r", "s"))
    rows = operation.compute(
        (*tiles, OUT, IN, blocks(outs), LANES),
        lambda n, i, j, a, v, b, o: te.sum(back[a, row] * products[row, v, n, i, j, b, o], row),
    )

    def result(n: Expr, h: Expr, w: Expr, b: Expr, o: Expr) -> Expr:
        read = rows[n, h // OUT, w // OUT, h % OUT, column, b, o]
        return te.sum(back[w % OUT, column] * read, column)

    return operation.compute(map_shape(kind.shape), result)


def _transformed(operation: GraphOperation, tiles: tuple[int, int, int]) -> te.Tensor:
    """The elements of all tiles, (6, 6, images, tiles of rows, tiles of columns, blocks, lanes)."""
    x, (top, left, _, _) = operation.map(0).tensor, operation.ints("pads")
    images, rows, columns = tiles
    count = x.shape[-2]
    read = x.padded(0.0)
    padded = operation.compute(
        (images, rows * OUT + KERNEL - 1, columns * OUT + KERNEL - 1, count, LANES),
        lambda n, h, w, b, c: read[n, h - top, w - left, b, c],
    )
    matrix = operation.tensors.table(_ELEMENTS)
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


def _packed(weights: Array) -> Array:
    """Transformed weights (O, I, 3, 3) as (6, 6, blocks of O, I, lanes)."""
    turned = np.moveaxis(_WEIGHTS @ weights.astype(np.float64) @ _WEIGHTS.T, (2, 3), (0, 1))
    outs, ins = weights.shape[:2]
    full = np.zeros((IN, IN, blocks(outs) * LANES, ins), np.float32)
    full[:, :, :outs] = turned
    split = full.reshape(IN, IN, -1, LANES, ins)
    return np.ascontiguousarray(np.moveaxis(split, 3, 4))
