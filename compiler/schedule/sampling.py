"""Choices that a schedule makes at random and a tuner changes: tile sizes and categories."""

from collections.abc import Sequence
from functools import cache
from math import isqrt
from typing import TypeVar

import numpy as np

from daedal.common.errors import ScheduleError

__all__ = ["Sampled", "SampledInt", "SampledStr", "choose", "choose_tile", "perfect_tiles"]

C = TypeVar("C", int, str)
"""What a candidate may be."""

MAX_DEPTH = 16
"""Largest number of factors of one loop."""

MAX_TILES = 100_000
"""Largest number of tilings that are listed to draw from."""


class Sampled:
    """A value that a schedule chose: a later call that is given it follows the decision."""


class SampledInt(Sampled, int):
    """A chosen integer; arithmetic on it gives a plain one."""


class SampledStr(Sampled, str):
    """A chosen text."""


@cache
def perfect_tiles(
    extent: int, num_tiles: int, max_innermost: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """All ways to write `extent` as a product of `num_tiles` factors, in rising order.

    >>> perfect_tiles(6, 2, max_innermost=3)
    ((2, 3), (3, 2), (6, 1))
    """
    if num_tiles == 1:
        return ((extent,),) if max_innermost is None or extent <= max_innermost else ()
    small = [size for size in range(1, isqrt(extent) + 1) if extent % size == 0]
    found: list[tuple[int, ...]] = []
    for first in sorted({*small, *(extent // size for size in small)}):
        rest = perfect_tiles(extent // first, num_tiles - 1, max_innermost)
        found += [(first, *tile) for tile in rest]
        if len(found) > MAX_TILES:
            raise ScheduleError(
                f"an extent must have at most {MAX_TILES} tilings to draw from; {extent} has more "
                f"into {num_tiles}; sample fewer tiles, or split first"
            )
    return tuple(found)


def choose_tile(
    rng: np.random.Generator,
    extent: int,
    num_tiles: int,
    max_innermost: int | None,
    decision: Sequence[int] | None,
    name: str,
) -> list[int]:
    """The decision, checked, or one drawn with equal chance; see `Schedule.sample_perfect_tile`."""
    if not 1 <= num_tiles <= MAX_DEPTH or (max_innermost is not None and max_innermost < 1):
        raise ScheduleError(
            f"sample_perfect_tile needs 1 to {MAX_DEPTH} tiles, the innermost 1 or larger, not "
            f"{num_tiles} with at most {max_innermost} (loop {name!r})"
        )
    tiles = perfect_tiles(extent, num_tiles, max_innermost)
    if decision is None:
        if not tiles:
            raise ScheduleError(
                f"sample_perfect_tile needs a factor to draw; no single tile of {extent} is at "
                f"most {max_innermost} (loop {name!r})"
            )
        return list(tiles[int(rng.integers(len(tiles)))])
    if tuple(decision) not in tiles:
        limit = "" if max_innermost is None else f", the last at most {max_innermost}"
        raise ScheduleError(
            f"a decision on tiles must be {num_tiles} factors of the extent {extent}{limit}, not "
            f"{list(decision)} (loop {name!r})"
        )
    return list(decision)


def choose(
    rng: np.random.Generator,
    candidates: Sequence[C],
    weights: Sequence[float] | None,
    decision: C | None,
) -> C:
    """The decision, checked, or a candidate drawn by weight; see `Schedule.sample_categorical`."""
    if not candidates or len(set(map(str, candidates))) < len(candidates):
        raise ScheduleError(
            f"sample_categorical needs distinct candidates, at least one, not {list(candidates)}"
        )
    for candidate in candidates:
        known = isinstance(candidate, int | str) and not isinstance(candidate, bool)
        if not known or str(candidate).startswith("%"):
            raise ScheduleError(
                f"a candidate must be an integer or a text without % in front, not {candidate!r}"
            )
    shares = np.ones(len(candidates)) if weights is None else np.asarray(weights, dtype=float)
    counted = shares.shape == (len(candidates),) and np.isfinite(shares).all()
    if not counted or (shares < 0).any() or not shares.sum() > 0:
        raise ScheduleError(
            f"sample_categorical needs one finite weight per candidate, none negative and not all "
            f"0, not {weights} for {len(candidates)}"
        )
    if decision is None:
        return candidates[int(rng.choice(len(candidates), p=shares / shares.sum()))]
    if decision not in candidates:
        raise ScheduleError(f"a decision must be one of {list(candidates)}, not {decision!r}")
    return decision
