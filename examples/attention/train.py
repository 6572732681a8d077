"""Trains the vision transformer on handwritten digits and writes it as a float ONNX model.

    python examples/attention/train.py [--out FOLDER]

Adam with a learning rate that rises for one epoch and then falls as a cosine; images are shifted by
up to one pixel. The seed is fixed, and parameters are trained in float64 and rounded to float32 at
the end. On the same machine, running it again writes the same bytes; on another processor, BLAS
adds in another order, and some parameters differ in their last bit.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.attention.export import export_float
from examples.attention.network import Params, initialise, loss_and_gradients
from examples.digits.data import Split, load_split
from examples.digits.evaluate import accuracy
from examples.digits.train import augment

__all__ = ["FLOAT", "main", "train"]

HERE = Path(__file__).resolve().parent
FLOAT = "attention.onnx"
SEED = 7
EPOCHS = 120
BATCH = 32
LEARNING_RATE = 3e-3
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.02
SMOOTHING = 0.05


class _Adam:
    """AdamW. Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)."""

    def __init__(self, params: Params) -> None:
        self._mean = {name: np.zeros_like(value) for name, value in params.items()}
        self._square = {name: np.zeros_like(value) for name, value in params.items()}
        self._step = 0

    def descend(self, params: Params, gradients: Params, rate: float) -> None:
        """One step, in place."""
        self._step += 1
        slow, fast = (1 - beta**self._step for beta in BETAS)
        for name, gradient in gradients.items():
            mean, square = self._mean[name], self._square[name]
            mean += (1 - BETAS[0]) * (gradient - mean)
            square += (1 - BETAS[1]) * (gradient**2 - square)
            decay = WEIGHT_DECAY * params[name] if name.endswith(".weight") else 0.0
            params[name] -= rate * (mean / slow / (np.sqrt(square / fast) + 1e-8) + decay)


def train(split: Split, epochs: int, rng: np.random.Generator, console: Console) -> Params:
    """Train from scratch on `split.train`."""
    images, labels = split.select(split.train)
    params = initialise(rng)
    adam = _Adam(params)
    per_epoch = len(images) // BATCH  # an incomplete last batch is left out
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=epochs)
        for epoch in range(epochs):
            order = rng.permutation(len(images))[: per_epoch * BATCH].reshape(per_epoch, BATCH)
            losses = []
            for number, batch in enumerate(order):
                loss, gradients = loss_and_gradients(
                    params, augment(images[batch], rng), labels[batch], SMOOTHING
                )
                losses.append(loss)
                adam.descend(params, gradients, _rate(epoch + number / per_epoch, epochs))
            description = f"training, epoch {epoch + 1}: loss {np.mean(losses):.3f}"
            progress.update(task, advance=1, description=description)
    return {name: value.astype(np.float32).astype(np.float64) for name, value in params.items()}


def _rate(epoch: float, epochs: int) -> float:
    """The learning rate at a moment of the training."""
    return LEARNING_RATE * min(epoch, 1.0) * (1 + np.cos(np.pi * epoch / epochs)) / 2


def main(arguments: list[str] | None = None) -> None:
    """Train, write the model, and say how well it does."""
    parser = argparse.ArgumentParser(description="Train the vision transformer of digits.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the model")
    folder: Path = parser.parse_args(arguments).out
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    split = load_split()
    params = train(split, EPOCHS, np.random.default_rng(SEED), console)
    onnx.save(export_float(params), folder / FLOAT)
    test = accuracy(folder / FLOAT, *split.select(split.test))
    seen = accuracy(folder / FLOAT, *split.select(split.train))
    console.print(
        f"{FLOAT}: {(folder / FLOAT).stat().st_size} bytes, accuracy {test:.2%} on the"
        f" {len(split.test)} held-out images ({seen:.2%} on the {len(split.train)} trained on)",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
