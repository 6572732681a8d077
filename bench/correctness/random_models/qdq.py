"""`qdq_graph`: a random quantized graph of many kinds of operators, by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from bench.correctness.random_models.net import Array, Unsuitable
from bench.correctness.random_models.qdq_layers import LAYERS
from bench.correctness.random_models.qdq_moves import MOVES
from bench.correctness.random_models.qdq_net import OPSETS, QdqNet
from bench.correctness.random_models.qdq_pointwise import POINTWISE

__all__ = ["QdqGraph", "qdq_graph"]

ATTEMPTS = 120
TABLES = (LAYERS, MOVES, POINTWISE)
MIXES = ((0.5, 0.25, 0.25), (0.35, 0.5, 0.15), (0.3, 0.15, 0.55), (0.15, 0.7, 0.15))
"""How often graphs of a kind have layers of each table."""


@dataclass(frozen=True)
class QdqGraph:
    """A model, inputs of it by name, and what onnxruntime computes for every tensor."""

    seed: int
    model: onnx.ModelProto
    feeds: dict[str, Array]
    values: Mapping[str, Array]


def qdq_graph(seed: int) -> QdqGraph:
    """A graph of 2 to 24 layers, each with what quantizes its result."""
    rng = np.random.default_rng((31, seed))
    net = QdqNet(rng, OPSETS[int(rng.integers(len(OPSETS)))])
    for _ in range(net.one_of((1, 1, 1, 2))):
        shape = _shape(net)
        if net.chance(0.1):
            net.integer_input(shape)
        else:
            net.quantized(net.input(shape))
    mix = net.one_of(MIXES)
    layers = net.one_of((2, 3, 4, 6, 8, 12, 16, 24))
    for _ in range(ATTEMPTS):
        table = TABLES[int(rng.choice(len(TABLES), p=mix))]
        weights = np.array(list(table.values()), np.float64)
        layer = list(table)[int(rng.choice(len(table), p=weights / weights.sum()))]
        kept = len(net.nodes), len(net.values), len(net.ends)
        try:
            layer(net)
        except Unsuitable:
            del net.nodes[kept[0] :], net.values[kept[1] :], net.ends[kept[2] :]
            continue
        layers -= 1
        if not layers:
            break
    values = {value.name: value.array for value in net.values} | net.feeds
    return QdqGraph(seed, net.quantized_model(), net.feeds, values)


def _shape(net: QdqNet) -> Sequence[int]:
    """Of an input: a map with channels first or last, a sequence, tokens, or a matrix."""
    kind = net.integer(0, 9)
    batch = 2 if kind and net.chance(0.07) else 1
    channels = net.one_of((1, 2, 3, 4, 8, 12, 16, 16, 24, 32, 40))
    channels = min(channels, 20) if batch > 1 else channels
    height, width = (net.one_of((1, 2, 4, 5, 6, 7, 8, 12)) for _ in range(2))
    if kind <= 5:
        return batch, channels, height, width
    if kind == 6:
        return batch, height, width, channels
    if kind == 7:
        return batch, channels, net.integer(1, 24)
    if kind == 8:
        return batch, net.integer(1, 16), channels
    return net.one_of((1, 1, 4, 9)), net.integer(1, 48)
