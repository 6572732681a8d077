"""Features that mean the same for every layer and every variant, so that one model learns from all.

Input: a space, its table and the variant. Output: columns without absolute scale.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from daedal.compiler.ops.space import Space, Table
from daedal.compiler.tune.cost_model import Columns, Reals
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["ANALYTIC", "REFERENCE", "analytic", "seen_by_model", "shared_columns"]

_BUSY = ("product_cycles", "vector_cycles", "beats")
"""Features that are the cycles that a unit works at least."""

REFERENCE = "reference_cycles"

OVERHEAD = "log estimate/busiest"
BOUND = "log bound/busiest"
ANALYTIC = (REFERENCE, OVERHEAD, BOUND)
"""What estimate and bound say: `shared_columns` has all of them."""


def shared_columns(space: Space, table: Table, variant: Variant, memory: MemoryModel) -> Columns:
    """Features of configurations, comparable between layers and variants.

    Cycles of units are shares of those of the busiest unit, other amounts are logarithms, alone and
    per cycle of the busiest unit. The parameters of the variant are the same for each
    configuration. `REFERENCE` is among them, in cycles: the proved bound, or where nothing is
    proved, the estimate.
    """
    raw = space.features(table)
    estimate = space.cycles(table)
    # Spaces that name no units are scaled by their estimate.
    units = [raw[name] for name in _BUSY if name in raw]
    busiest = np.maximum(np.maximum.reduce(units) if units else estimate, 1.0)
    bound = space.bound(table, memory)
    reference = np.maximum(np.where(bound > 0, bound, estimate), 1.0)
    columns: dict[str, Reals] = {REFERENCE: reference}
    for name, column in raw.items():
        if name in _BUSY:
            columns[f"{name}/busiest"] = column / busiest
        elif name != "estimate":
            columns[f"log {name}"] = np.log2(1 + np.maximum(column, 0))
            columns[f"log {name}/busiest"] = np.log2((1 + np.maximum(column, 0)) / busiest)
    columns["log busiest"] = np.log2(busiest)
    columns[BOUND] = np.log(reference / busiest)
    columns[OVERHEAD] = np.log(np.maximum(estimate, 1.0) / busiest)
    for name, value in _parameters(variant):
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


def _parameters(variant: Variant) -> Iterator[tuple[str, float]]:
    """Logarithms of the variant's numbers."""
    for part in ("array", "memory", "bus", "units"):
        for name, value in dataclasses.asdict(getattr(variant, part)).items():
            if isinstance(value, bool | int):
                yield f"variant {part}.{name}", float(np.log2(1 + int(value)))
