"""Checks values of an untrusted JSON manifest: right type, in range, printable.

Input: whatever `json.loads` returned. Output: the value; ValueError if it is invalid.
"""

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["MAX_NUMBER", "flag", "text", "whole", "wholes", "word"]

MAX_NUMBER = 1 << 53
"""Integers up to here are exact in any JSON reader."""

_MAX_LENGTH = 4_000
_MAX_RANK = 32


def whole(value: Any, low: int = 0, high: int = MAX_NUMBER) -> int:
    """An integer from `low` to `high`, both inclusive; True and 1.0 are refused."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"a whole number of {low} to {high} must stand there")
    return value


def wholes(values: Any, low: int = 0, high: int = MAX_NUMBER) -> tuple[int, ...]:
    """A short list of integers: a shape, or an order of axes."""
    if not isinstance(values, Sequence) or len(values) > _MAX_RANK:
        raise ValueError(f"a list of at most {_MAX_RANK} numbers must stand there")
    return tuple(whole(value, low, high) for value in values)


def text(value: Any) -> str:
    """A printable text: a name, or a sentence."""
    if not isinstance(value, str) or len(value) > _MAX_LENGTH or not value.isprintable():
        raise ValueError(f"a printable text of at most {_MAX_LENGTH} characters must stand there")
    return value


def word(value: Any) -> str:
    """The name of an operator: letters, digits and spaces."""
    if not re.fullmatch(r"[A-Za-z0-9_. -]{0,100}", text(value)):
        raise ValueError("a short name of letters and digits must stand there")
    return text(value)


def flag(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError("true or false must stand there")
    return value
