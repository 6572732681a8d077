"""Runs a model with onnxruntime and counts right answers."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from daedal.check import run_onnxruntime

__all__ = ["accuracy", "predict"]


def predict(model: Path, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Probabilities, (N, 10), of the digits for (N, 1, 8, 8) images in 0..1."""
    (probabilities,) = run_onnxruntime(model.read_bytes(), {"input": images})
    return probabilities


def accuracy(model: Path, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Share of the images whose most probable digit is their label."""
    return float(np.mean(predict(model, images).argmax(axis=1) == labels))
