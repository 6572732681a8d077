"""Equality of functions of the loop IR: everything but the identity of variables and buffers."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import Allocation, Block, For, PrimFunc

__all__ = ["assert_read_back", "assert_same_function", "normal_text"]


def normal_text(text: str) -> str:
    """The text of a function as the printer writes it, without indentation and comments."""
    return func_text(parse_func(text))


def assert_read_back(func: PrimFunc) -> None:
    """What is printed of `func` reads as an equal function, which prints the same."""
    text = func_text(func)
    again = parse_func(text)
    assert func_text(again) == text
    assert_same_function(again, func)


def assert_same_function(found: PrimFunc, expected: PrimFunc) -> None:
    """Two functions differ in nothing but the objects that their variables and buffers are."""
    _Pairs().check(found, expected)


class _Pairs:
    """Which variable or buffer of one function stands for which of the other."""

    def __init__(self) -> None:
        self._other: dict[Var | Buffer, Var | Buffer] = {}

    def check(self, a: Any, b: Any) -> None:
        """Compare two parts of functions: statements, expressions, tuples or plain values."""
        if isinstance(a, Var | Buffer):
            assert self._other[a] is b, f"{a} stands for {self._other[a]}, not for {b}"
        elif isinstance(a, tuple):
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                self.check(one, other)
        elif isinstance(a, Mapping):
            assert {key: _plain(item) for key, item in a.items()} == {
                key: _plain(item) for key, item in b.items()
            }
        elif is_dataclass(a):
            assert type(a) is type(b), f"{a} instead of {b}"
            self._bind(zip(_bound(a), _bound(b), strict=True))
            for item in fields(a):
                self.check(getattr(a, item.name), getattr(b, item.name))
        else:
            assert _plain(a) == _plain(b)

    def _bind(self, pairs: Iterable[tuple[Var | Buffer, Var | Buffer]]) -> None:
        for a, b in pairs:
            assert type(a) is type(b)
            for item in fields(a):
                assert getattr(a, item.name) == getattr(b, item.name)
            self._other[a] = b


def _bound(part: Any) -> tuple[Var | Buffer, ...]:
    """What a statement makes known to those inside."""
    match part:
        case PrimFunc():
            return part.params
        case For():
            return (part.var,)
        case Block():
            return part.iter_vars
        case Allocation():
            return (part.buffer,)
    return ()


def _plain(value: Any) -> tuple[type, str]:
    """A value that tells 1 from True, 0.0 from -0.0, and that equals itself where it is nan."""
    return type(value), repr(value)
