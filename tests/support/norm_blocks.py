"""Blocks of a transformer whose residual sum is read by norms, and the tiles that they get."""

from collections.abc import Callable
from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers import layer_code
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant

__all__ = ["SMALL", "block", "feeds", "tile_of_sum"]

SMALL = load_variant("attention").replace("small", acc_bytes=65_536)


def block(tokens: int, depth: int, inner: int) -> onnx.ModelProto:
    """Two projections, a residual sum of 16 bits, its norms of 16 and 8 bits, and a projection."""
    rng = np.random.default_rng(tokens)
    m = QdqModel(21)

    def product(x: str, rows: int, columns: int) -> str:
        w = m.weights(rng.integers(-60, 61, (rows, columns)).astype(np.int8), 0.004)
        return m.requantized(m.op("MatMul", x, w), 0.05, 0)

    x = m.requantized(m.input("x", (1, tokens, depth)), 0.0005, 0, "int16")
    h = m.requantized(m.input("h", (1, tokens, depth)), 0.03, 0)
    h = product(product(h, depth, inner), inner, depth)
    total = m.requantized(m.op("Add", h, x), 0.001, 0, "int16")
    gains = (m.constant(rng.uniform(0.5, 2, depth).astype(np.float32)) for _ in range(2))
    norms = [m.op("LayerNormalization", total, g, axis=-1, epsilon=1e-5) for g in gains]
    wide, narrow = m.requantized(norms[0], 0.0005, 0, "int16"), m.requantized(norms[1], 0.03, 3)
    return m.model(wide, product(narrow, depth, inner))


def feeds(tokens: int, depth: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(0, 1, (1, tokens, depth)).astype(np.float32) for name in ("x", "h")}


class _FoundError(Exception):
    """Ends a compilation."""


def tile_of_sum(rule: str, size: tuple[int, int, int]) -> Config | None:
    """The tile that the function `rule` of `layer_code` chooses for the residual sum of a block."""
    tiles: list[Config | None] = []
    real: Callable[..., Config | None] = getattr(layer_code, rule)

    def spy(graph: Graph, node: Node, *operands: object) -> Config | None:
        config = real(graph, node, *operands)
        if node.op == "q_conv2d_add":
            tiles.append(config)
            raise _FoundError
        return config

    with mock.patch.object(layer_code, rule, spy), pytest.raises(_FoundError):
        daedal.compile(block(*size).SerializeToString(), "attention", host=None, cache=False)
    return tiles[0]
