"""Runs a model with onnxruntime and counts right answers."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from daedal.checking.onnxruntime_session import open_session
from examples.digits.network import INPUT

__all__ = ["accuracy", "predict"]


def predict(model: Path, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Probabilities, (N, 10), of the digits for (N, 1, 8, 8) images in 0..1.

    Runs one image at a time, because the batch of the quantized model is 1.
    """
    run = open_session(onnx.load(model))
    return np.concatenate([run({INPUT: image[np.newaxis]})[0] for image in images])


def accuracy(model: Path, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Share of the images whose most probable digit is their label."""
    return float(np.mean(predict(model, images).argmax(axis=1) == labels))
