"""Repeats a rewrite until it finds nothing more, and ends whatever the rewrite does."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["MAX_ROUNDS", "to_fixpoint"]

State = TypeVar("State")

MAX_ROUNDS = 1000
"""Rounds of one pass. A round changes every place that it can, so networks need a few."""


def to_fixpoint(
    name: str,
    state: State,
    step: Callable[[State], State | None],
    measure: Callable[[State], Any],
    *,
    max_rounds: int = MAX_ROUNDS,
) -> State:
    """Repeat `step` until it returns None, and return what it returned last.

    Each step must be right by itself, so it is always right to stop. That happens, with a warning
    that names the pass, if a step does not make the measure smaller: two rules undo each other, and
    the pass would never end.

    Parameters
    ----------
    name : of the pass.
    step : returns the changed state, or None if there is nothing to change.
    measure : something comparable that every step makes smaller, and that cannot fall for ever:
        numbers from 0 up, or tuples of them of one length, the most important first.

    Warns
    -----
    RuntimeWarning
        A step did not make the measure smaller, or there were more than `max_rounds`.
    """
    size = measure(state)
    for _ in range(max_rounds):
        changed = step(state)
        if changed is None:
            return state
        before, size = size, measure(changed)
        if not size < before:
            _warn(f"pass {name} stopped because a step of it made no progress")
            return state
        state = changed
    _warn(f"pass {name} stopped after {max_rounds} rounds")
    return state


def _warn(what: str) -> None:
    warnings.warn(
        f"{what}; the result is right but may be slower than needed, please report the model",
        RuntimeWarning,
        stacklevel=3,
    )
