"""Where the rows of a map lie that is a part of one with more columns."""

from collections.abc import Sequence
from math import prod

from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.graph.ops.integer import element_bits
from daedal.compiler.graph.types import TensorType
from daedal.isa.variant import Variant

__all__ = ["columns_view"]


def columns_view(
    shape: Sequence[int], kind: TensorType, pitch: int, variant: Variant
) -> MemoryView:
    """The view of a map of `shape`, (NB, CB, H, W, U, batch, lanes), whose rows are `pitch` columns
    apart."""
    images, blocks, height, width, vectors, *row = shape
    assert (height, width) == kind.shape[2:], f"{kind} is not read as {list(shape)}"
    vector = prod(row) * element_bits(kind, variant) // 8 // variant.bus_bytes
    pixel = vectors * vector
    line = pitch * pixel
    strides = (blocks * height * line, height * line, line, pixel, vector)
    lines = images * blocks * height - 1
    return MemoryView(strides, (lines * line + width * pixel) * variant.bus_bytes)
