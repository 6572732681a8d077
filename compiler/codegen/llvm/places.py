"""`Lane`, `Place`: the lanes of a vectorized loop, and where in memory their elements lie."""

from dataclasses import dataclass

from daedal.compiler.tir.expr import Var

__all__ = ["REPEATED", "Lane", "Place"]

REPEATED = (2, 4, 8, 16)
"""How many lanes may read one element of a vector: these divide the number of its first lane."""


@dataclass(frozen=True)
class Lane:
    """The loop whose iterations `first`, `first` + 1, ... are lanes, and how many."""

    var: Var
    count: int
    first: str | int = 0


@dataclass(frozen=True)
class Place:
    """Where an element lies: ``base[offset]``, and from lane to lane `step` elements further.

    `step` is 0 for one place of all lanes, and None where the lanes' places are a vector `offset`.
    Where `repeated` is more than 1, so many lanes each have one place.
    """

    offset: str
    constant: int
    step: int | None
    repeated: int = 1
