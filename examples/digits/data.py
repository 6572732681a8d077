"""The handwritten digits of scikit-learn, split once and for all.

`load_digits` holds 1,797 grey 8x8 images with pixels 0..16, out of the UCI collection "Optical
Recognition of Handwritten Digits". Pixels are scaled to 0..1 here, which is exact in float32.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Split", "demo_images", "load_split"]

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

SPLIT_SEED = 2024
NUM_TEST = 449  # a quarter of the 1,797 images
NUM_CALIBRATION = 256


@dataclass(frozen=True)
class Split:
    """Which image is used for what.

    Attributes
    ----------
    images : (1797, 1, 8, 8) float32 in 0..1
    labels : (1797,) int64 in 0..9
    train, test : indices into `images`, disjoint, together all of them
    calibration : indices into `images`, a part of `train`
    """

    images: Images
    labels: Labels
    train: Indices
    test: Indices
    calibration: Indices

    def select(self, indices: Indices) -> tuple[Images, Labels]:
        """The images and the labels at `indices`."""
        return self.images[indices], self.labels[indices]


def load_split() -> Split:
    """Read the data set and split it; every call gives the same split."""
    # Imported here, because it takes a second that the users of `Split` alone need not wait.
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, np.newaxis]
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    train = np.sort(order[NUM_TEST:])
    return Split(
        images=images,
        labels=digits.target.astype(np.int64),
        train=train,
        test=np.sort(order[:NUM_TEST]),
        calibration=np.sort(order[NUM_TEST : NUM_TEST + NUM_CALIBRATION]),
    )


def demo_images(n: int = 16) -> tuple[Images, Labels]:
    """The first `n` held-out images, (n, 1, 8, 8) float32, and their labels, (n,) int64.

    Raises
    ------
    ValueError
        `n` is not between 1 and the number of held-out images.
    """
    if not 1 <= n <= NUM_TEST:
        raise ValueError(f"n must be from 1 to {NUM_TEST}, the held-out images, not {n}")
    split = load_split()
    return split.select(split.test[:n])
