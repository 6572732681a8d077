"""Fused operators: an integer convolution, maybe with a table behind it, and an injective operator
on its result.

There is one operator for each pair. It is defined as its two parts applied in sequence.
"""

from collections.abc import Mapping

from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.integer_convolution import Q_CONV2D
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.looked_up import (
    Q_ADD_LOOKUP,
    Q_CONV2D_LOOKUP,
    Q_MUL_LOOKUP,
    TABLE,
)
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, OpDef, Types, get_op, register
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "CONVOLUTIONS",
    "CONV_PREFIX",
    "FUSED",
    "fused_attrs",
    "head_of",
    "tail_of",
]

CONV_PREFIX = "conv_"
"""Before the attributes that finish the convolution, and its parameters and table; those of the
second part bear their own names."""

_OWN_ATTRS = tuple(name for name in Q_CONV2D.attrs if name not in REQUANTIZE_ATTRS)


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


def _fuse(head: OpDef, tail: OpDef) -> OpDef:
    """The fused operator of a convolution and `tail`, which reads its result as first operand."""
    count = len(head.operands)

    def tail_attrs(attrs: Attrs) -> Attrs:
        return {name: attrs[name] for name in tail.attrs}

    def infer(operands: Types, attrs: Attrs) -> TensorType:
        conv = head.infer(operands[:count], _conv_attrs(attrs))
        return tail.infer([conv, *operands[count:]], tail_attrs(attrs))

    def evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
        """`tail` of `head`, whose result stays on chip."""
        conv_attrs = _conv_attrs(attrs)
        conv = head.evaluate(arrays[:count], types[:count], conv_attrs)
        kind = head.infer(types[:count], conv_attrs)
        return tail.evaluate([conv, *arrays[count:]], [kind, *types[count:]], tail_attrs(attrs))

    shared = (TABLE, "params")
    own = (CONV_PREFIX + name if name in shared else name for name in head.operands)
    others = ("skip" if name == "b" else name for name in tail.operands[1:])
    return OpDef(
        f"{head.name}_{tail.name.removeprefix('q_')}",
        (*own, *others),
        {
            **{name: head.attrs[name] for name in _OWN_ATTRS},
            **{CONV_PREFIX + name: kind for name, kind in REQUANTIZE_ATTRS.items()},
            **tail.attrs,
        },
        infer,
        evaluate,
        targets=(ACCELERATOR,),
    )


_HEADS = (Q_CONV2D, Q_CONV2D_LOOKUP)
_TAILS = tuple(get_op(op) for op in ELEMENTWISE if TABLE not in get_op(op).operands)
_LOOKED_UP_TAILS = (Q_ADD_LOOKUP, Q_MUL_LOOKUP)

FUSED: Mapping[tuple[str, str], OpDef] = {
    (head.name, tail.name): register(_fuse(head, tail))
    for head, tails in ((Q_CONV2D, (*_TAILS, *_LOOKED_UP_TAILS)), (Q_CONV2D_LOOKUP, _TAILS))
    for tail in tails
}
"""By the names of the two parts, of which only one has a table: a variant may hold a single one."""

CONVOLUTIONS = (*(head.name for head in _HEADS), *(operator.name for operator in FUSED.values()))
"""The operators that begin as a convolution."""

_PARTS = {operator.name: parts for parts, operator in FUSED.items()}


def tail_of(op: str) -> str | None:
    """The second part of a fused operator, or None for any other."""
    return _PARTS[op][1] if op in _PARTS else None


def head_of(op: str) -> str:
    """The convolution that one of `CONVOLUTIONS` begins as."""
    return _PARTS[op][0] if op in _PARTS else op
