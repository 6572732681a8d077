"""`layer_columns`: features that mean the same for every layer and every variant."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Table
from daedal.compiler.tune.cost_model import Columns
from daedal.compiler.tune.features import shared_columns
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["layer_columns"]

_BUSY = ("product_cycles", "vector_cycles", "beats")
"""Features that are the cycles that a unit works at least."""


def layer_columns(
    space: LayerSpace, table: Table, variant: Variant, memory: MemoryModel
) -> Columns:
    """`shared_columns` with the proved bounds, and the variant's parameters."""
    bound = space.bound(table, memory)
    machine = dict(_parameters(variant))
    return shared_columns(space, table, bound=bound, busy=_BUSY, machine=machine)


def _parameters(variant: Variant) -> Iterator[tuple[str, float]]:
    """Logarithms of the variant's numbers."""
    for part in ("array", "memory", "bus", "units"):
        for name, value in dataclasses.asdict(getattr(variant, part)).items():
            if isinstance(value, bool | int):
                yield f"variant {part}.{name}", float(np.log2(1 + int(value)))
