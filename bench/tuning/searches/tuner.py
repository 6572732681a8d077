"""`tune`: searches the schedules of one layer by measuring them, without devices or a database."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.search import SearchFactory

__all__ = ["Measure", "Trial", "Tuned", "tune"]

BATCH = 16
"""Configurations that are measured between two proposals."""

Measure = Callable[[Sequence[Config]], Sequence[int | None]]
"""Cycles of configurations; None for one that could not be built or run."""


@dataclass(frozen=True)
class Trial:
    """One measured configuration, and the fewest cycles up to it; None for failed, or none yet."""

    config: Config
    cycles: int | None
    best_cycles: int | None


@dataclass(frozen=True)
class Tuned:
    """The result: the configuration with the fewest cycles, None if all failed."""

    config: Config | None
    cycles: int | None
    history: tuple[Trial, ...]
    """Every trial, in the order of the measurements. What was known before is not in it."""


def tune(
    space: Space,
    measure: Measure,
    search: SearchFactory,
    *,
    trials: int,
    seed: int,
    report: Callable[[Sequence[Trial]], None] | None = None,
    known: Mapping[Config, int | None] | None = None,
    batch: int = BATCH,
) -> Tuned:
    """Measure up to `trials` configurations of `space`, and return the best.

    The default is measured first, unless it is known: the result is never worse. A configuration
    that failed is not measured again. The tuning ends early where the search ends.

    Parameters
    ----------
    search
        Makes the search from the space and the seed, such as the class `Random`.
    report
        Is called after each batch with its trials, for progress and the database.
    known
        Cycles of earlier runs, None for what failed: never measured again, and observed by the
        search at the beginning.

    Raises
    ------
    TuningError
        `trials` or `batch` is below 1.
    ScheduleError
        Nothing in the space fits, or `known` has configurations of another space.
    """
    for name, value in (("trials", trials), ("batch", batch)):
        if value < 1:
            raise TuningError(f"{name} must be at least 1, not {value}")
    known = {} if known is None else known
    proposer = search(space, seed=seed)
    if known:
        proposer.observe(list(known), list(known.values()))
    best, cycles = _best(known)
    default = space.default
    history: list[Trial] = []
    while len(history) < trials:
        first = not history and default not in known
        configs = [default] if first else proposer.propose(min(batch, trials - len(history)))
        if not configs:
            break
        measured = measure(configs)
        done: list[Trial] = []
        for config, found in zip(configs, measured, strict=True):
            if found is not None and (cycles is None or found < cycles):
                best, cycles = config, found
            done.append(Trial(config, found, cycles))
        proposer.observe(configs, measured)
        history += done
        if report is not None:
            report(done)
    return Tuned(best, cycles, tuple(history))


def _best(known: Mapping[Config, int | None]) -> tuple[Config | None, int | None]:
    measured = {config: cycles for config, cycles in known.items() if cycles is not None}
    if not measured:
        return None, None
    best = min(measured, key=lambda config: measured[config])
    return best, measured[best]
