"""What the text of the loop IR leaves out, for the printer and the parser to agree on.

A constant is a bare number where the operands next to it, or the place of the expression, tell
its dtype; elsewhere it bears it: ``x[i] + 5``, but ``select(c, 5:int64, 6:int64) < 7:int64``. The
same holds for the result of an intrinsic whose arguments do not tell it.
"""

import json
import re

from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import (
    And,
    Binary,
    Call,
    Cast,
    Compare,
    Expr,
    IntImm,
    Load,
    Not,
    Or,
    Reduce,
    Select,
    Var,
)
from daedal.compiler.tir.intrinsics import INTRINSICS

__all__ = [
    "DEFAULT_FLOAT",
    "LEVEL",
    "LITERALS",
    "NAME",
    "operand_dtypes",
    "plain_name",
    "quoted",
    "told_dtype",
]

LEVEL = {
    "|": 1, "&": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4,
    "<<": 5, ">>": 5, "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7,
}  # fmt: skip
"""How strongly an infix operator binds; all of them associate to the left."""

DEFAULT_FLOAT = "float32"
"""The dtype of a float constant that nothing tells; that of an integer is `INDEX_DTYPE`."""

LITERALS = ("True", "False", "inf", "nan")

NAME = r'[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"(?:_\d+_)?'
"""A name in the text: a word, or a JSON string; a suffix ``_1_`` tells it from an outer one."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SUFFIX = re.compile(r"_\d+_\Z", re.ASCII)


def quoted(name: str) -> str:
    """A name as it stands in the text: in quotes where it would read as something else."""
    plain = _WORD.fullmatch(name) and name not in LITERALS and not _SUFFIX.search(name)
    return name if plain else json.dumps(name)


def plain_name(text: str) -> str:
    """The name that `text` stands for, without quotes and without the suffix of a shadowing one.

    Raises ValueError where the text in quotes is no JSON string.
    """
    name = _SUFFIX.sub("", text)
    return str(json.loads(name)) if name.startswith('"') else name


def told_dtype(expr: Expr) -> str | None:
    """The dtype that the text of an expression tells by itself; None where all is constants."""
    match expr:
        case Var() | Load() | Cast() | Compare() | And() | Or() | Not():
            return expr.dtype
        case IntImm(_, "bool"):
            return "bool"
        case Binary(_, a, b) | Select(_, a, b):
            return told_dtype(a) or told_dtype(b)
        case Call(name, args) if name in INTRINSICS and INTRINSICS[name].uniform:
            return _first_told(args)
        case Reduce(_, value, _):
            return told_dtype(value)
    return None


def operand_dtypes(expr: Expr, wanted: str | None) -> tuple[str | None, ...]:
    """The dtype that a bare constant takes as each operand of `expr`, in the order of `children`.

    `wanted` is what the place of `expr` asks for. None stands for the defaults: `INDEX_DTYPE`, and
    `DEFAULT_FLOAT` of a float.
    """
    match expr:
        case Binary(_, a, b):
            return (told_dtype(a) or told_dtype(b) or wanted,) * 2
        case Compare(_, a, b):
            return (told_dtype(a) or told_dtype(b),) * 2
        case And() | Or():
            return ("bool", "bool")
        case Not():
            return ("bool",)
        case Select(_, true, false):
            value = told_dtype(true) or told_dtype(false) or wanted
            return ("bool", value, value)
        case Load(_, indices):
            return (INDEX_DTYPE,) * len(indices)
        case Call(name, args):
            return (_argument_dtype(name, args, wanted),) * len(args)
        case Reduce():
            return (wanted,)
    return (None,)


def _argument_dtype(name: str, args: tuple[Expr, ...], wanted: str | None) -> str | None:
    intrinsic = INTRINSICS.get(name)
    if intrinsic is not None and intrinsic.constants is not None:
        return intrinsic.constants
    uniform = intrinsic is not None and intrinsic.uniform
    return _first_told(args) or (wanted if uniform else None)


def _first_told(args: tuple[Expr, ...]) -> str | None:
    return next((found for arg in args if (found := told_dtype(arg))), None)
