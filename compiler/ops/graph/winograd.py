"""3x3 convolutions by Winograd's minimal filtering, F(4x4, 3x3) and F(2x2, 3x3).

Tiles of 4 x 4 results are computed from 6 x 6 elements: 36 products for each pair of channels
instead of 144. Of maps with few such tiles, those of 2 x 2 results take 16 products instead of 36,
and weights take 16 / 9 of their size instead of 4 times. Elements, weights and results are
transformed by small matrices, rows first, then columns (one kernel each time, see
`compiler.cpu.combinations`); between them lie matrix products over the tiles.
Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 4.1
and 4.2.

Of floats, rounding moves a result by at most 1e-5 of the largest one (sums of products alone:
1e-6).

Of 8-bit integers, every bit is right. The rows of the weights' matrix are multiplied by their
divisors, so that all matrices are whole: transformed elements and weights are int16, and the
results come out too large by the square of the divisors' common multiple, 24 or 2, modulo 2^32. The
odd factor of 24 has an inverse modulo 2^32; what is left is a power of 2, which a shift takes away:
sums below 2^25 or 2^29 are exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.constants import Change, Packing, Products
from daedal.compiler import te
from daedal.compiler.ops.graph.combined import combined
from daedal.compiler.ops.graph.factors import PAIRS
from daedal.compiler.ops.graph.maps import BLOCKED, LANES
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["Transform", "integer_transform", "real_transform", "winograd_sums"]

KERNEL = 3
LEAST_TILES = 12
"""Fewer tiles do not make up for weights that take more bytes."""
LEAST_CHANNELS = 32
"""With fewer, the transforms take longer than the products that they save."""


@dataclass(frozen=True)
class Transform:
    """The matrices of one size of tiles, for one kind of numbers.

    Attributes
    ----------
    dtype : of transformed elements and weights.
    sums : of products and results.
    elements, weights, results : the matrices; `elements` is whole.
    shift : by how many bits results come out too large.
    """

    dtype: str
    sums: str
    elements: npt.NDArray[Any]
    weights: npt.NDArray[Any]
    results: npt.NDArray[Any]
    shift: int = 0

    @property
    def tile(self) -> int:
        """Rows and columns of results."""
        return len(self.results)

    @property
    def window(self) -> int:
        """Rows and columns of elements that a tile needs."""
        return len(self.elements)

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are integers."""
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


def _transforms(
    elements: list[list[int]],
    weights: list[list[int]],
    divisors: list[int],
    results: list[list[int]],
) -> tuple[Transform, Transform]:
    """For floats and for integers. The weights' matrix is ``weights / divisors``, row by row."""
    whole, parts = np.array(weights), np.array(divisors)
    real = Transform(
        "float32", "float32", np.array(elements), whole / parts[:, None], np.array(results)
    )
    multiple = math.lcm(*divisors)  # by its square whole results are too large
    twos = (multiple & -multiple).bit_length() - 1
    inverse = pow(multiple >> twos, -1, 1 << 32)  # once for each dimension
    scaled = np.array(results) * (multiple // parts) * inverse
    back = scaled.astype(np.uint32).astype(np.int32)
    return real, Transform("int16", "int32", np.array(elements), whole, back, 2 * twos)


_LARGE = _transforms(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    [[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]],
    [4, 6, 6, 24, 24, 1],
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
)
_SMALL = _transforms(
    [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    [[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]],
    [1, 2, 2, 1],
    [[1, 1, 1, 0], [0, 1, -1, -1]],
)
TRANSFORMS = (_LARGE, _SMALL)
"""For floats and for integers, those that save most first."""


def real_transform(operation: GraphOperation) -> Transform | None:
    """That of a convolution of floats; None where it is computed directly."""
    found = _suited(operation)
    return None if found is None else found[0]


def integer_transform(operation: GraphOperation) -> Transform | None:
    """That of a convolution of integers, each of whose sums is exact; None where it is computed
    directly."""
    found = _suited(operation) if operation.tensors.factors.group == PAIRS.group else None
    if found is None:
        return None
    sums = np.abs(operation.constant(1).astype(np.int64)).sum(axis=(1, 2, 3))
    magnitude_bits = 32 - found[1].shift - 1
    return found[1] if int(sums.max()) << 7 < 1 << magnitude_bits else None


def _suited(operation: GraphOperation) -> tuple[Transform, Transform] | None:
    """The transforms of a convolution of blocked maps: GPUs have tensor cores instead, which no
    transform gains from as it takes kernels and memory of its own (ADR 28)."""
    outs, ins, *kernel = operation.type(1).shape
    images, _, height, width = operation.kind.shape
    if (
        not operation.layout.is_blocked
        or not operation.reads_map(0)
        or operation.whole("groups") != 1
        or kernel != [KERNEL, KERNEL]
        or operation.ints("strides") != (1, 1)
        or operation.ints("dilations") != (1, 1)
        or min(outs, ins) < LEAST_CHANNELS
    ):
        return None
    for pair in TRANSFORMS:
        tile = pair[0].tile
        if images * -(-height // tile) * -(-width // tile) >= LEAST_TILES:
            return pair
    return None


def winograd_sums(operation: GraphOperation, transform: Transform) -> te.Tensor:
    """The sums of products, a map."""
    weights, kind = operation.constant(1), operation.kind
    images, outs, height, width = kind.shape
    tile, window = transform.tile, transform.window
    tiles = (images, -(-height // tile), -(-width // tile))
    moved = _transformed(operation, tiles, transform)
    ins, group = moved.shape[-2], transform.group
    flat = operation.tensors.viewed(moved, (*moved.shape[:-2], ins * LANES))
    packed = operation.tensors.table(weights, _changes(weights.shape, transform))
    groups = te.reduce_axis(packed.shape[3], "k")

    def product(u: Expr, v: Expr, n: Expr, i: Expr, j: Expr, b: Expr, o: Expr) -> Expr:
        return transform.products(
            lambda number: flat[u, v, n, i, j, groups * group + number],
            lambda number: packed[u, v, b, groups, o, number],
            groups,
        )

    products = operation.compute((window, window, *tiles, BLOCKED.blocks(outs), LANES), product)
    back = transform.results
    rows = operation.compute(
        (*tiles, tile, window, BLOCKED.blocks(outs), LANES),
        lambda n, i, j, a, v, b, o: combined(back, a, lambda row: products[row, v, n, i, j, b, o]),
    )
    total = operation.compute(
        operation.shape,
        lambda n, h, w, b, o: combined(
            back, w % tile, lambda column: rows[n, h // tile, w // tile, h % tile, column, b, o]
        ),
    )
    if not transform.shift:
        return total
    return operation.compute(total.shape, lambda *index: total[index] >> transform.shift)


def _transformed(
    operation: GraphOperation, tiles: tuple[int, int, int], transform: Transform
) -> te.Tensor:
    """The elements of all tiles, (window, window, images, tiles of rows, tiles of columns, blocks,
    lanes)."""
    x, (top, left, _, _) = operation.map(0).tensor, operation.ints("pads")
    images, rows, columns = tiles
    tile, window = transform.tile, transform.window
    count = x.shape[-2]
    read = x.padded(operation.whole("pad_value") if transform.is_whole else 0.0)
    padded = operation.compute(
        (images, (rows - 1) * tile + window, (columns - 1) * tile + window, count, LANES),
        lambda n, h, w, b, c: read[n, h - top, w - left, b, c].astype(transform.dtype),
    )
    by_rows = operation.compute(
        (*tiles, window, window, count, LANES),
        lambda n, i, j, u, s, b, c: combined(
            transform.elements, u, lambda row: padded[n, i * tile + row, j * tile + s, b, c]
        ),
    )
    return operation.compute(
        (window, window, *tiles, count, LANES),
        lambda u, v, n, i, j, b, c: combined(
            transform.elements, v, lambda column: by_rows[n, i, j, u, column, b, c]
        ),
    )


def _changes(shape: Sequence[int], transform: Transform) -> tuple[Change, ...]:
    """Weights (O, I, 3, 3) of `shape` transformed, as (window, window, blocks of O, groups of I,
    lanes, group)."""
    matrix = tuple(tuple(row) for row in transform.weights.tolist())
    outs, ins, group, window = *shape[:2], transform.group, transform.window
    extents = (BLOCKED.filled(outs), ins + -ins % group, window, window)
    packing = Packing(extents, (LANES, group, 0, 0), (4, 5, 0, 2, 1, 3))
    return Products(matrix, transform.dtype), packing
