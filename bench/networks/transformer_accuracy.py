"""Accuracy of quantized transformers: ``python bench/networks/transformers.py --step accuracy``.

The float model runs in onnxruntime, the quantized one (`bench.networks.transformer_models`)
compiled for a variant, on the functional simulator: attention has other arithmetic there than in
its ONNX file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import daedal
from bench.networks.transformer_models import MODELS, Array, Transformer
from daedal.checking.onnxruntime_session import open_session

__all__ = ["AccuracyRow", "accuracy_rows", "show_accuracy"]


@dataclass(frozen=True)
class AccuracyRow:
    """One figure of one network, and its bar.

    Attributes
    ----------
    figure : what was measured, over `count` images, tokens or sentences.
    reference : of the float model; None where the figure compares with it.
    least, most : the bars; None where there is none.
    """

    network: str
    figure: str
    count: int
    reference: float | None
    found: float
    least: float | None = None
    most: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the figure meets its bars."""
        above = self.least is None or self.found >= self.least
        return above and (self.most is None or self.found <= self.most)


def accuracy_rows(
    models: Path, variant: str, report: Callable[[str], None], only: str | None = None
) -> Iterator[AccuracyRow]:
    """The figures of all networks whose data are present; `models` is the folder of the shared
    ones, `only` the name of a single network."""
    for name, make in MODELS.items():
        transformer = make(models) if only in (None, name) else None
        if transformer is not None:
            report(name)
            yield from FIGURES[name](transformer, *_results(transformer, variant))


def show_accuracy(console: Console, rows: list[AccuracyRow]) -> None:
    """One line for each figure."""
    table = Table("network", "figure", "of", "float", "quantized", "bar", "")
    for row in rows:
        bars = [f">= {row.least:g}"] if row.least is not None else []
        bars += [f"<= {row.most:g}"] if row.most is not None else []
        table.add_row(
            row.network,
            row.figure,
            f"{row.count:,}",
            "" if row.reference is None else f"{row.reference:.4f}",
            f"{row.found:.4f}",
            " ".join(bars),
            "" if row.passed else "missed",
        )
    console.print(table)


def _results(transformer: Transformer, variant: str) -> tuple[Array, Array]:
    """Of all tests, along axis 0: by the float model, and by the quantized one on the machine."""
    run = open_session(onnx.load_from_string(transformer.model), fast=True)
    count = len(next(iter(transformer.inputs.values())))
    expected = [
        run({name: value[number : number + 1] for name, value in transformer.inputs.items()})[0]
        for number in range(count)
    ]
    artifact = daedal.compile(transformer.quantized, variant)
    (found,) = daedal.simulate(artifact, transformer.inputs).outputs.values()
    return np.concatenate(expected), found


def _classes(item: Transformer, expected: Array, found: Array) -> Iterator[AccuracyRow]:
    answers, ours = (logits.argmax(axis=-1) for logits in (expected, found))
    assert item.labels is not None
    right, reference = (float(np.mean(x == item.labels)) for x in (ours, answers))
    count = len(item.labels)
    yield AccuracyRow(item.name, "accuracy", count, reference, right, least=0.956)
    yield AccuracyRow(item.name, "same answer", count, None, float(np.mean(ours == answers)))


def _text(item: Transformer, expected: Array, found: Array) -> Iterator[AccuracyRow]:
    """The next token of each."""
    assert item.labels is not None
    targets = item.labels.reshape(-1)
    logits, ours = (x.reshape(len(targets), -1).astype(np.float64) for x in (expected, found))
    before, behind = _perplexity(logits, targets), _perplexity(ours, targets)
    yield AccuracyRow(item.name, "perplexity", len(targets), before, behind, most=1.05 * before)
    agreement = float(np.mean(logits.argmax(axis=1) == ours.argmax(axis=1)))
    yield AccuracyRow(item.name, "same next token", len(targets), None, agreement, least=0.91)


def _perplexity(logits: Array, targets: Array) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(np.exp(-logs[np.arange(len(targets)), targets].mean()))


def _embeddings(item: Transformer, expected: Array, found: Array) -> Iterator[AccuracyRow]:
    cosines = np.sort(np.sum(expected * found, axis=-1))
    worst, count = float(cosines[len(cosines) // 20]), len(cosines)
    yield AccuracyRow(item.name, "cosine, mean", count, None, float(cosines.mean()), least=0.995)
    yield AccuracyRow(item.name, "cosine, worst 5 %", count, None, worst, least=0.99)


FIGURES: dict[str, Callable[[Transformer, Array, Array], Iterator[AccuracyRow]]] = {
    "vit_mnist": _classes,
    "stories260k": _text,
    "minilm": _embeddings,
}
"""Of each of `MODELS`, from the results of float and quantized model."""
