"""A small decoder with caches, exported as ONNX, and what its caller does between two tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.quantization.quantizer import quantize_model

__all__ = ["SmallDecoder", "feed_caches"]

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

HIDDEN = -10000.0


@dataclass(frozen=True)
class SmallDecoder:
    """A decoder of random weights: its token's inputs are those of its position, and caches.

    Attributes
    ----------
    heads, kv_heads, width : heads of queries, of keys and values, and channels of each.
    rows : of the caches.
    rotary : whether heads are rotated by the tables `cos` and `sin`.
    """

    heads: int = 4
    kv_heads: int = 2
    width: int = 8
    rows: int = 7
    rotary: bool = True
    depth: int = 32
    vocabulary: int = 20
    layers: int = 2

    def float_model(self, seed: int = 0) -> onnx.ModelProto:
        """The model in float."""
        return _Export(self, np.random.default_rng(seed)).model()

    def quantized(self, seed: int = 0) -> bytes:
        """The same quantized, with `samples`."""
        model = self.float_model(seed).SerializeToString()
        return bytes(quantize_model(model, self.samples(seed)).SerializeToString())

    def samples(self, seed: int = 0) -> Feeds:
        """Inputs of some runs of the float model, along axis 0."""
        model = self.float_model(seed)
        run, names = open_session(model, fast=True), [item.name for item in model.graph.output]
        rng = np.random.default_rng(seed + 1)
        samples: list[Feeds] = []

        def step(feeds: Feeds) -> Mapping[str, Array]:
            samples.append({name: value.copy() for name, value in feeds.items()})
            return dict(zip(names, run(feeds), strict=True))

        for _ in range(2):
            tokens = rng.integers(0, self.vocabulary, self.rows)
            for _ in feed_caches(self, step, tokens.tolist()):
                pass
        return {name: np.concatenate([item[name] for item in samples]) for name in samples[0]}

    def tables(self) -> Feeds:
        """The inputs that depend on the position, (positions, ...)."""
        places = np.arange(self.rows)
        columns = np.arange(self.rows + 1)
        seen = (columns < places[:, None]) | (columns == self.rows)
        mask = np.where(seen, 0, HIDDEN).astype(np.float32)
        tables = {"mask": mask.reshape(-1, 1, 1, 1, self.rows + 1)}
        if self.rotary:
            angles = np.outer(places, np.tile(0.5 ** np.arange(self.width // 2), 2))
            for name, function in (("cos", np.cos), ("sin", np.sin)):
                values = function(angles).astype(np.float32)
                tables[name] = values.reshape(-1, 1, 1, 1, self.width)
        return tables

    @property
    def caches(self) -> list[str]:
        """Names of the caches."""
        return [f"{kind}_cache_{layer}" for layer in range(self.layers) for kind in "kv"]


def feed_caches(
    decoder: SmallDecoder, run: Callable[[Feeds], Mapping[str, Array]], tokens: list[int]
) -> Any:
    """Run a model through tokens, and write the new rows into its caches as its caller does; yields
    the outputs of each run."""
    shape = (1, decoder.kv_heads, decoder.rows, decoder.width)
    caches = {name: np.zeros(shape, dtype=np.float32) for name in decoder.caches}
    tables = decoder.tables()
    for position, token in enumerate(tokens):
        feeds = {name: table[position] for name, table in tables.items()}
        found = run({"token": np.array([[token]], dtype=np.int64), **feeds, **caches})
        for name, cache in caches.items():
            cache[:, :, position] = found[name.replace("cache", "new")][:, :, 0]
        yield found


class _Export:
    def __init__(self, decoder: SmallDecoder, rng: np.random.Generator) -> None:
        self._decoder = decoder
        self._rng = rng
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        d = self._decoder
        inputs = [_value("token", (1, 1), TensorProto.INT64), _value("mask", (1, 1, 1, d.rows + 1))]
        if d.rotary:
            inputs += [_value(name, (1, 1, 1, d.width)) for name in ("cos", "sin")]
        cache = (1, d.kv_heads, d.rows, d.width)
        inputs += [_value(name, cache) for name in d.caches]
        x = self.op("Gather", self.normal(d.vocabulary, d.depth), "token")
        for layer in range(d.layers):
            x = self.op("Add", x, self._attention(self._norm(x), layer))
            x = self.op("Add", x, self._mlp(self._norm(x)))
        logits = self.op("MatMul", self._norm(x), self.weights(d.depth, d.vocabulary))
        self.op("Identity", logits, output="logits")
        outputs = [_value("logits", (1, 1, d.vocabulary))]
        row = (1, d.kv_heads, 1, d.width)
        outputs += [_value(name.replace("cache", "new"), row) for name in d.caches]
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._constants)
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.checker.check_model(model)
        return model

    def op(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"t{len(self._nodes)}"
        node = helper.make_node(op_type, inputs, [output], name=f"n_{output}", **attributes)
        self._nodes.append(node)
        return output

    def constant(self, value: Array) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self._rng.normal(0, scale, shape).astype(np.float32))

    def weights(self, inner: int, outer: int) -> str:
        return self.normal(inner, outer, scale=inner**-0.5)

    def whole(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def _norm(self, x: str) -> str:
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1])
        root = self.op("Sqrt", self.op("Add", mean, self.constant(np.float32(1e-5))))
        gain = self.constant(self._rng.uniform(0.5, 2, self._decoder.depth).astype(np.float32))
        return self.op("Mul", self.op("Div", x, root), gain)

    def _heads(self, x: str, heads: int) -> str:
        d = self._decoder
        product = self.op("MatMul", x, self.weights(d.depth, heads * d.width))
        split = self.op("Reshape", product, self.whole(1, 1, heads, d.width))
        return self.op("Transpose", split, perm=[0, 2, 1, 3])

    def _rotated(self, x: str) -> str:
        if not self._decoder.rotary:
            return x
        half, width = self._decoder.width // 2, self._decoder.width
        first, second = (
            self.op("Slice", x, self.whole(begin), self.whole(end), self.whole(3))
            for begin, end in ((0, half), (half, width))
        )
        turned = self.op("Concat", self.op("Neg", second), first, axis=3)
        return self.op("Add", self.op("Mul", x, "cos"), self.op("Mul", turned, "sin"))

    def _attention(self, x: str, layer: int) -> str:
        d = self._decoder
        q = self._rotated(self._heads(x, d.heads))
        new = {"k": self._rotated(self._heads(x, d.kv_heads)), "v": self._heads(x, d.kv_heads)}
        joined = {}
        for kind, name in new.items():
            self.op("Identity", name, output=f"{kind}_new_{layer}")
            joined[kind] = self.op("Concat", f"{kind}_cache_{layer}", name, axis=2)
        grouped = (1, d.kv_heads, d.heads // d.kv_heads, d.width)
        keys = self.op("Transpose", joined["k"], perm=[0, 1, 3, 2])
        scores = self.op("MatMul", self.op("Reshape", q, self.whole(*grouped)), keys)
        scaled = self.op("Mul", scores, self.constant(np.float32(d.width**-0.5)))
        weights = self.op("Softmax", self.op("Add", scaled, "mask"), axis=-1)
        mixed = self.op("MatMul", weights, joined["v"])
        split = self.op("Reshape", mixed, self.whole(1, d.heads, 1, d.width))
        turned = self.op("Transpose", split, perm=[0, 2, 1, 3])
        flat = self.op("Reshape", turned, self.whole(1, 1, d.heads * d.width))
        return self.op("MatMul", flat, self.weights(d.heads * d.width, d.depth))

    def _mlp(self, x: str) -> str:
        d = self._decoder
        gate = self.op("MatMul", x, self.weights(d.depth, 2 * d.depth))
        silu = self.op("Mul", gate, self.op("Sigmoid", gate))
        up = self.op("MatMul", x, self.weights(d.depth, 2 * d.depth))
        return self.op("MatMul", self.op("Mul", silu, up), self.weights(2 * d.depth, d.depth))


def _value(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)
