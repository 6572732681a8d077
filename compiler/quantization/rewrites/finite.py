"""Replaces infinite constants, as masks have, by finite ones that saturate as they do."""

import numpy as np

from daedal.compiler.quantization.network import Array, Network

__all__ = ["LARGEST", "bound_constants"]

LARGEST = 2.0**100
"""Leaves float32 room for sums of them, and products with what a network computes."""

_READERS = frozenset({"Add", "Clip", "Expand", "Max", "Min", "Sub", "Where"})
"""Operators of masks and bounds. Infinite weights are an error."""


def bound_constants(network: Network) -> None:
    """Bound constants that only operators of masks and bounds read::

    Where(mask, scores, -inf)  ->  Where(mask, scores, -2**100)
    """
    users = network.users()
    for name, value in network.constants.items():
        readers = {node.op_type for node in users.get(name, ())}
        if readers and readers <= _READERS and value.dtype.kind == "f" and np.isinf(value).any():
            network.constants[name] = _bounded(value)


def _bounded(value: Array) -> Array:
    return np.where(np.isinf(value), np.copysign(LARGEST, value), value).astype(value.dtype)
