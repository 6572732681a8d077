"""Seeded random images with structure at every scale, as photographs have."""

import numpy as np
import numpy.typing as npt

__all__ = ["SIZE", "images"]

SIZE = 224
COARSEST = 7
"""Pixels along a side of the coarsest layer of noise; each next one has twice as many."""


def images(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """(count, 3, 224, 224), each image with mean 0 and deviation 1, as normalized inputs are.

    Noise of equal power in every octave; white noise alone would look the same to every network
    once it is pooled.
    """
    total = np.zeros((count, 3, SIZE, SIZE), dtype=np.float32)
    side = COARSEST
    while side <= SIZE:
        noise = rng.standard_normal((count, 3, side, side), dtype=np.float32)
        total += noise.repeat(SIZE // side, axis=2).repeat(SIZE // side, axis=3)
        side *= 2
    axes = (1, 2, 3)
    return (total - total.mean(axes, keepdims=True)) / total.std(axes, keepdims=True)
