"""Accuracy after quantization: ``python bench/networks/quantization.py [--json F]``.

Trained float networks are quantized with samples that are not among the test images. Float and
int8 run in onnxruntime, and int8 also on the simulated accelerator. The signal to noise ratio is
that of the logits: what the last Softmax reads, where there is one.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.json_file import write_json
from bench.left_out import LeftOut
from daedal.checking.integer_reference import run_onnxruntime
from examples.digits.data import load_split

__all__ = ["NETWORKS", "Accuracy", "Task", "load_tasks", "measure_accuracy", "snr_db"]

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"

POINTS_BAR = 0.5
"""Percentage points that may be lost, or one image, whichever is more."""


@dataclass(frozen=True)
class Task:
    """A trained network with images: to calibrate it, and to test it with their labels.

    A label of -1 is unknown: such an image counts for the agreement alone.
    """

    name: str
    model: Path
    samples: Array
    images: Array
    labels: Array


@dataclass(frozen=True)
class Accuracy:
    """What was measured; counts are of images."""

    network: str
    method: str
    num_samples: int
    num_images: int
    num_labelled: int
    float_right: int
    int8_right: int
    machine_right: int
    agreement: float
    logit_snr_db: float

    @property
    def holds(self) -> bool:
        """Whether the bar is met, in onnxruntime and on the machine."""
        allowed = max(1, int(POINTS_BAR / 100 * self.num_labelled))
        return self.float_right - min(self.int8_right, self.machine_right) <= allowed


def load_tasks(folder: Path) -> Iterator[Task]:
    """The digits of examples/, and the networks of the folder of trained models where it exists, as
    their meta.json says to feed them."""
    for name, make in NETWORKS.items():
        if folder.is_dir() or make is _digits:
            yield make(folder, name)


def left_out(folder: Path) -> LeftOut:
    """Networks that `load_tasks` leaves out for lack of this folder."""
    found = LeftOut()
    for name, make in NETWORKS.items():
        if make != _digits and not folder.is_dir():
            found.add(name, f"needs the folder {folder}")
    return found


def _digits(folder: Path, name: str) -> Task:
    """The digits of the example, which needs no other files."""
    split = load_split()
    samples, _ = split.select(split.calibration)
    images, labels = split.select(split.test)
    return Task(name, ROOT / "examples" / "digits" / "digits.onnx", samples, images, labels)


def _resnet8(folder: Path, name: str) -> Task:
    """Raw pixels."""
    samples, images, labels = _cifar(folder)
    path = folder / "mlperf_tiny_resnet8" / "model.onnx"
    return Task(name, path, samples.astype(np.float32), images.astype(np.float32), labels)


def _resnet20(folder: Path, name: str) -> Task:
    """Normalized pixels."""
    data = np.load(folder / "resnet20_cifar10" / "inputs.npz")
    mean, std = (data[key].reshape(1, 3, 1, 1) for key in ("mean", "std"))
    samples, images, labels = _cifar(folder)
    fed = [((item / 255 - mean) / std).astype(np.float32) for item in (samples, images)]
    path = folder / "resnet20_cifar10" / f"{name.removeprefix('resnet20_')}.onnx"
    return Task(name, path, *fed, labels)


def _visual_wake_words(folder: Path, name: str) -> Task:
    """Pixels from 0 to 1; the unlabelled photos calibrate, and count for the agreement."""
    data = np.load(folder / "mlperf_tiny_vww_mobilenetv1" / "inputs.npz")
    steps = data["x_q"].astype(np.int32) - data["zero_point"]
    images = (steps * data["scale"]).astype(np.float32)
    labels = data["label"]
    path = folder / "mlperf_tiny_vww_mobilenetv1" / "model.onnx"
    return Task(name, path, images[labels < 0], images, labels)


def _mnist(folder: Path, name: str) -> Task:
    """Raw pixels; the test images are the first 500, the samples come after."""
    data = np.load(folder / "data" / "mnist_t10k_1000.npz")
    images = data["x"][:, None].astype(np.float32)
    path = folder / "mnist_pytorch_cnn" / "model.onnx"
    return Task(name, path, images[500:700], images[:500], data["y"][:500].astype(np.int64))


def _cifar(folder: Path) -> tuple[Array, Array, Array]:
    """Training images as JPEGs, test images without loss and their labels; NCHW, uint8."""
    samples = np.load(folder / "data" / "cifar10_train_jpegq75_calib200.npz")["x"]
    tests = np.load(folder / "data" / "cifar10_test_lossless_202.npz")
    return samples.transpose(0, 3, 1, 2), tests["x"].transpose(0, 3, 1, 2), tests["y"]


NETWORKS: dict[str, Callable[[Path, str], Task]] = {
    "digits": _digits,
    "resnet8": _resnet8,
    "vww_mobilenetv1": _visual_wake_words,
    "resnet20_model": _resnet20,
    "resnet20_model_convshortcut": _resnet20,
    "resnet20_model_bn": _resnet20,
    "mnist": _mnist,
}


def measure_accuracy(task: Task, method: str) -> Accuracy:
    """Quantize the network, and run it on all images three times: float, int8, machine."""
    model = _up_to_logits(onnx.load(task.model))
    quantized = daedal.quantize(model, task.samples, method=method)
    expected = _onnxruntime(model, task.images)
    found = _onnxruntime(quantized, task.images)
    artifact = daedal.compile(quantized, "vta")
    name = _input_name(model)
    (outputs,) = daedal.simulate(artifact, {name: task.images}).outputs.values()
    labelled = task.labels >= 0

    def right(logits: Array) -> int:
        answers = logits.reshape(len(task.images), -1).argmax(axis=1)
        return int(np.count_nonzero(answers[labelled] == task.labels[labelled]))

    return Accuracy(
        network=task.name,
        method=method,
        num_samples=len(task.samples),
        num_images=len(task.images),
        num_labelled=int(np.count_nonzero(labelled)),
        float_right=right(expected),
        int8_right=right(found),
        machine_right=right(outputs),
        agreement=float(np.mean(expected.argmax(axis=1) == found.argmax(axis=1))),
        logit_snr_db=snr_db(expected, found),
    )


def snr_db(expected: Array, found: Array) -> float:
    """Signal to noise ratio of `found`, in decibels."""
    signal = expected.astype(np.float64)
    return float(10 * np.log10(np.square(signal).sum() / np.square(signal - found).sum()))


def _up_to_logits(model: onnx.ModelProto) -> bytes:
    """The model without the Softmax or LogSoftmax at its end."""
    last = model.graph.node[-1]
    if last.op_type in ("Softmax", "LogSoftmax"):
        model.graph.output[0].name = last.input[0]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        del model.graph.node[-1]
        # The output has no shape any more, and a model must have one there.
        model = onnx.shape_inference.infer_shapes(model)
    return bytes(model.SerializeToString())


def _onnxruntime(model: bytes, images: Array) -> Array:
    """Logits of all images, (images, classes)."""
    name = _input_name(model)
    return np.stack([run_onnxruntime(model, {name: image[None]})[0].ravel() for image in images])


def _input_name(model: bytes) -> str:
    """Name of the one input."""
    graph = onnx.ModelProto.FromString(model).graph
    initialized = {tensor.name for tensor in graph.initializer}
    (name,) = (str(item.name) for item in graph.input if item.name not in initialized)
    return name


def main() -> int:
    """Measure and print; 1 where a network loses too much, or is not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="mse", help="mse, percentile or minmax")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--models", type=Path, default=SHARED, help="folder of trained networks")
    arguments = parser.parse_args()
    found = []
    for task in load_tasks(arguments.models):
        item = measure_accuracy(task, arguments.method)
        found.append(item)
        print(
            f"{item.network:28} float {item.float_right:3}, int8 {item.int8_right:3}, machine "
            f"{item.machine_right:3} of {item.num_labelled:3}; agreement {item.agreement:6.1%} of "
            f"{item.num_images}, logits {item.logit_snr_db:.1f} dB"
            f"{'' if item.holds else '  BELOW THE BAR'}",
            flush=True,
        )
    missing = left_out(arguments.models)
    missing.show(print)
    records = [{**asdict(item), "holds": item.holds} for item in found]
    write_json(arguments.json, records)
    return int(bool(missing) or not all(item.holds for item in found))


if __name__ == "__main__":
    sys.exit(main())
