"""The front door: prove(claims) -> Result."""

import time
from dataclasses import dataclass

from daedal.hw.formal.aiger import lower
from daedal.hw.formal.claims import Claims
from daedal.hw.formal.engine import Unrolled, invariant

__all__ = ["Result", "prove"]


@dataclass(frozen=True)
class Result:
    """What was found.

    Attributes
    ----------
    broken : name of a claim that fails, with the cycle (from 0) of the shortest run that shows it.
    reached : cases that a run of `depth` cycles shows, with the cycle. missed : the others.
    depth : cycles of all runs that were searched.
    frames : the claims hold in runs of every length; frames of the search. None: not decided.
    seconds : wall-clock time.
    """

    broken: tuple[str, int] | None
    reached: dict[str, int]
    missed: tuple[str, ...]
    depth: int
    frames: int | None
    seconds: float

    @property
    def holds(self) -> bool:
        """No claim failed and every case was reached."""
        return self.broken is None and not self.missed

    @property
    def proved(self) -> bool:
        """The claims hold for every length of run."""
        return self.holds and self.frames is not None


def prove(claims: Claims, *, depth: int, max_frames: int = 0) -> Result:
    """Search all runs of up to `depth` cycles, then, with `max_frames`, runs of any length.

    Raises ToolError if Yosys or z3 is missing.
    """
    start = time.perf_counter()
    graph = lower(claims)
    runs = Unrolled(graph)
    reached: dict[str, int] = {}
    for cycle in range(depth):
        runs.extend()
        for name in claims.always:
            if runs.possible(f"always_{name}", False):
                took = time.perf_counter() - start
                return Result((name, cycle), reached, (), cycle + 1, None, took)
        for name in claims.reachable:
            if name not in reached and runs.possible(f"reachable_{name}", True):
                reached[name] = cycle
    missed = tuple(name for name in claims.reachable if name not in reached)
    frames = invariant(graph, max_frames=max_frames) if max_frames else None
    return Result(None, reached, missed, depth, frames, time.perf_counter() - start)
