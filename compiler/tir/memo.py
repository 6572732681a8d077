"""Caches results derived from immutable nodes."""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Memo"]

N = TypeVar("N")
R = TypeVar("R")


class Memo(Generic[N, R]):
    """A function of one immutable node that caches each result in its node.

    Primitives rebuild only the statements on the path to a change, so results for all others stay
    cached. They are freed together with their nodes. Usable as a decorator.

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
