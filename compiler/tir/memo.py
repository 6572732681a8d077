"""Remembering what was derived from an immutable node."""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Memo"]

N = TypeVar("N")
R = TypeVar("R")


class Memo(Generic[N, R]):
    """A function of one immutable node that keeps each result in the node it belongs to.

    Primitives rebuild only the statements on the way to what they change: whatever was derived from
    the others is found again, and vanishes with them. Usable as a decorator.

    Parameters
    ----------
    function
        Its result follows from its argument alone.
    """

    def __init__(self, function: Callable[[N], R]) -> None:
        self.function = function
        self.key = f"{function.__module__}.{function.__qualname__}"
        self.__doc__ = function.__doc__

    def __call__(self, node: N) -> R:
        kept = node.__dict__
        if self.key not in kept:
            kept[self.key] = self.function(node)
        found: R = kept[self.key]
        return found

    def remember(self, node: N, result: R) -> None:
        """Keep a result that is known already."""
        node.__dict__[self.key] = result
