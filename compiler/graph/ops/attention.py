"""Attention as integer operators: products of queries and keys up to the numerators of softmax,
and products of these with values, divided by their sum. `compiler.integer.attention` defines the
arithmetic.

Both are matrix products of two maps as `q_matmul`, with the same first operands. Queries are
pixels; keys are channels of the first one's result, and so of the second one's operand `a`.
"""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.layout import PLAIN, ActivationLayout
from daedal.compiler.graph.ops.integer import PARAMETER_DTYPE, REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.matmul import Q_MATMUL, check_maps, products
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, require, whole
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.integer.attention import MeanConstants, attention_weights, weighted_mean
from daedal.compiler.integer.row_functions import Step
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = ["ATTENTION_WEIGHTS", "MATMULS", "MEAN_TABLES", "WEIGHTED_MEAN", "masks_of"]

MEAN_TABLES = ("bits", "reciprocal")

_MAPS = ("a", "b", "factor")
_FACTOR, _TABLE, _INDEX, _MASK = 2, 3, 4, 5
_BITS, _STEPS, _PARAMS = 3, 5, 6


def _check_table(x: TensorType, table: TensorType, dtype: str) -> None:
    layout = PLAIN if x.is_plain else TableLayout()
    wanted = TensorType((TABLE_ENTRIES,), dtype, layout)
    assert table == wanted, f"table is {table}, not {wanted}"


def _check_parameters(items: Sequence[TensorType]) -> None:
    for item in items:
        assert item.dtype == PARAMETER_DTYPE and item.shape[-1] == 3, f"parameters are {item}"


def _infer_weights(operands: Types, attrs: Attrs) -> TensorType:
    a, b = operands[:_FACTOR]
    shape = check_maps(a, b, attrs)
    _check_table(a, operands[_TABLE], "int8")
    _check_parameters([operands[_INDEX]])
    if len(operands) > _MASK:
        mask = operands[_MASK]
        fits = mask.shape[0] in (1, shape[0]) and mask.shape[2:] in ((1, 1), shape[2:])
        last = isinstance(a.layout, ActivationLayout) and mask.dtype == "int32"
        block = a.layout.block if isinstance(a.layout, ActivationLayout) else 1
        missing = shape[1] - mask.shape[1]
        require(
            mask.rank == 4
            and mask.dtype in ("int8", "int32")
            and (missing == 0 or (last and missing > 0 and missing % block == 0))
            and fits,
            f"a mask of attention must be int8 or int32 and broadcast to its scores {shape}, not "
            f"{mask}; repair the model",
        )
    elif isinstance(a.layout, ActivationLayout):
        assert shape[1] % a.layout.block == 0, "keys that fill up a block need a mask"
    return TensorType(shape, "int8", a.layout)


def _step(rows: Array) -> Step:
    """The first step of plain parameters (rows, 3), or of blocked ones, repeated in all lanes."""
    bias, multiplier, shift = rows.reshape(-1, 3)[0]
    return int(bias), int(multiplier), int(shift)


def _evaluate_weights(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """table of the differences of products of a and b, plus the mask, from their maximum over the
    channels; a mask of int8 counts mask_factor times, one of int32 may be that of the last
    channel blocks alone; params is the index's row; filler is what certainly leads to a weight
    of 0 in the mask, or 0."""
    layout = types[0].layout
    scores = products(arrays[0], arrays[1], types[0], attrs)
    if len(arrays) > _MASK:
        mask = types[_MASK].layout.unpack(arrays[_MASK]).astype(np.int64)
        missing = scores.shape[1] - mask.shape[1]
        mask = np.pad(mask, ((0, 0), (missing, 0), (0, 0), (0, 0)))
        factor = whole(attrs, "mask_factor") if types[_MASK].dtype == "int8" else 1
        scores = scores + mask * factor
    table = types[_TABLE].layout.unpack(arrays[_TABLE])
    weights = attention_weights(np.moveaxis(scores, 1, 0), _step(arrays[_INDEX]), table)
    return np.ascontiguousarray(layout.pack(np.moveaxis(weights, 0, 1)))


def _infer_mean(operands: Types, attrs: Attrs) -> TensorType:
    a, b = operands[:_FACTOR]
    shape = check_maps(a, b, attrs)
    for table in operands[_BITS:_STEPS]:
        _check_table(a, table, "int16")
    _check_parameters(operands[_STEPS:])
    assert not any(whole(attrs, f"zero_point_{role}") for role in "ab"), "weights have none"
    return TensorType(shape, "int8", a.layout)


def _evaluate_mean(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer product of a, whose elements are weights, and b, divided by the sum of the weights of
    each pixel; factor is 1."""
    layout = types[0].layout
    sums = products(arrays[0], arrays[1], types[0], attrs)
    weights = layout.unpack(arrays[0]) if isinstance(layout, ActivationLayout) else arrays[0]
    total = weights.astype(np.int64).sum(axis=1, keepdims=True)
    bits, reciprocal = (types[i].layout.unpack(arrays[i]) for i in range(_BITS, _STEPS))
    rows = arrays[_STEPS]
    plain = rows if rows.ndim == 2 else rows[:, 0]
    *bit_steps, mantissa = [_step(row) for row in plain]
    constants = MeanConstants(
        bits, reciprocal, tuple(bit_steps), mantissa, whole(attrs, "sum_bits")
    )
    finish = (whole(attrs, name) for name in REQUANTIZE_ATTRS)
    means = weighted_mean(sums, total, constants, _step(arrays[_PARAMS]), *finish)
    return np.ascontiguousarray(layout.pack(means.astype(np.int8)))


_ZERO_POINTS = {"zero_point_a": "int", "zero_point_b": "int", "columns": "int"}

ATTENTION_WEIGHTS = define(
    "q_attention_weights",
    (*_MAPS, "table", "params", "mask"),
    {**_ZERO_POINTS, "mask_factor": "int", "filler": "int", **REQUANTIZE_ATTRS},
    _infer_weights,
    _evaluate_weights,
    num_optional=1,
    targets=(ACCELERATOR,),
)
WEIGHTED_MEAN = define(
    "q_weighted_mean",
    (*_MAPS, *MEAN_TABLES, "steps", "params"),
    {**_ZERO_POINTS, "sum_bits": "int", **REQUANTIZE_ATTRS},
    _infer_mean,
    _evaluate_mean,
    targets=(ACCELERATOR,),
)

MATMULS = (Q_MATMUL.name, ATTENTION_WEIGHTS.name, WEIGHTED_MEAN.name)
"""Products of two maps, with the same first operands."""


def masks_of(node: Node) -> tuple[str, ...]:
    """The operand of a product of maps that is a mask, if it has one."""
    return node.inputs[_MASK:] if node.op == ATTENTION_WEIGHTS.name else ()
