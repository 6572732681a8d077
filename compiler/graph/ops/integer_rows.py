"""Integer softmax and norms over the channels of each pixel.

`compiler.integer.softmax` and `.norms` define them.

Tables have 16-bit entries. `steps` are the parameters of the ALU's REQUANTIZE and LOOKUP between
the operand and the result, which `params` finish. Those of norms have a row for each threshold;
blocked, each lane has another threshold. A blocked map has padding channels, which do not count:
then there is one operand more, int8 per channel, which is packed with its padding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daedal.compiler.graph.layout import PLAIN, ActivationLayout
from daedal.compiler.graph.ops.integer import (
    PARAMETER_DTYPE,
    REQUANTIZE_ATTRS,
    check_activation,
    result_type,
)
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Evaluate,
    Infer,
    OpDef,
    Types,
    define,
    register,
    require,
    whole,
)
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.integer.norms import Norm, norm
from daedal.compiler.integer.row_functions import Step
from daedal.compiler.integer.softmax import MASK_FACTOR, Softmax, softmax
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = [
    "NORM_ATTRS",
    "NORM_TABLES",
    "Q_LAYER_NORM",
    "Q_RMS_NORM",
    "Q_SOFTMAX",
    "ROW_OPERATORS",
    "SOFTMAX_TABLES",
    "norm_steps",
    "norm_steps_in_lanes",
    "step_rows",
]

SOFTMAX_TABLES = ("exp", "bits", "reciprocal")
NORM_TABLES = ("low", "high")

NORM_ATTRS = {
    "zero_point_x": "int",
    "fraction_bits": "int",
    "square_shift": "int",
    "spare_shift": "int",
    "epsilon": "int",
}
"""Those of `daedal.compiler.integer.norms.Norm`, in its order."""

_AROUND_THRESHOLDS = (1, -2)
"""Which of a norm's steps are thresholds: all between these."""


class _Places(NamedTuple):
    """Which operands are tables, steps, params, and values of channels, if there are any."""

    tables: slice
    steps: int
    params: int
    lanes: int

    @classmethod
    def behind(cls, tables: Sequence[str]) -> "_Places":
        """Of an operator with x and these tables."""
        first = 1 + len(tables)
        return cls(slice(1, first), first, first + 1, first + 2)


_OF_SOFTMAX, _OF_NORM = _Places.behind(SOFTMAX_TABLES), _Places.behind(NORM_TABLES)


def step_rows(*groups: Sequence[Step]) -> Array:
    """All steps as parameters (rows, 3)."""
    return np.array([step for group in groups for step in group], dtype=PARAMETER_DTYPE)


def norm_steps(constants: Norm) -> Array:
    """Those of a norm as parameters (rows, 3): mean, thresholds, mantissas."""
    thresholds = [(-threshold, 1, 0) for threshold in constants.thresholds]
    return step_rows([constants.mean], thresholds, constants.mantissas)


def norm_steps_in_lanes(rows: Array, lanes: int) -> Array:
    """`norm_steps` as (rows, lanes, 3): the thresholds in lanes side by side, filled up with zeros;
    the other steps in all lanes."""
    _, thresholds, _ = np.split(rows, _AROUND_THRESHOLDS)
    filled = np.pad(thresholds, ((0, -len(thresholds) % lanes), (0, 0)))
    before, _, after = np.split(np.repeat(rows[:, np.newaxis], lanes, axis=1), _AROUND_THRESHOLDS)
    return np.concatenate([before, filled.reshape(-1, lanes, 3), after])


def _infer(places: _Places) -> Infer:
    def infer(operands: Types, attrs: Attrs) -> TensorType:
        x = operands[0]
        check_activation(x, wide=True)
        require(
            x.rank == 4,
            f"the operand of an integer softmax or norm must be a map (N, C, H, W), not {x}; "
            "reshape it in the model",
        )
        layout = PLAIN if x.is_plain else TableLayout()
        table = TensorType((TABLE_ENTRIES,), "int16", layout)
        tables = operands[places.tables]
        assert all(item == table for item in tables), f"tables are {tables}, not {table}"
        for item in operands[places.steps : places.lanes]:
            assert item.dtype == PARAMETER_DTYPE and item.shape[-1] == 3, f"parameters are {item}"
        layout_x = x.layout
        if isinstance(layout_x, ActivationLayout) and x.shape[1] % layout_x.block:
            assert len(operands) > places.lanes, "padding channels need a mask"
        return result_type(x.shape, x, attrs)

    return infer


def _steps(rows: Array) -> list[Step]:
    """The steps of a plain constant (rows, 3), or of a blocked one, which has them in all lanes."""
    plain = rows if rows.ndim == 2 else rows[:, 0]
    return [(int(bias), int(multiplier), int(shift)) for bias, multiplier, shift in plain]


def _tables(arrays: Sequence[Array], types: Sequence[TensorType], places: _Places) -> list[Array]:
    pairs = zip(arrays[places.tables], types[places.tables], strict=True)
    return [kind.layout.unpack(array) for array, kind in pairs]


def _channels(x: TensorType, values: Array) -> Array:
    """A map as (C, N, H, W), with its padding channels."""
    return np.moveaxis(x.layout.unpack(values).astype(np.int64), 1, 0)


def _finished(x: TensorType, result: Array, attrs: Attrs) -> Array:
    dtype = result_type(x.shape, x, attrs).dtype
    return np.ascontiguousarray(x.layout.pack(np.moveaxis(result, 0, 1).astype(dtype)))


def _evaluate_softmax(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer softmax over the channels of each pixel; mask is -128 for padding, else 0."""
    x = types[0]
    exp, bits, reciprocal = _tables(arrays, types, _OF_SOFTMAX)
    index, *bit_steps, mantissa = _steps(arrays[_OF_SOFTMAX.steps])
    constants = Softmax(
        exp, bits, reciprocal, index, tuple(bit_steps), mantissa, whole(attrs, "sum_bits")
    )
    keys = _channels(x, arrays[0])
    lanes = _OF_SOFTMAX.lanes
    if len(arrays) > lanes:
        keys = keys + _channels(types[lanes], arrays[lanes]) * MASK_FACTOR
    params = arrays[_OF_SOFTMAX.params].reshape(-1, 3)[0]
    finish = (whole(attrs, name) for name in REQUANTIZE_ATTRS)
    return _finished(x, softmax(keys, constants, params, *finish), attrs)


def _norm_over_channels(centred: bool) -> Evaluate:
    def evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
        """Integer norm over the channels of each pixel; signs are -1 for a negative gain, 0 for
        padding, else 1."""
        x = types[0]
        low, high = _tables(arrays, types, _OF_NORM)
        before, thresholds, after = np.split(arrays[_OF_NORM.steps], _AROUND_THRESHOLDS)
        (mean,), (first, second) = _steps(before), _steps(after)
        zero_point, fraction, square, spare, epsilon = (whole(attrs, x) for x in NORM_ATTRS)
        constants = Norm(
            channels=types[0].shape[1],
            centred=centred,
            zero_point=zero_point,
            fraction_bits=fraction,
            square_shift=square,
            spare_shift=spare,
            epsilon=epsilon,
            low=low,
            high=high,
            mean=mean,
            thresholds=tuple(-int(bias) for bias, used, _ in thresholds.reshape(-1, 3) if used),
            mantissas=(first, second),
        )
        channels = _channels(x, arrays[0])
        lanes = _OF_NORM.lanes
        signs = _channels(types[lanes], arrays[lanes]) if len(arrays) > lanes else None
        params = arrays[_OF_NORM.params].reshape(-1, 3)
        finish = (whole(attrs, name) for name in REQUANTIZE_ATTRS)
        return _finished(x, norm(channels, constants, signs, params, *finish), attrs)

    return evaluate


Q_SOFTMAX = define(
    "q_softmax",
    ("x", *SOFTMAX_TABLES, "steps", "params", "mask"),
    {"sum_bits": "int", **REQUANTIZE_ATTRS},
    _infer(_OF_SOFTMAX),
    _evaluate_softmax,
    num_optional=1,
    targets=(ACCELERATOR,),
)


def _norm(name: str, centred: bool) -> OpDef:
    return OpDef(
        f"q_{name}_norm",
        ("x", *NORM_TABLES, "steps", "params", "signs"),
        {**NORM_ATTRS, **REQUANTIZE_ATTRS},
        _infer(_OF_NORM),
        _norm_over_channels(centred),
        num_optional=1,
        targets=(ACCELERATOR,),
    )


Q_LAYER_NORM = register(_norm("layer", centred=True))
Q_RMS_NORM = register(_norm("rms", centred=False))

ROW_OPERATORS = (Q_SOFTMAX.name, Q_LAYER_NORM.name, Q_RMS_NORM.name)
