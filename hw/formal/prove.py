"""The entry point: prove(claims) -> Result."""

import time
from dataclasses import dataclass

from daedal.hw.formal.aiger import lower
from daedal.hw.formal.certificate import Certificate, refusal
from daedal.hw.formal.claims import Claims
from daedal.hw.formal.engine import Unrolled, invariant

__all__ = ["Result", "prove"]


@dataclass(frozen=True)
class Result:
    """The result of a proof attempt.

    Attributes
    ----------
    broken : name of a claim that fails, with the cycle (from 0) of the shortest run that shows it.
    reached : cases that a run of `depth` cycles shows, with the cycle. missed : the others.
    depth : cycles of all runs that were searched.
    certificate : a checked proof that the claims hold in runs of every length. None: not decided.
    undecided : why there is no certificate although one was requested.
    seconds : wall-clock time.
    """

    broken: tuple[str, int] | None
    reached: dict[str, int]
    missed: tuple[str, ...]
    depth: int
    certificate: Certificate | None
    undecided: str
    seconds: float

    @property
    def holds(self) -> bool:
        """No claim failed and every case was reached."""
        return self.broken is None and not self.missed

    @property
    def proved(self) -> bool:
        """The claims hold for every length of run."""
        return self.holds and self.certificate is not None


def prove(claims: Claims, *, depth: int, max_frames: int = 0, steps: int = 0) -> Result:
    """Search all runs of up to `depth` cycles, then try to prove runs of any length.

    With `max_frames`, search for inductive clauses that imply the claims (IC3); with `steps`, try
    k-induction over that many cycles. The certificate found is written, read back and checked by
    `certificate.refusal`, which shares no code with the search.

    Raises ToolError if Yosys or z3 is missing.
    """
    start = time.perf_counter()
    graph = lower(claims)
    runs = Unrolled(graph)
    reached: dict[str, int] = {}
    for cycle in range(depth):
        runs.extend()
        broken = runs.first([f"always_{name}" for name in claims.always], False)
        if broken is not None:
            took = time.perf_counter() - start
            failing = (broken.removeprefix("always_"), cycle)
            return Result(failing, reached, (), cycle + 1, None, "", took)
        for name in claims.reachable:
            if name not in reached and runs.first([f"reachable_{name}"], True):
                reached[name] = cycle
    missed = tuple(name for name in claims.reachable if name not in reached)
    found, undecided = None, ""
    if max_frames:
        found = invariant(graph, max_frames=max_frames)
        undecided = "" if found else f"{max_frames} frames were not enough"
    elif steps:
        found = Certificate(len(graph.latches), (), steps)
    if found is not None:
        found = Certificate.from_text(found.to_text())
        undecided = refusal(graph, found) or ""
        assert steps or not undecided, f"the search is wrong: {undecided}"
    certificate = None if undecided else found
    took = time.perf_counter() - start
    return Result(None, reached, missed, depth, certificate, undecided, took)
