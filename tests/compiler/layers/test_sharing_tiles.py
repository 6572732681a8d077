"""Tiles of a convolution and of the depthwise convolution behind it that run at the same time."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers import layer_code
from daedal.compiler.layers.pairs import Pair, PairTiles
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice

VTA = load_variant("vta")
SIZE = 28


def model(rng: np.random.Generator, channels: int, *, twice: bool = False) -> bytes:
    """Two pointwise convolutions and a depthwise one with stride 2. With `twice`, another layer
    reads the same tensor as the depthwise one."""
    maker = QdqModel()

    def conv(source: str, outputs: int, inputs: int, kernel: int, **attrs: object) -> str:
        values = rng.integers(-127, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
        y = maker.op("Conv", source, maker.weights(values, 0.002), **attrs)
        return maker.requantized(y, 0.05, 0)

    x = maker.requantized(maker.input("x", (1, 16, SIZE, SIZE)), 0.05, -3)
    y = conv(conv(x, channels, 16, 1), channels, channels, 1)
    z = conv(y, channels, 1, 3, pads=[1, 1, 1, 1], strides=[2, 2], group=channels)
    others = [conv(y, 16, channels, 1)] if twice else []
    return maker.model(z, *others).SerializeToString()


def compiled(data: bytes) -> Artifact:
    return daedal.compile(data, VTA, host=None, cache=False, cpu_levels=())


def cycles(artifact: Artifact) -> int:
    loaded = LoadedProgram.place(artifact.program, TimingDevice(VTA))
    return loaded.device.launch(artifact.program, loaded.bases).cycles or 0


def result(artifact: Artifact, x: np.ndarray) -> bytes:
    loaded = LoadedProgram.place(artifact.program, FunctionalDevice(VTA))
    (spec,) = artifact.program.inputs
    found, _ = loaded.run({spec.name: x})
    return b"".join(array.tobytes() for array in found.values())


class Spy:
    """Notes the pairs of a compilation, and their tiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs: list[Pair] = []
        self.tiles: list[PairTiles | None] = []
        find, choose = layer_code.pair_of, layer_code.sharing_tiles

        def pair_of(graph: Graph, node: Node) -> Pair | None:
            pair = find(graph, node)
            self.pairs += [pair] if pair else []
            return pair

        def tiles(
            graph: Graph, pair: Pair, variant: Variant, memory: MemoryModel
        ) -> PairTiles | None:
            self.tiles.append(choose(graph, pair, variant, memory))
            return self.tiles[-1]

        monkeypatch.setattr(layer_code, "pair_of", pair_of)
        monkeypatch.setattr(layer_code, "sharing_tiles", tiles)


@pytest.mark.heavy(4)
def test_both_layers_take_fewer_cycles_and_compute_the_same(
    rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = model(rng, 256)
    spy = Spy(monkeypatch)
    sharing = compiled(data)
    # Both layers ask for the tiles of their pair, which are found once.
    assert len(spy.pairs) == 2
    (tiles,) = spy.tiles
    assert tiles is not None
    monkeypatch.setattr(layer_code, "pair_of", lambda *_: None)
    usual = compiled(data)
    assert cycles(sharing) < 0.96 * cycles(usual)
    x = rng.integers(-128, 128, (1, 16, SIZE, SIZE)).astype(np.int8)
    assert result(sharing, x) == result(usual, x)


@pytest.mark.heavy(2)
def test_a_pair_that_waits_for_the_bus_keeps_its_tiles(
    rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few channels, both layers have more words than products."""
    spy = Spy(monkeypatch)
    compiled(model(rng, 32))
    assert spy.tiles == [None]


@pytest.mark.heavy(2)
def test_a_result_that_several_layers_read_makes_no_pair(
    rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    compiled(model(rng, 64, twice=True))
    assert not spy.pairs
