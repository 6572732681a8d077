"""Operators compiled for scratchpads so small that most maps take several tiles, once a process."""

from functools import cache

from tests.support.accelerator import micro_variant
from tests.support.levels import Compiled
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

__all__ = ["MICRO", "NAMES", "compiled_operator"]

MICRO = micro_variant(inp_bytes=1024)

NAMES = [name for name, item in OPERATORS.items() if item.runs_on(MICRO)]


@cache
def compiled_operator(name: str, seed: int) -> Compiled:
    """One of `NAMES`, of random shapes."""
    return Compiled.of(OPERATORS[name].graph(Pick.seeded([seed]), MICRO), MICRO)
