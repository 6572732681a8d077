"""Specializes kernels: the same code with other values for some module-level names."""

import types
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["with_names"]


def with_names(function: Callable[..., Any], names: Mapping[str, Any]) -> types.FunctionType:
    """A copy of a Python function that sees `names` in place of its module's."""
    copied = types.FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__annotations__ = dict(function.__annotations__)
    copied.__qualname__ = function.__qualname__
    copied.__module__ = function.__module__
    copied.__doc__ = function.__doc__
    return copied
