"""The int8 QDQ networks of ../shared/models, their inputs as the models take them, and the answers
that onnxruntime gave."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["MODELS", "SharedModel"]


@dataclass(frozen=True)
class SharedModel:
    """A model file, and the name of its answers in ``outputs.npz``."""

    folder: str
    answers: str
    file: str = "model_qdq.onnx"

    @property
    def name(self) -> str:
        """For test names: the folder, and the file where there are several."""
        return self.folder + self.file.removeprefix("model").removesuffix("_qdq.onnx")

    def path(self, shared: Path) -> Path:
        """The model, in the folder beside the repository."""
        return shared / "models" / self.folder / self.file

    def images(self, shared: Path) -> np.ndarray:
        """All inputs as float32, one along axis 0."""
        data = np.load(self.path(shared).with_name("inputs.npz"))
        if "x_q" in data:
            centred = data["x_q"].astype(np.int32) - data["zero_point"]
            return (centred * data["scale"]).astype(np.float32)
        if "mean" not in data:
            return data["x_u8"].astype(np.float32)
        mean, std = (np.asarray(data[name]).reshape(1, 3, 1, 1) for name in ("mean", "std"))
        return ((data["x_u8"] / 255 - mean) / std).astype(np.float32)

    def labels(self, shared: Path) -> np.ndarray:
        """The class of every input; negative where nobody knows."""
        return np.load(self.path(shared).with_name("inputs.npz"))["label"].astype(int)

    def classes(self, shared: Path) -> np.ndarray:
        """onnxruntime's answer to every input."""
        return np.load(self.path(shared).with_name("outputs.npz"))[self.answers].argmax(axis=1)

    def golden(self, shared: Path) -> dict[str, np.ndarray]:
        """TFLite's tensors of the first two inputs by the model's names; empty where there are
        none."""
        path = self.path(shared).with_name("layers.npz")
        return dict(np.load(path)) if path.exists() else {}


MODELS = (
    SharedModel("mlperf_tiny_resnet8", "y_qdq_onnx_i8"),
    SharedModel("mlperf_tiny_vww_mobilenetv1", "y_qdq_onnx_i8"),
    SharedModel("mnist_pytorch_cnn", "y_qdq_onnx"),
    SharedModel("resnet20_cifar10", "y_qdq_onnx"),
    SharedModel("resnet20_cifar10", "y_convshortcut_qdq_onnx", "model_convshortcut_qdq.onnx"),
)
