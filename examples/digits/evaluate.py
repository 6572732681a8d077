"""Runs a model with onnxruntime and counts right answers."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

__all__ = ["accuracy", "predict"]


def predict(model: Path, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Probabilities, (N, 10), of the digits for (N, 1, 8, 8) images in 0..1.

    Graph optimization is off, so that every operator runs as the model writes it.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {session.get_inputs()[0].name: images})
    return np.asarray(probabilities)


def accuracy(model: Path, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Share of the images whose most probable digit is their label."""
    return float(np.mean(predict(model, images).argmax(axis=1) == labels))
