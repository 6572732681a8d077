"""Seeded constants for networks whose trained ones are not at hand.

Weights are He's (arXiv:1502.01852, section 2.2): normal with deviation sqrt(2 / fan-in), which
keeps the size of activations behind a ReLU. Gains and biases of batch normalization are near 1 and
0; its means and variances start as 0 and 1 and get those of activations in `bench.zoo.settle`.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt

__all__ = ["Role", "draw"]

BIAS_DEVIATION = 0.05
GAIN_RANGE = (0.8, 1.2)


class Role(Enum):
    """What a constant is to the operator that reads it."""

    WEIGHT = "weight"
    BIAS = "bias"
    GAIN = "gain"
    MEAN = "mean"
    VARIANCE = "variance"


def draw(rng: np.random.Generator, role: Role, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    """Values for a constant; a weight's axis 0 counts outputs, the others are its fan-in."""
    match role:
        case Role.WEIGHT:
            deviation = np.float32(np.sqrt(2 / np.prod(shape[1:])))
            return rng.standard_normal(shape, dtype=np.float32) * deviation
        case Role.BIAS:
            return rng.standard_normal(shape, dtype=np.float32) * np.float32(BIAS_DEVIATION)
        case Role.GAIN:
            return rng.uniform(*GAIN_RANGE, shape).astype(np.float32)
        case Role.MEAN:
            return np.zeros(shape, dtype=np.float32)
        case Role.VARIANCE:
            return np.ones(shape, dtype=np.float32)
