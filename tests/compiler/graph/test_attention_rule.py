"""Attention between quantized tensors: near the real one, and the same on the machine."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.layer_check import check_layers
from daedal.common.errors import UserError
from daedal.compiler.graph import Graph, run_all
from daedal.compiler.integer.attention import error_bound
from daedal.isa.variant import load_variant
from tests.compiler.graph.qdq_models import lower

VARIANT = load_variant("vta").replace("rows", tables=4, lane_reductions=True, wide_requantize=True)
LAYERS = ["q_attention_weights", "q_weighted_mean"]
QUERY, KEY, VALUE = 0.03, 0.04, 0.02
RESULT, RESULT_ZERO = 0.012, -3
HIDDEN = -1e4


@dataclass(frozen=True)
class Case:
    """Queries (batch, rows, depth), keys (batch, depth, keys) and values (batch, keys, width).

    Parameters
    ----------
    shared : trailing axes of the batch that keys and values have once.
    zeros : zero points of queries, keys and values.
    factor : what the scores are multiplied by; 0 for nothing.
    mask : "causal" or "keys" of -10000 as a constant, "few" of -3, "input" as an input; "biases"
        are normal numbers, "each" different ones for each of the batch, some of them -infinity.
    """

    batch: tuple[int, ...] = (3,)
    shared: int = 0
    rows: int = 20
    keys: int = 33
    depth: int = 24
    width: int = 18
    zeros: tuple[int, int, int] = (0, 0, 0)
    factor: float = 0.0
    mask: str = ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of queries, keys and values."""
        kept = len(self.batch) - self.shared
        once = (*self.batch[:kept], *(1 for _ in self.batch[kept:]))
        return {
            "q": (*self.batch, self.rows, self.depth),
            "k": (*once, self.depth, self.keys),
            "v": (*once, self.keys, self.width),
        }

    @property
    def mask_shape(self) -> tuple[int, ...]:
        rows = self.rows if self.mask in ("causal", "biases", "each") else 1
        batch = self.batch if self.mask == "each" else tuple(1 for _ in self.batch)
        return (*batch, rows, self.keys)

    def added(self, rng: np.random.Generator) -> np.ndarray:
        """A constant mask."""
        if self.mask not in ("biases", "each"):
            low = -3 if self.mask == "few" else HIDDEN
            return np.where(self.hidden(rng), low, 0).astype(np.float32)
        biases = rng.normal(0, 2, self.mask_shape).astype(np.float32)
        return np.where(self.hidden(rng), -np.inf, biases) if self.mask == "each" else biases

    def hidden(self, rng: np.random.Generator) -> np.ndarray:
        """Which scores a mask hides."""
        if self.mask == "causal":
            return np.triu(np.ones((self.rows, self.keys), bool), 3).reshape(self.mask_shape)
        hidden = rng.random(self.mask_shape) < 0.4
        hidden[..., 0] = False
        return hidden

    def model(self, rng: np.random.Generator) -> onnx.ModelProto:
        m = QdqModel(21)
        q, k, v = (
            m.requantized(m.input(name, shape), scale, zero, output=f"{name}_q")
            for (name, shape), scale, zero in zip(
                self.shapes.items(), (QUERY, KEY, VALUE), self.zeros, strict=True
            )
        )
        scores = m.op("MatMul", q, k)
        if self.factor:
            scores = m.op("Mul", scores, m.constant(np.float32(self.factor)))
        if self.mask == "input":
            scores = m.op("Add", scores, m.requantized(m.input("m", self.mask_shape), 0.5, 0))
        elif self.mask:
            scores = m.op("Add", scores, m.constant(self.added(rng)))
        y = m.op("MatMul", m.op("Softmax", scores, axis=-1), v)
        return m.model(m.requantized(y, RESULT, RESULT_ZERO, output="y_q"))

    def inputs(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        found = {
            name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in self.shapes.items()
        }
        if self.mask == "input":
            found["m"] = np.where(self.hidden(rng), -60, 0).astype(np.float32)
        return found


CASES = {
    "plain": Case(),
    "batches": Case(batch=(2, 3)),
    "one head of keys": Case(batch=(2, 3), shared=1, mask="each"),
    "keys for all": Case(batch=(2, 2), shared=2),
    "no batch": Case(batch=()),
    "zero points": Case(zeros=(5, -7, 100)),
    "lowest zero point": Case(zeros=(-128, 127, -128)),
    "scaled": Case(factor=0.25),
    "scores near zero": Case(factor=1e-5),
    "causal": Case(mask="causal", batch=(1, 4)),
    "some keys": Case(mask="keys"),
    "a computed mask": Case(mask="input", keys=32, batch=(1, 4)),
    "one query": Case(rows=1, keys=256, mask="keys"),
    "one key": Case(keys=1),
    "long": Case(batch=(1,), rows=70, keys=300, depth=64, width=64),
    "many rows": Case(batch=(1,), rows=150, keys=16, mask="causal"),
    "a mask that hides little": Case(mask="few"),
    "biases of positions": Case(mask="biases", batch=(1, 4)),
    "biases of heads": Case(mask="each", batch=(1, 4), rows=33),
    "biases of windows": Case(mask="each", batch=(3, 2), rows=16, keys=16),
    "many biases": Case(mask="each", batch=(1, 2), rows=130, keys=130, depth=8, width=8),
}


def graph_of(case: Case, seed: int = 0) -> Graph:
    return lower(case.model(np.random.default_rng(seed)), tables=True, rows=True)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op in LAYERS]


@pytest.mark.parametrize("name", CASES)
def test_near_the_real_one(name: str) -> None:
    case = CASES[name]
    graph = graph_of(case)
    assert operators(graph) == LAYERS
    inputs = case.inputs(np.random.default_rng(1))
    values = run_all(graph, inputs)
    q, k, v = (values[f"{name}_q"].astype(float) for name in "qkv")
    mask = np.zeros(case.mask_shape)
    if case.mask == "input":
        mask = inputs["m"]
    elif case.mask:
        mask = case.added(np.random.default_rng(0))
    scale = QUERY * KEY * (case.factor or 1)
    scores = scale * ((q - case.zeros[0]) @ (k - case.zeros[1])) + mask
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    real = (p @ (v - case.zeros[2])) * VALUE / RESULT + RESULT_ZERO
    rows = real.reshape(-1, case.rows, case.width)
    every = np.broadcast_to(v, (*case.batch, *v.shape[-2:]))
    found = values["y_q"].reshape(rows.shape)
    for image, weights in enumerate(p.reshape(-1, case.rows, case.keys)):
        keys = every.reshape(-1, case.keys, case.width)[image] - case.zeros[2]
        for query, row in enumerate(weights):
            biased = case.mask in ("few", "biases", "each")
            bound = error_bound(row, keys, scale, VALUE, RESULT, biased=biased) + 1e-6
            errors = np.abs(found[image, query] - np.clip(rows[image, query], -128, 127))
            assert (errors <= bound).all(), (name, image, query)


@pytest.mark.parametrize("name", CASES)
def test_on_the_machine(name: str) -> None:
    case = CASES[name]
    data = case.model(np.random.default_rng(0)).SerializeToString()
    artifact = daedal.compile(data, VARIANT, host=None, cpu_levels=())
    assert [op for op in layers(artifact) if op in LAYERS] == LAYERS
    found = check_layers(artifact, data, case.inputs(np.random.default_rng(2)))
    assert found.passed, found.first_difference


def layers(artifact: Artifact) -> list[str]:
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    return [layer.op for layer in launch.layers]


@pytest.mark.parametrize(
    "case",
    [
        Case(mask="input", keys=33),  # keys fill up a block, and may count as much as others
    ],
)
def test_stays_on_the_host(case: Case) -> None:
    data = case.model(np.random.default_rng(0)).SerializeToString()
    with pytest.raises(
        UserError, match=r"at least one layer must run on the accelerator|whole blocks of 16"
    ):
        daedal.compile(data, VARIANT, host=None, cpu_levels=())


def test_stays_float_without_the_operations() -> None:
    graph = lower(CASES["plain"].model(np.random.default_rng(0)))
    assert "softmax" in [node.op for node in graph.nodes]
