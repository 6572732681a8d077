"""Products of 16-bit reals or int8 by the products of matrices that groups of four warps have.

A block has one or two groups, each of which computes 64 rows and all columns of the block's tile.
Steps of the reduction are copied asynchronously into lines of 128 bytes; see
`tensor_cores.schedule_cores` for the loops.
"""

from collections.abc import Mapping, Sequence

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.gpu.copies import chunk_elements
from daedal.compiler.ops.gpu.tensor_cores import CoreTiles, product_of, warp_axes
from daedal.compiler.ops.gpu.tiles import GpuTiles, factors, shared_bytes, window
from daedal.compiler.tir.expr import Axis, Expr, Load, Var
from daedal.compiler.tir.linear import bounds, linear
from daedal.compiler.tir.warp_products import GROUP_PRODUCTS, GROUP_WARPS

__all__ = ["GROUP_ROWS", "choose_group_tiles"]

GROUP_ROWS = 64
"""Of a group of warps."""
LINE_BYTES = 128
SHARED_BYTES = 227 << 10
"""Of a block, on GPUs that have such products. Source: CUDA C++ Programming Guide, compute
capabilities, 9.0."""
FEWEST_STAGES = 2
MOST_DIMENSIONS = 5
"""Of a tensor map. Source: CUDA Driver API 13.0, "cuTensorMapEncodeTiled"."""


def choose_group_tiles(
    value: Expr,
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    groups: int,
    columns: int,
    stages: int,
) -> CoreTiles | None:
    """The tiles of a sum of `value` over `reduced`; None where there is no such product, or too
    few steps.

    Parameters
    ----------
    groups, columns : of a block.
    stages : steps whose operands are in shared memory, at most; one is multiplied, the one before
        may be, and the others are copied.
    """
    operands = factors(value)
    products = [item for item in GROUP_PRODUCTS.values() if item.columns == columns]
    product = product_of(value, operands, products)
    if operands is None or product is None:
        return None
    found = warp_axes(operands, axes, reduced)
    if found is None:
        return None
    row, column, term = found
    threads, elements, depth = [1] * len(axes), [1] * len(axes), [1] * len(reduced)
    threads[row], elements[row] = groups * GROUP_WARPS, product.rows
    elements[column] = columns
    depth[term] = LINE_BYTES // ELEMENT_BYTES[product.dtype]
    tiles = GpuTiles(tuple(threads), tuple(elements), tuple(depth))
    sizes = (*tiles.block, *tiles.depth)
    tile: dict[Var, int] = dict(zip((*axes, *reduced), sizes, strict=True))
    lines = [
        _is_operand(operand, axes[number], reduced[term], tile)
        for operand, number in zip(operands, (row, column), strict=True)
    ]
    if not all(lines):
        return None
    steps = -(-reduced[term].extent // depth[term])
    for n, axis in enumerate(reduced):
        steps *= axis.extent if n != term else 1
    room = SHARED_BYTES // shared_bytes(operands, axes, reduced, tiles)
    count = min(stages, steps, room)
    if count < FEWEST_STAGES:
        return None
    extents: dict[Var, int] = {axis: axis.extent for axis in (*axes, *reduced)}
    boxes = all(
        _has_boxes(operand, tile) and not _reads_pads(operand, extents) for operand in operands
    )
    return CoreTiles(product, tiles, row, column, term, count, boxes)


def _has_boxes(operand: Load, tile: Mapping[Var, int]) -> bool:
    """Whether boxes of an operand can be copied: rows begin at multiples of 16 bytes, and the part
    has whole lines along them."""
    shape, size = operand.buffer.shape, ELEMENT_BYTES[operand.buffer.dtype]
    sizes = [(x, n) for x, n in zip(shape, window(operand, tile), strict=True) if x > 1]
    extent, along = sizes[-1]
    fits = extent * size % 16 == 0 and along * size % LINE_BYTES == 0
    return fits and len(sizes) <= MOST_DIMENSIONS


def _reads_pads(operand: Load, extents: Mapping[Var, int]) -> bool:
    """Whether an operand is read outside of its tensor: then threads copy what they need."""
    if operand.pad_value is None:
        return False
    for index, extent in zip(operand.indices, operand.buffer.shape, strict=True):
        found = bounds(index, extents)
        if found is None or found[0] < 0 or found[1] >= extent:
            return True
    return False


def _is_operand(operand: Load, own: Axis, term: Axis, tile: Mapping[Var, int]) -> bool:
    """Whether an operand's part is a matrix whose rows are whole lines, copied asynchronously."""
    sizes = window(operand, tile)
    used = [n for n, size in enumerate(sizes) if size > 1]
    if [sizes[n] for n in used] not in ([tile[own], tile[term]], [tile[term], tile[own]]):
        return False
    along = {linear(operand.indices[n]).coefficient(term): n for n in used}
    if along.keys() != {0, 1} or linear(operand.indices[along[0]]).coefficient(own) != 1:
        return False
    if along[1] < along[0] and ELEMENT_BYTES[operand.buffer.dtype] != 2:
        return False
    return chunk_elements(operand, tile) > 0
