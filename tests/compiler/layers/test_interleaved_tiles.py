"""Tiles of pools that the linker interleaves with the convolution before them."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.layers import layer_code
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice

VTA = load_variant("vta")


def pooled(rng: np.random.Generator) -> bytes:
    """A convolution with many products, and a pool of its result."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 64, 56, 56)), 0.05, -3)
    w = maker.weights(rng.integers(-127, 128, (64, 64, 3, 3)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("Conv", x, w, pads=[1, 1, 1, 1]), 0.05, 0)
    z = maker.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return maker.model(maker.requantized(z, 0.05, 0)).SerializeToString()


def cycles(model: bytes) -> int:
    artifact = daedal.compile(model, VTA, host=None, cache=False, cpu_levels=())
    loaded = LoadedProgram.place(artifact.program, TimingDevice(VTA))
    return loaded.device.launch(artifact.program, loaded.bases).cycles


@pytest.mark.heavy(4)
def test_the_pool_costs_less_than_with_its_usual_tile(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pooled(rng)
    chosen = []
    real = layer_code.interleaved_tile

    def spy(*args):
        chosen.append(real(*args))
        return chosen[-1]

    monkeypatch.setattr(layer_code, "interleaved_tile", spy)
    interleaved = cycles(model)
    assert [config for config in chosen if config is not None]
    monkeypatch.setattr(layer_code, "interleaved_tile", lambda *_: None)
    assert interleaved < 0.96 * cycles(model)


@pytest.mark.heavy(4)
def test_a_tile_that_does_not_build_is_not_taken(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pooled(rng)
    monkeypatch.setattr(layer_code, "interleaved_tile", lambda *_: None)
    usual = cycles(model)
    wrong = Config.of(by_columns=0, blocks=64, height=28, width=28)
    monkeypatch.setattr(
        layer_code, "interleaved_tile", lambda graph, node, *_: wrong if "pool" in node.op else None
    )
    assert cycles(model) == usual
