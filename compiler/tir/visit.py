"""Walking and rewriting expressions."""

from collections.abc import Callable, Iterator, Mapping
from operator import is_not
from typing import Any

from daedal.compiler.tir.expr import (
    And,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    Load,
    Not,
    Or,
    Reduce,
    Select,
    Var,
    binary,
)
from daedal.compiler.tir.memo import Memo

__all__ = [
    "children",
    "free_vars",
    "loads",
    "rebuilt",
    "replace_buffers",
    "rewrite",
    "substitute",
    "walk",
]


_OPERANDS: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((Binary, Compare, And, Or), lambda node: (node.a, node.b)),
    Not: lambda node: (node.a,),
    **dict.fromkeys((Cast, Reduce), lambda node: (node.value,)),
    Select: lambda node: (node.condition, node.true, node.false),
    Load: lambda node: node.indices,
    Call: lambda node: node.args,
}
"""Of each class of nodes that has operands."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of a node, in order."""
    operands = _OPERANDS.get(type(expr))
    return () if operands is None else operands(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node, parents first."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        operands = _OPERANDS.get(type(node))
        if operands is not None:
            waiting += operands(node)[::-1]


@Memo
def free_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables in `expr`, each once, in the order of their first appearance."""
    if isinstance(expr, Var):
        return (expr,)
    found = dict.fromkeys(var for child in children(expr) for var in free_vars(child))
    return tuple(found)


@Memo
def loads(expr: Expr) -> tuple[Load, ...]:
    """Every load in `expr`, in order; equal ones are listed once."""
    return tuple(dict.fromkeys(node for node in walk(expr) if isinstance(node, Load)))


def rewrite(expr: Expr, visit: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild bottom-up; where `visit` returns an expression it stands for the node."""
    operands, node = _OPERANDS.get(type(expr)), expr
    if operands is not None:
        node = rebuilt(expr, tuple([rewrite(part, visit) for part in operands(expr)]))
    replaced = visit(node)
    return node if replaced is None else replaced


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`expr` with variables replaced."""
    if isinstance(expr, Var):
        return values.get(expr, expr)
    parts = children(expr)
    if not parts or not any(var in values for var in free_vars(expr)):
        return expr
    return rebuilt(expr, tuple(substitute(part, values) for part in parts))


def replace_buffers(expr: Expr, buffers: Mapping[Buffer, Buffer]) -> Expr:
    """`expr` with the buffers of its loads replaced; indices stay."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer in buffers:
            return Load(buffers[node.buffer], node.indices, node.pad_value)
        return None

    return rewrite(expr, visit)


def rebuilt(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`expr` with other operands, in the order of `children`."""
    if not any(map(is_not, parts, _OPERANDS[type(expr)](expr))):
        return expr
    return _REBUILT[type(expr)](expr, *parts)


_REBUILT: dict[type[Expr], Callable[..., Expr]] = {
    Binary: lambda node, a, b: binary(node.op, a, b),
    Compare: lambda node, a, b: Compare(node.op, a, b),
    And: lambda _, a, b: And(a, b),
    Or: lambda _, a, b: Or(a, b),
    Not: lambda _, a: Not(a),
    Select: lambda _, condition, true, false: Select(condition, true, false),
    Cast: lambda node, value: value.astype(node.dtype),
    Reduce: lambda node, value: Reduce(node.op, value, node.axes),
    Load: lambda node, *indices: Load(node.buffer, indices, node.pad_value),
    Call: lambda node, *args: Call(node.name, args, node.dtype),
}
"""What makes a node of each class with operands anew."""
