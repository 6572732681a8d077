"""Fused operators: an integer convolution, and an injective operator on its result.

There is one operator for each pair. It is defined as its two parts applied in sequence.
"""

from collections.abc import Mapping, Sequence

from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.integer_convolution import Q_CONV2D
from daedal.compiler.graph.ops.integer_elementwise import (
    Q_ADD,
    Q_LEAKY_RELU,
    Q_MAX_REQUANTIZED,
    Q_MUL,
    Q_REQUANTIZE,
)
from daedal.compiler.graph.ops.registry import Array, Attrs, OpClass, OpDef, register
from daedal.compiler.graph.types import TensorType
from daedal.compiler.target import ACCELERATOR

__all__ = ["CONVOLUTIONS", "CONV_PREFIX", "FUSED", "fused_attrs", "fused_operator", "tail_of"]

CONV_PREFIX = "conv_"
"""Before the attributes that finish the convolution; those of the second part bear their own
names."""

_OWN_ATTRS = tuple(name for name in Q_CONV2D.attrs if name not in REQUANTIZE_ATTRS)
_CONV_OPERANDS = ("x", "w", "conv_params")
_NUM_CONV = len(_CONV_OPERANDS)


def fused_attrs(conv: Attrs, tail: Attrs) -> dict[str, int | float | str | tuple[int, ...]]:
    """Attributes of a fused operator from those of its parts."""
    return {
        **{name: conv[name] for name in _OWN_ATTRS},
        **{CONV_PREFIX + name: conv[name] for name in REQUANTIZE_ATTRS},
        **tail,
    }


def _conv_attrs(attrs: Attrs) -> Attrs:
    finish = {name: attrs[CONV_PREFIX + name] for name in REQUANTIZE_ATTRS}
    return {**{name: attrs[name] for name in _OWN_ATTRS}, **finish}


def _fuse(tail: OpDef) -> OpDef:
    """The fused operator of a convolution and `tail`, which reads its result as first operand."""

    def tail_attrs(attrs: Attrs) -> Attrs:
        return {name: attrs[name] for name in tail.attrs}

    def infer(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
        conv = Q_CONV2D.infer(operands[:_NUM_CONV], _conv_attrs(attrs))
        return tail.infer([conv, *operands[_NUM_CONV:]], tail_attrs(attrs))

    def evaluate(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
        conv_attrs = _conv_attrs(attrs)
        conv = Q_CONV2D.evaluate(arrays[:_NUM_CONV], types[:_NUM_CONV], conv_attrs)
        kind = Q_CONV2D.infer(types[:_NUM_CONV], conv_attrs)
        return tail.evaluate(
            [conv, *arrays[_NUM_CONV:]], [kind, *types[_NUM_CONV:]], tail_attrs(attrs)
        )

    others = tuple("skip" if name == "b" else name for name in tail.operands[1:])
    return OpDef(
        f"{Q_CONV2D.name}_{tail.name.removeprefix('q_')}",
        (*_CONV_OPERANDS, *others),
        {
            **{name: Q_CONV2D.attrs[name] for name in _OWN_ATTRS},
            **{CONV_PREFIX + name: kind for name, kind in REQUANTIZE_ATTRS.items()},
            **tail.attrs,
        },
        infer,
        evaluate,
        op_class=OpClass.COMPLEX,
        targets=(ACCELERATOR,),
        doc=f"{tail.name} of a {Q_CONV2D.name}, whose result stays on chip",
    )


FUSED: Mapping[str, OpDef] = {
    tail.name: register(_fuse(tail))
    for tail in (Q_ADD, Q_MUL, Q_LEAKY_RELU, Q_MAX_REQUANTIZED, Q_REQUANTIZE)
}
"""By the name of the second part."""


CONVOLUTIONS = (Q_CONV2D.name, *(operator.name for operator in FUSED.values()))
"""The operators that begin as a convolution."""

_TAILS = {operator.name: tail for tail, operator in FUSED.items()}


def tail_of(op: str) -> str | None:
    """The second part of a fused operator, or None for any other."""
    return _TAILS.get(op)


def fused_operator(producer: OpDef, consumer: OpDef) -> OpDef | None:
    """The fused operator that applies `consumer` to the result of `producer`, or None.

    The consumer must be injective. The producer must be complex, so that its products continue
    while the consumer works.
    """
    classes = (producer.op_class, consumer.op_class)
    if classes != (OpClass.COMPLEX, OpClass.INJECTIVE) or producer is not Q_CONV2D:
        return None
    return FUSED.get(consumer.name)
