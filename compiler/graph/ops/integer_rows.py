"""Integer softmax and norms over the channels of each pixel, as `daedal.isa.softmax` and `.norms`
define them.

Tables have 16-bit entries. `steps` are the parameters of the ALU's REQUANTIZE and LOOKUP between
the operand and the result, which `params` finish. A blocked map has padding channels, which do not
count: then there is one operand more, int8 per channel, which is packed with its padding.
"""

from collections.abc import Callable, Sequence

import numpy as np

from daedal.compiler.graph.layout import PLAIN, ActivationLayout
from daedal.compiler.graph.ops.integer import (
    PARAMETER_DTYPE,
    REQUANTIZE_ATTRS,
    check_activation,
    result_type,
)
from daedal.compiler.graph.ops.registry import Array, Attrs, OpDef, register, require, whole
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.target import ACCELERATOR
from daedal.isa.norms import Norm, norm
from daedal.isa.row_functions import Step
from daedal.isa.scratchpad import TABLE_ENTRIES
from daedal.isa.softmax import MASK_FACTOR, Softmax, softmax

__all__ = [
    "NORM_ATTRS",
    "NORM_TABLES",
    "Q_LAYER_NORM",
    "Q_RMS_NORM",
    "Q_SOFTMAX",
    "ROW_OPERATORS",
    "SOFTMAX_TABLES",
    "step_rows",
]

SOFTMAX_TABLES = ("exp", "bits", "reciprocal")
NORM_TABLES = ("bits", "low", "high")
_FIRST_TABLE, _STEPS, _PARAMS, _LANES = 1, 4, 5, 6

NORM_ATTRS = {
    "zero_point_x": "int",
    "fraction_bits": "int",
    "square_shift": "int",
    "spare_shift": "int",
    "epsilon": "int",
}
"""Those of `daedal.isa.norms.Norm`, in its order."""

_Evaluate = Callable[[Sequence[Array], Sequence[TensorType], Attrs], Array]


def step_rows(*groups: Sequence[Step]) -> Array:
    """All steps as parameters (rows, 3)."""
    return np.array([step for group in groups for step in group], dtype=PARAMETER_DTYPE)


def _infer(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x = operands[0]
    check_activation(x, wide=True)
    require(
        x.rank == 4,
        f"the operand of an integer softmax or norm must be a map (N, C, H, W), not {x}; "
        "reshape it in the model",
    )
    layout = PLAIN if x.is_plain else TableLayout()
    table = TensorType((TABLE_ENTRIES,), "int16", layout)
    tables = operands[_FIRST_TABLE:_STEPS]
    assert all(item == table for item in tables), f"tables are {tables}, not {table}"
    for item in operands[_STEPS:_LANES]:
        assert item.dtype == PARAMETER_DTYPE and item.shape[-1] == 3, f"parameters are {item}"
    layout_x = x.layout
    if isinstance(layout_x, ActivationLayout) and x.shape[1] % layout_x.block:
        assert len(operands) > _LANES, "padding channels need a mask"
    return result_type(x.shape, x, attrs)


def _steps(rows: Array) -> list[Step]:
    """The steps of a plain constant (rows, 3), or of a blocked one, which has them in all lanes."""
    plain = rows if rows.ndim == 2 else rows[:, 0]
    return [(int(bias), int(multiplier), int(shift)) for bias, multiplier, shift in plain]


def _tables(arrays: Sequence[Array], types: Sequence[TensorType]) -> list[Array]:
    return [types[place].layout.unpack(arrays[place]) for place in range(_FIRST_TABLE, _STEPS)]


def _channels(x: TensorType, values: Array) -> Array:
    """A map as (C, N, H, W), with its padding channels."""
    return np.moveaxis(x.layout.unpack(values).astype(np.int64), 1, 0)


def _finished(x: TensorType, result: Array, attrs: Attrs) -> Array:
    dtype = result_type(x.shape, x, attrs).dtype
    return np.ascontiguousarray(x.layout.pack(np.moveaxis(result, 0, 1).astype(dtype)))


def _evaluate_softmax(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
    x = types[0]
    exp, bits, reciprocal = _tables(arrays, types)
    index, *bit_steps, mantissa = _steps(arrays[_STEPS])
    constants = Softmax(
        exp, bits, reciprocal, index, tuple(bit_steps), mantissa, whole(attrs, "sum_bits")
    )
    keys = _channels(x, arrays[0])
    if len(arrays) > _LANES:
        keys = keys + _channels(types[_LANES], arrays[_LANES]) * MASK_FACTOR
    params = arrays[_PARAMS].reshape(-1, 3)[0]
    finish = (whole(attrs, name) for name in REQUANTIZE_ATTRS)
    return _finished(x, softmax(keys, constants, params, *finish), attrs)


def _norm_over_channels(centred: bool) -> _Evaluate:
    def evaluate(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
        x = types[0]
        bits, low, high = _tables(arrays, types)
        mean, *bit_steps, first, second = _steps(arrays[_STEPS])
        zero_point, fraction, square, spare, epsilon = (whole(attrs, x) for x in NORM_ATTRS)
        constants = Norm(
            channels=types[0].shape[1],
            centred=centred,
            zero_point=zero_point,
            fraction_bits=fraction,
            square_shift=square,
            spare_shift=spare,
            epsilon=epsilon,
            bits=bits,
            low=low,
            high=high,
            mean=mean,
            bit_steps=tuple(bit_steps),
            mantissas=(first, second),
        )
        channels = _channels(x, arrays[0])
        signs = _channels(types[_LANES], arrays[_LANES]) if len(arrays) > _LANES else None
        params = arrays[_PARAMS].reshape(-1, 3)
        finish = (whole(attrs, name) for name in REQUANTIZE_ATTRS)
        return _finished(x, norm(channels, constants, signs, params, *finish), attrs)

    return evaluate


Q_SOFTMAX = register(
    OpDef(
        "q_softmax",
        ("x", *SOFTMAX_TABLES, "steps", "params", "mask"),
        {"sum_bits": "int", **REQUANTIZE_ATTRS},
        _infer,
        _evaluate_softmax,
        num_optional=1,
        targets=(ACCELERATOR,),
        doc="integer softmax over the channels of each pixel; mask is -128 for padding, else 0",
    )
)


def _norm(name: str, centred: bool) -> OpDef:
    return OpDef(
        f"q_{name}_norm",
        ("x", *NORM_TABLES, "steps", "params", "signs"),
        {**NORM_ATTRS, **REQUANTIZE_ATTRS},
        _infer,
        _norm_over_channels(centred),
        num_optional=1,
        targets=(ACCELERATOR,),
        doc=f"integer {name} norm over the channels of each pixel; signs are -1 for a negative "
        "gain, 0 for padding, else 1",
    )


Q_LAYER_NORM = register(_norm("layer", centred=True))
Q_RMS_NORM = register(_norm("rms", centred=False))

ROW_OPERATORS = (Q_SOFTMAX.name, Q_LAYER_NORM.name, Q_RMS_NORM.name)
