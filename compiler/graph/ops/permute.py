"""Moves of whole vectors of channels to other places of a map: windows, patches, pixels to blocks.

On a blocked map a *vector* is the block of channels of one pixel, one row of a scratchpad. Memory
holds a map as a sequence of vectors, so any permutation of them is one of their numbers.
"""

from math import prod

import numpy as np

from daedal.compiler.graph.layout import MAP_RANK, ActivationLayout
from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["Q_PERMUTE", "vector_order", "vectors_of"]


def _moved(x: Array, attrs: Attrs) -> Array:
    """The elements of a plain map in their new places."""
    split = x.reshape(ints(attrs, "split")).transpose(ints(attrs, "order"))
    return split.reshape(ints(attrs, "shape"))


def vector_order(shape: tuple[int, ...], attrs: Attrs, block: int) -> Array | None:
    """The number of the operand's vector in each place of the result, in the order of memory. None
    if vectors do not stay whole.

    Parameters
    ----------
    shape : of the operand (N, C, H, W).
    attrs : those of `Q_PERMUTE`.
    block : channels of a vector; places behind the last channel may hold anything.
    """
    numbers: Array = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    before, after = (vectors_of(x, block) for x in (numbers, _moved(numbers, attrs)))
    if len(before) != len(after):
        return None
    begins = np.full(numbers.size, -1)
    begins[before[:, 0]] = np.arange(len(before))
    order: Array = begins[after[:, 0]]
    whole = bool((order >= 0).all()) and np.array_equal(before[order], after)
    return order if whole else None


def vectors_of(x: Array, block: int) -> Array:
    """The elements of a plain map by vector, (vectors, block); -1 behind the last channel."""
    n, channels, height, width = x.shape
    blocks = -(-channels // block)
    filled = np.pad(
        x,
        ((0, 0), (0, blocks * block - channels), (0, 0), (0, 0)),
        constant_values=-1,
    )
    split = filled.reshape(n, blocks, block, height * width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 2)).reshape(-1, block)


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    x, params = operands
    check_activation(x, wide=True)
    check_params(params, 1, x, channels=False)
    shape = ints(attrs, "shape")
    assert len(x.shape) == len(shape) == MAP_RANK and prod(shape) == prod(x.shape), f"{x}, {shape}"
    if isinstance(x.layout, ActivationLayout):
        assert x.layout.batch == 1, "vectors of one image"
        assert vector_order(x.shape, attrs, x.layout.block) is not None, "vectors stay whole"
    return result_type(shape, x, attrs)


def _evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """a map of `shape`: x split, its axes in another order; blocked: vectors stay whole."""
    array, params = arrays
    (x, _), layout = types, types[0].layout
    if isinstance(layout, ActivationLayout):
        order = vector_order(x.shape, attrs, layout.block)
        moved = array.reshape(-1, layout.block)[order]
        moved = moved.reshape(layout.physical_shape(ints(attrs, "shape")))
    else:
        moved = _moved(array, attrs)
    return requantize(moved.astype(np.int64), params.reshape(-1, 3)[0], attrs)


Q_PERMUTE = define(
    "q_permute",
    ("x", "params"),
    {"split": "ints", "order": "ints", "shape": "ints", **REQUANTIZE_ATTRS},
    _infer,
    _evaluate,
    targets=(ACCELERATOR,),
)
