"""Tiles of a convolution in front of a layer that waits for its weights."""

import numpy as np
import numpy.typing as npt
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.layers import layer_code
from daedal.compiler.link.ordering import feed_units
from daedal.compiler.ops.space import Config
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice

VTA = load_variant("vta")


def classifier(rng: np.random.Generator, classes: int) -> bytes:
    """A convolution of 7 x 7 pixels, the mean of each channel, and a product with each weight."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 1024, 7, 7)), 0.05, -3)
    w = maker.weights(rng.integers(-127, 128, (1024, 1024, 1, 1)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("Conv", x, w), 0.05, 0)
    mean = maker.requantized(maker.op("GlobalAveragePool", y), 0.05, 0)
    w = maker.weights(rng.integers(-127, 128, (classes, 1024, 1, 1)).astype(np.int8), 0.01)
    return maker.model(maker.requantized(maker.op("Conv", mean, w), 0.05, 0)).SerializeToString()


def compiled(
    model: bytes, monkeypatch: pytest.MonkeyPatch, *, spared: bool = True
) -> tuple[Program, list[Config]]:
    """The program, and the tiles that were found. The mean is loaded, so that the last convolution
    and its tiles make the difference."""
    chosen = []
    real = layer_code.sparing_tile

    def spy(*args):
        chosen.append(real(*args) if spared else None)
        return chosen[-1]

    with monkeypatch.context() as patched:
        patched.setattr(layer_code, "sparing_tile", spy)
        patched.setattr(layer_code, "matching_tile", lambda *_: None)
        artifact = daedal.compile(model, VTA, host=None, cache=False, cpu_levels=())
    return artifact.program, [config for config in chosen if config is not None]


def run(program: Program, rng: np.random.Generator) -> tuple[int, npt.NDArray[np.int64]]:
    """Its cycles, and what it computes."""
    verify(program)
    loaded = LoadedProgram.place(program, TimingDevice(VTA))
    cycles = loaded.device.launch(program, loaded.bases).cycles
    x = rng.integers(-128, 128, (1, 1024, 7, 7))
    (spec,) = program.inputs
    (result,) = LoadedProgram.place(program, FunctionalDevice(VTA)).run({spec.name: x})[0].values()
    assert cycles is not None
    return cycles, result


@pytest.mark.heavy(6)
def test_the_layer_behind_waits_for_fewer_weights(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier(rng, 1000)
    program, found = compiled(model, monkeypatch)
    assert len(found) == 1
    monkeypatch.setattr(feed_units, "weights_ahead", lambda program, _: program)
    usual, _ = compiled(model, monkeypatch, spared=False)
    (cycles, result), (others, expected) = (
        run(x, np.random.default_rng(1)) for x in (program, usual)
    )
    np.testing.assert_array_equal(result, expected)
    assert cycles < 0.96 * others


@pytest.mark.heavy(3)
def test_few_weights_are_not_worth_another_tile(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compiled(classifier(rng, 16), monkeypatch)[1]
