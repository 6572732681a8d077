"""What the integer operators share: requantization, parameters, blocked evaluation.

Every integer operator ends in the machine's REQUANTIZE: its last operand `params` holds
``[bias, multiplier, shift]`` in the last axis (int64), and its attributes `zero_point`, `low` and
`high` finish the result: ``clip(rhe((acc + bias) * multiplier * 2**-shift) + zero_point, low,
high)``. On a blocked tensor the operator computes the padded channels too, so every byte matches
the machine's, even in unused lanes.

Tensors have 8 bits or are *wide*: they hold 16-bit values without zero point, as int16 where they
are plain and as int32 where they are blocked, which is a row of accumulators in memory. The bounds
of a result say which it is.
"""

from collections.abc import Callable, Sequence

import numpy as np

from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.layout import ActivationLayout, Layout
from daedal.compiler.graph.ops.registry import Array, Attrs, require, whole
from daedal.compiler.graph.types import TensorType
from daedal.isa import numerics
from daedal.isa.variant import Variant

__all__ = [
    "IDENTITY",
    "PARAMETER_DTYPE",
    "REQUANTIZE_ATTRS",
    "UNCHANGED",
    "UNCHANGED_WIDE",
    "check_activation",
    "check_params",
    "dtype_in",
    "element_bits",
    "has_wide_result",
    "is_wide",
    "on_padded_maps",
    "requantize",
    "result_type",
]

REQUANTIZE_ATTRS = {"zero_point": "int", "low": "int", "high": "int"}

PARAMETER_DTYPE = "int64"
"""Of bias, multiplier and shift; no other operand has it."""

IDENTITY = np.array([[0, 1, 0]], dtype=PARAMETER_DTYPE)
"""One row of parameters of a REQUANTIZE that only adds its zero point and applies its bounds."""

UNCHANGED: dict[str, AttrValue] = {"zero_point": 0, "low": -128, "high": 127}
"""Attributes of a REQUANTIZE that, with the parameters `IDENTITY`, changes no int8 value."""

UNCHANGED_WIDE: dict[str, AttrValue] = {"zero_point": 0, "low": -(1 << 15), "high": (1 << 15) - 1}
"""The same for int16."""

_DTYPE = "int8"
_WIDE, _WIDE_BLOCKED = "int16", "int32"


def dtype_in(layout: Layout, *, wide: bool) -> str:
    """The element type of an activation in `layout`."""
    if not wide:
        return _DTYPE
    return _WIDE_BLOCKED if isinstance(layout, ActivationLayout) else _WIDE


def is_wide(x: TensorType) -> bool:
    """Whether the activation `x` has 16-bit values."""
    return x.dtype == dtype_in(x.layout, wide=True)


def element_bits(x: TensorType, variant: Variant) -> int:
    """Bits in memory of an element of the blocked activation `x`."""
    return variant.array.accumulator_bits if is_wide(x) else variant.array.input_bits


def has_wide_result(attrs: Attrs, prefix: str = "") -> bool:
    """Whether the bounds among `attrs` are those of a wide result: they exceed 8 bits."""
    low, high = (whole(attrs, prefix + bound) for bound in ("low", "high"))
    return low < -128 or high > 127


def check_activation(x: TensorType, *, wide: bool = False) -> None:
    """Raise ModelError unless `x` can be an activation of an operator, which may take wide ones."""
    require(
        x.dtype == _DTYPE or (wide and is_wide(x)),
        f"activations on the accelerator must be {_DTYPE}, not {x.dtype}; quantize the model to "
        "8 bits",
    )


def check_params(params: TensorType, rows: int, x: TensorType, channels: bool) -> None:
    """Assert the parameter shape: (rows, 3) plain, (rows / block_out, block_out, 3) blocked.

    With `channels`, each may have several rows: (rows / block_out, classes, block_out, 3).
    """
    assert params.dtype == PARAMETER_DTYPE and params.shape[-1] == 3, f"params are {params}"
    if x.is_plain:
        assert params.shape == (rows, 3), f"params are {params} for {rows} rows"
    elif not channels:
        assert params.rank == 3 and params.shape[0] == rows, f"params are {params}"
    else:
        assert params.rank in (3, 4) and params.shape[0] * params.shape[-2] >= rows, f"{params}"


def result_type(shape: tuple[int, ...], x: TensorType, attrs: Attrs) -> TensorType:
    """Type of a result of logical `shape` in the layout of the operand `x`, by its bounds."""
    return TensorType(shape, dtype_in(x.layout, wide=has_wide_result(attrs)), x.layout)


def requantize(acc: Array, params: Array, attrs: Attrs) -> Array:
    """Apply REQUANTIZE; `params` is (..., 3) and broadcasts against `acc` without its last axis."""
    return numerics.requantize(
        acc,
        params[..., 0],
        params[..., 1],
        params[..., 2],
        whole(attrs, "zero_point"),
        whole(attrs, "low"),
        whole(attrs, "high"),
    ).astype(_WIDE if has_wide_result(attrs) else _DTYPE)


def on_padded_maps(
    evaluate: Callable[[Sequence[Array]], Array], arrays: Sequence[Array], x: TensorType
) -> Array:
    """Run `evaluate` on activations, unpacked with their padding, and pack its result."""
    if not isinstance(x.layout, ActivationLayout):
        return evaluate(arrays)
    result = evaluate([x.layout.unpack(array) for array in arrays])
    return np.ascontiguousarray(x.layout.pack(result))
