"""Views of blocked maps: operators whose results share the memory of their operands.

`moves_to_views` creates them, `aliases` defines which bytes they share, and the linker places them.
They take no instruction.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import check_activation
from daedal.compiler.graph.ops.movement import infer_concat_shape
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, ints
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "COLUMNS_VIEW",
    "ROWS_VIEW",
    "run_of_blocks",
]


def run_of_blocks(
    x: TensorType, begins: Sequence[int], ends: Sequence[int]
) -> tuple[int, int] | None:
    """First element and number of elements of a part of a blocked map, given in (N, C, H, W).

    None if the part is not one contiguous run of whole channel vectors.
    """
    assert isinstance(x.layout, ActivationLayout), f"{x} is not blocked"
    batch, block = x.layout.batch, x.layout.block
    if begins[0] % batch or begins[1] % block:
        return None
    part = [range(begins[0] // batch, -(-ends[0] // batch))]
    part.append(range(begins[1] // block, -(-ends[1] // block)))
    part += [range(begins[axis], ends[axis]) for axis in (2, 3)]
    extents = x.physical_shape[:4]
    begin, count, is_whole = 0, 1, True
    for taken, extent in zip(reversed(part), reversed(extents), strict=True):
        if not is_whole and len(taken) > 1:
            return None
        is_whole = is_whole and len(taken) == extent
        count *= len(taken)
    for taken, extent in zip(part, extents, strict=True):
        begin = begin * extent + taken[0]
    return begin * batch * block, count * batch * block


def _like(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    """The type of a view of `x` with logical `shape`."""
    return replace(x, shape=shape)


def _infer_concat_view(operands: Types, attrs: Attrs) -> TensorType:
    taken = ints(attrs, "channels")
    assert len(taken) == len(operands), f"{len(operands)} maps take {taken}"
    n, _, h, w = infer_concat_shape(operands, 1)
    layout = operands[0].layout
    for x, channels in zip(operands, taken, strict=True):
        check_activation(x, wide=True)
        assert x.layout == layout and x.physical_shape[0] == 1, f"{x} cannot lie within another"
        held = TensorType((n, channels, h, w), x.dtype, layout)
        assert held.physical_shape == x.physical_shape, f"{x} does not fill {channels} channels"
    result = _like(operands[0], (n, sum(taken), h, w))
    blocks = sum(x.physical_shape[1] for x in operands)
    assert result.physical_shape[1] == blocks, "blocks stay whole"
    return result


def _evaluate_concat_view(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Maps one after the other, each from a channel that is the sum of `channels` before it; they
    were stored there."""
    return np.concatenate(list(arrays), axis=1)


def _infer_rows_view(operands: Types, attrs: Attrs) -> TensorType:
    first = operands[0]
    for x in operands:
        check_activation(x)
        assert x.layout == first.layout and x.shape[0] == 1, f"{x} cannot lie within another"
    return _like(first, infer_concat_shape(operands, 2))


def _evaluate_rows_view(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Maps of one image, one below the other; `moves_to_views` copies what cannot lie so, as rows
    of several blocks of channels."""
    return np.concatenate(list(arrays), axis=2)


def _infer_columns_view(operands: Types, attrs: Attrs) -> TensorType:
    first = operands[0]
    for x in operands:
        check_activation(x)
        assert x.layout == first.layout, f"{x} cannot lie within another"
    return _like(first, infer_concat_shape(operands, 3))


def _evaluate_columns_view(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Maps side by side: the rows of each lie as far apart as those of the result; `moves_to_views`
    copies what cannot lie so."""
    return np.concatenate(list(arrays), axis=3)


def _infer_slice_view(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    check_activation(x, wide=True)
    begins, ends = ints(attrs, "begins"), ints(attrs, "ends")
    assert all(
        0 <= begin < end <= extent for begin, end, extent in zip(begins, ends, x.shape, strict=True)
    ), f"{begins} to {ends} leaves {x}"
    assert run_of_blocks(x, begins, ends) is not None, f"{begins} to {ends} is no run of {x}"
    shape = tuple(end - begin for begin, end in zip(begins, ends, strict=True))
    return _like(x, shape)


def _evaluate_slice_view(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Part of a map that is one run of its vectors of channels."""
    run = run_of_blocks(types[0], ints(attrs, "begins"), ints(attrs, "ends"))
    assert run is not None, "checked with the types"
    begin, count = run
    shape = _infer_slice_view(types, attrs).physical_shape
    return np.ascontiguousarray(arrays[0]).reshape(-1)[begin : begin + count].reshape(shape)


def _infer_reshape_view(operands: Types, attrs: Attrs) -> TensorType:
    x, shape = operands[0], ints(attrs, "shape")
    check_activation(x, wide=True)
    assert isinstance(x.layout, ActivationLayout), f"{x} is not blocked"
    assert math.prod(shape) == math.prod(x.shape), f"{x} cannot lie as {shape}"
    if shape[:2] != x.shape[:2]:
        whole_blocks = x.shape[1] % x.layout.block == shape[1] % x.layout.block == 0
        same_vectors = x.shape[1] == shape[1] <= x.layout.block
        fits = x.layout.batch == 1 and (whole_blocks or same_vectors)
        assert fits, f"{x} cannot lie as {shape}"
    return _like(x, shape)


def _evaluate_reshape_view(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """The same vectors of channels, in their order, as a map of another shape: pixels in rows of
    another length, groups of blocks of channels as images."""
    return arrays[0].reshape(_infer_reshape_view(types, attrs).physical_shape)


define(
    "concat_view",
    ("x",),
    {"channels": "ints"},
    _infer_concat_view,
    _evaluate_concat_view,
    variadic=True,
    targets=(ACCELERATOR,),
    is_view=True,
)
ROWS_VIEW = define(
    "rows_view",
    ("x",),
    {},
    _infer_rows_view,
    _evaluate_rows_view,
    variadic=True,
    targets=(ACCELERATOR,),
    is_view=True,
)
COLUMNS_VIEW = define(
    "columns_view",
    ("x",),
    {},
    _infer_columns_view,
    _evaluate_columns_view,
    variadic=True,
    targets=(ACCELERATOR,),
    is_view=True,
)
define(
    "slice_view",
    ("x",),
    {"begins": "ints", "ends": "ints"},
    _infer_slice_view,
    _evaluate_slice_view,
    targets=(ACCELERATOR,),
    is_view=True,
)
define(
    "reshape_view",
    ("x",),
    {"shape": "ints"},
    _infer_reshape_view,
    _evaluate_reshape_view,
    targets=(ACCELERATOR,),
    is_view=True,
)
