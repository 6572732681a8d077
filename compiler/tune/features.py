"""Features that mean the same for every layer and every machine of a target, so that one model
learns from all.

Input: a space, its table, and what describes the machine. Output: columns without absolute scale.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import numpy as np

from daedal.compiler.ops.space import Space, Table
from daedal.compiler.tune.cost_model import Columns, Reals

__all__ = ["ANALYTIC", "REFERENCE", "analytic", "seen_by_model", "shared_columns"]

REFERENCE = "reference_cycles"

OVERHEAD = "log estimate/busiest"
BOUND = "log bound/busiest"
ANALYTIC = (REFERENCE, OVERHEAD, BOUND)
"""What estimate and bound say: `shared_columns` has all of them."""


def shared_columns(
    space: Space,
    table: Table,
    *,
    bound: Reals | None = None,
    busy: Collection[str] = (),
    machine: Mapping[str, float] = MappingProxyType({}),
) -> Columns:
    """Features of configurations, comparable between layers and machines.

    Cycles of units are shares of those of the busiest unit, other amounts are logarithms, alone and
    per cycle of the busiest unit. `REFERENCE` is among them: the proved bound, or where nothing is
    proved, the estimate.

    Parameters
    ----------
    bound : what no configuration can undercut, proved; 0 where nothing is.
    busy : the space's features that are the cycles that a unit works at least.
    machine : features of the target, the same for each configuration.
    """
    raw = space.features(table)
    estimate = space.cycles(table)
    # Spaces that name no units are scaled by their estimate.
    units = [raw[name] for name in busy if name in raw]
    busiest = np.maximum(np.maximum.reduce(units) if units else estimate, 1.0)
    least = estimate if bound is None else np.where(bound > 0, bound, estimate)
    reference = np.maximum(least, 1.0)
    columns: dict[str, Reals] = {REFERENCE: reference}
    for name, column in raw.items():
        if name in busy:
            columns[f"{name}/busiest"] = column / busiest
        elif name != "estimate":
            columns[f"log {name}"] = np.log2(1 + np.maximum(column, 0))
            columns[f"log {name}/busiest"] = np.log2((1 + np.maximum(column, 0)) / busiest)
    columns["log busiest"] = np.log2(busiest)
    columns[BOUND] = np.log(reference / busiest)
    columns[OVERHEAD] = np.log(np.maximum(estimate, 1.0) / busiest)
    for name, value in machine.items():
        columns[name] = np.full(len(estimate), value)
    return columns


def analytic(columns: Columns) -> Reals:
    """The logarithm of the estimated cycles, or of the bound where that is more."""
    above = np.maximum(columns[OVERHEAD] - columns[BOUND], 0)
    found: Reals = np.log(columns[REFERENCE]) + above
    return found


def seen_by_model(names: Iterable[str], *, prior: bool) -> tuple[str, ...]:
    """The features that models are fitted to; without `prior`, nothing of what
    estimate and bound say."""
    hidden = (REFERENCE,) if prior else ANALYTIC
    return tuple(sorted(set(names) - set(hidden)))
