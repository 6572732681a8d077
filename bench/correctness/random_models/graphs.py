"""`random_graph`: a random ONNX model by seed, with inputs and what every tensor should be.
`quantized_graph`: one that is quantized already, for the accelerator; `random_transformer`,
`random_vision`: networks as they are exported."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from bench.correctness.random_models.layers import LAYERS
from bench.correctness.random_models.moves import MOVES
from bench.correctness.random_models.net import Array, Net, Unsuitable
from bench.correctness.random_models.pointwise import POINTWISE
from bench.correctness.random_models.quantized import (
    INTEGER_LAYERS,
    QUANTIZED,
    QUANTIZED_MOVES,
    fake_quantized,
)
from bench.correctness.random_models.transformers import transformer
from bench.correctness.random_models.vision import vision

__all__ = [
    "NETWORKS",
    "RandomGraph",
    "quantized_graph",
    "random_graph",
    "random_transformer",
    "random_vision",
]

OPSETS = (17, 18, 19, 20, 21)
ATTEMPTS = 200
LARGE = 0.1
"""Share of graphs of few but large tensors: several tiles, and work for several threads."""
LARGE_ELEMENTS, SMALL_ELEMENTS = 1 << 16, 1 << 12
OPEN = 0.1
"""Share of graphs whose inputs have symbolic shapes."""

Table = Mapping[Callable[[Net], None], int]


@dataclass(frozen=True)
class RandomGraph:
    """A model and a run of it.

    Attributes
    ----------
    feeds : its inputs by name.
    values : every tensor (`bench.correctness.random_models.net`).
    units : quantized tensors that may differ by one unit.
    """

    seed: int
    model: onnx.ModelProto
    feeds: dict[str, Array]
    values: dict[str, Array]
    units: frozenset[str]


def random_graph(seed: int) -> RandomGraph:
    """One of 5 to 25 operators, in a tenth of the cases a few more: a layer may add several."""
    rng = np.random.default_rng((22, seed))
    large = bool(rng.random() < LARGE)
    opset = OPSETS[int(rng.integers(len(OPSETS)))]
    net = Net(rng, opset, LARGE_ELEMENTS if large else SMALL_ELEMENTS)
    for _ in range(net.integer(1, 2)):
        net.input(_large_shape(net) if large else _shape(net))
    tables = _tables(net)
    wanted = net.integer(5, 9 if large else 23)
    for _ in range(ATTEMPTS):
        if len(net.nodes) >= wanted:
            break
        _grow(net, tables)
    values = {value.name: value.array for value in net.values}
    model = net.model(open_shapes=net.chance(OPEN))
    return RandomGraph(seed, model, net.feeds, values, frozenset(net.units))


def random_transformer(seed: int) -> RandomGraph:
    """A model with attention; it may have masks and caches among its inputs."""
    return _network(24, seed, transformer)


def random_vision(seed: int) -> RandomGraph:
    """A network of images, of blocks that published ones have."""
    return _network(25, seed, vision)


NETWORKS: Mapping[str, Callable[[int], RandomGraph]] = {
    "": random_graph,
    "transformers": random_transformer,
    "vision": random_vision,
}
"""What the benches draw, by the option's word."""


def _network(family: int, seed: int, grow: Callable[[Net], None]) -> RandomGraph:
    """A model as it is exported: nothing keeps its values near 1, and hardly any inner tensor is an
    output."""
    for attempt in itertools.count():
        rng = np.random.default_rng((family, seed, attempt) if attempt else (family, seed))
        net = Net(rng, OPSETS[int(rng.integers(len(OPSETS)))], LARGE_ELEMENTS, scaled=False)
        try:
            grow(net)
            break
        except Unsuitable:
            continue
    values = {value.name: value.array for value in net.values}
    inner = net.one_of((0.0, 0.0, 0.01))
    return RandomGraph(seed, net.model(inner=inner), net.feeds, values, frozenset())


def quantized_graph(seed: int, wanted: int = 40) -> RandomGraph:
    """Layers between moves, changes of scale and concats; every tensor is quantized."""
    net = Net(np.random.default_rng((23, seed)), OPSETS[seed % len(OPSETS)])
    layers: Table = {layer: QUANTIZED[layer] for layer in QUANTIZED if layer is not fake_quantized}
    for _ in range(net.integer(1, 2)):
        channels = net.one_of((2, 3, 4, 8, 12))
        net.input((1, channels, *(net.one_of((1, 2, 4, 5, 6)) for _ in range(2))))
        fake_quantized(net)
    kept = net.values[-1:]
    for _ in range(ATTEMPTS):
        if len(net.nodes) >= wanted:
            break
        net.values = list(kept)
        before = len(net.nodes)
        _grow(net, [(QUANTIZED_MOVES, 0.7), (layers, 0.3)])
        kept += net.values[-1:] if len(net.nodes) > before else []
    net.values = kept
    return RandomGraph(seed, net.model(), net.feeds, {}, frozenset(net.units))


def _shape(net: Net) -> tuple[int, ...]:
    """Of an input: a map, a sequence, tokens or a matrix, of odd sizes."""
    kind = net.integer(0, 5)
    batch = net.one_of((1, 1, 2))
    if kind <= 2:
        return batch, net.one_of((1, 2, 3, 4, 6, 8, 12)), net.integer(3, 11), net.integer(3, 11)
    if kind == 3:
        return batch, net.one_of((1, 3, 4, 8)), net.integer(5, 40)
    if kind == 4:
        return batch, net.integer(2, 9), net.one_of((4, 8, 16, 7))
    return net.integer(1, 9), net.integer(2, 33)


def _large_shape(net: Net) -> tuple[int, ...]:
    kind = net.integer(0, 2)
    if kind == 0:
        return 1, net.one_of((3, 16, 24, 32)), net.integer(16, 40), net.integer(16, 40)
    if kind == 1:
        return net.integer(1, 2), net.integer(16, 70), net.one_of((32, 64, 100))
    return net.integer(16, 130), net.integer(16, 130)


def _tables(net: Net) -> list[tuple[Table, float]]:
    """Which kinds of layers a graph has, and how often."""
    kind = net.integer(0, 9)
    if kind <= 5:
        return [(LAYERS, 0.45), (POINTWISE, 0.3), (MOVES, 0.25)]
    if kind == 6:
        return [(LAYERS, 0.1), (POINTWISE, 0.45), (MOVES, 0.45)]
    if kind <= 8:
        return [(QUANTIZED, 0.55), (MOVES, 0.2), (POINTWISE, 0.15), (LAYERS, 0.1)]
    return [(INTEGER_LAYERS, 0.3), (QUANTIZED, 0.3), (POINTWISE, 0.2), (MOVES, 0.2)]


def _grow(net: Net, tables: list[tuple[Table, float]]) -> None:
    """Add a layer, or nothing where no tensor suits the one that was drawn."""
    number = net.rng.choice(len(tables), p=[share for _, share in tables])
    table = tables[int(number)][0]
    weights = np.array(list(table.values()), np.float64)
    layer = list(table)[int(net.rng.choice(len(table), p=weights / weights.sum()))]
    nodes, values, units = len(net.nodes), len(net.values), set(net.units)
    try:
        layer(net)
    except Unsuitable:
        del net.nodes[nodes:], net.values[values:]
        net.units = units
