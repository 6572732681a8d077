"""Trains the digits network, writes it as a float ONNX model and quantizes that to int8.

    python examples/digits/train.py [--out FOLDER] [--quantize-only]

Stochastic gradient descent with momentum and a learning rate that falls as a cosine; images are
shifted by up to one pixel. The seed is fixed, and running it again writes the same bytes.
`daedal.quantize` makes the int8 model from the float model's file and the calibration images.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from examples.digits.data import Split, load_split
from examples.digits.evaluate import accuracy
from examples.digits.export import export_float
from examples.digits.network import Params, initialise, loss_and_gradients

__all__ = ["FLOAT", "INT8", "augment", "main", "train"]

HERE = Path(__file__).resolve().parent
FLOAT = "digits.onnx"
INT8 = "digits_qdq.onnx"
SEED = 7
EPOCHS = 30
BATCH = 32
LEARNING_RATE = 0.05
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
SMOOTHING = 0.05


def augment(images: npt.NDArray[np.float32], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Shift every image of (N, 1, H, W) by -1, 0 or 1 pixel each way; zeros come in."""
    _, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    offsets = rng.integers(0, 3, (len(images), 2))
    return np.stack(
        [
            image[:, y : y + height, x : x + width]
            for image, (y, x) in zip(padded, offsets, strict=True)
        ]
    )


def train(split: Split, epochs: int, rng: np.random.Generator, console: Console) -> Params:
    """Train from scratch on `split.train`.

    The parameters are trained in float64 and rounded to float32 at the end. So sums that come out
    a few units in the last place apart, where BLAS orders them differently, hardly ever change what
    is written.
    """
    images, labels = split.select(split.train)
    params = initialise(rng)
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    steps_per_epoch = len(images) // BATCH  # an incomplete last batch is left out
    step = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=epochs)
        for epoch in range(1, epochs + 1):
            order = rng.permutation(len(images))
            losses = []
            for first in range(0, steps_per_epoch * BATCH, BATCH):
                batch = order[first : first + BATCH]
                loss, gradients = loss_and_gradients(
                    params, augment(images[batch], rng), labels[batch], SMOOTHING
                )
                losses.append(loss)
                rate = LEARNING_RATE * (1 + np.cos(np.pi * step / (epochs * steps_per_epoch))) / 2
                _descend(params, velocity, gradients, rate)
                step += 1
            description = f"training, epoch {epoch}: loss {np.mean(losses):.3f}"
            progress.update(task, advance=1, description=description)
    return {name: value.astype(np.float32).astype(np.float64) for name, value in params.items()}


def _descend(params: Params, velocity: Params, gradients: Params, rate: float) -> None:
    """One step of momentum, in place."""
    for name, gradient in gradients.items():
        decay = WEIGHT_DECAY * params[name] if name.endswith(".weight") else 0.0
        velocity[name] = MOMENTUM * velocity[name] - rate * (gradient + decay)
        params[name] += velocity[name]


def main(arguments: list[str] | None = None) -> None:
    """Train, quantize, write both models, and say how well they do."""
    parser = argparse.ArgumentParser(description="Train the digits network.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the models")
    parser.add_argument(
        "--quantize-only", action="store_true", help=f"keep the folder's {FLOAT}, do not train"
    )
    options = parser.parse_args(arguments)
    folder: Path = options.out
    if options.quantize_only and not (folder / FLOAT).exists():
        parser.error(f"--quantize-only needs {folder / FLOAT}, which is missing; train first")
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    split = load_split()
    if not options.quantize_only:
        params = train(split, EPOCHS, np.random.default_rng(SEED), console)
        onnx.save(export_float(params), folder / FLOAT)
    samples, _ = split.select(split.calibration)
    (folder / INT8).write_bytes(daedal.quantize(folder / FLOAT, samples))
    for name in (FLOAT, INT8):
        test = accuracy(folder / name, *split.select(split.test))
        seen = accuracy(folder / name, *split.select(split.train))
        console.print(
            f"{name}: {(folder / name).stat().st_size} bytes, accuracy {test:.2%} on the"
            f" {len(split.test)} held-out images ({seen:.2%} on the {len(split.train)} trained on)",
            highlight=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
