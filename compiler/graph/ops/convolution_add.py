"""Integer convolution with the addition of another map."""

from collections.abc import Sequence

from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.integer_convolution import Q_CONV2D
from daedal.compiler.graph.ops.integer_elementwise import Q_ADD
from daedal.compiler.graph.ops.registry import Array, Attrs, OpDef, register
from daedal.compiler.graph.types import TensorType

__all__ = ["CONV_PREFIX", "Q_CONV2D_ADD"]

CONV_PREFIX = "conv_"
"""Before the attributes that finish the convolution; those of the addition bear their own names."""

_OWN_ATTRS = ("strides", "pads", "dilations", "groups", "pad_value")


def _conv_attrs(attrs: Attrs) -> Attrs:
    finish = {name: attrs[CONV_PREFIX + name] for name in REQUANTIZE_ATTRS}
    return {**{name: attrs[name] for name in _OWN_ATTRS}, **finish}


def _add_attrs(attrs: Attrs) -> Attrs:
    factors = {"a": attrs["multiplier_conv"], "b": attrs["multiplier_skip"]}
    return {
        **{f"multiplier_{operand}": factor for operand, factor in factors.items()},
        **{name: attrs[name] for name in REQUANTIZE_ATTRS},
    }


def _infer_q_conv2d_add(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
    x, w, conv_params, skip, params = operands
    conv = Q_CONV2D.infer([x, w, conv_params], _conv_attrs(attrs))
    return Q_ADD.infer([conv, skip, params], _add_attrs(attrs))


def _evaluate_q_conv2d_add(
    arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs
) -> Array:
    conv_attrs = _conv_attrs(attrs)
    conv = Q_CONV2D.evaluate(arrays[:3], types[:3], conv_attrs)
    kind = Q_CONV2D.infer(types[:3], conv_attrs)
    return Q_ADD.evaluate([conv, *arrays[3:]], [kind, *types[3:]], _add_attrs(attrs))


Q_CONV2D_ADD = register(
    OpDef(
        "q_conv2d_add",
        ("x", "w", "conv_params", "skip", "params"),
        {
            **{name: Q_CONV2D.attrs[name] for name in _OWN_ATTRS},
            **{CONV_PREFIX + name: kind for name, kind in REQUANTIZE_ATTRS.items()},
            "multiplier_conv": "int",
            "multiplier_skip": "int",
            **REQUANTIZE_ATTRS,
        },
        _infer_q_conv2d_add,
        _evaluate_q_conv2d_add,
        on_accelerator=True,
        doc="q_add of a q_conv2d and skip: the result of the convolution stays on chip",
    )
)
