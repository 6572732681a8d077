"""Tiles that are chosen for the memory behind the machine."""

from dataclasses import replace

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.compiler.layers import layer_code
from daedal.compiler.layers.layer_code import LEAST_GAIN
from daedal.compiler.link import linker
from daedal.compiler.link.ordering import feed_units
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice

ECP5 = load_variant("ecp5")
BOARD = PRESETS["ulx3s"]


def model(rng: np.random.Generator, inner: int = 192, outer: int = 256) -> bytes:
    """A layer whose fastest tile with `ddr` loads its operands more often than others."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, inner, 14, 14)), 0.05, -3)
    w = maker.weights(rng.integers(-127, 128, (outer, inner, 1, 1)).astype(np.int8), 0.01)
    return maker.model(maker.requantized(maker.op("Conv", x, w), 0.05, 0)).SerializeToString()


def compiled(data: bytes, memory: str = "ddr") -> Artifact:
    return daedal.compile(data, ECP5, memory=memory, host=None, cache=False, cpu_levels=())


def counted(artifact: Artifact) -> tuple[int, int]:
    """Cycles and words read with the board's memory."""
    loaded = LoadedProgram.place(artifact.program, TimingDevice(ECP5, timing=BOARD))
    profile = loaded.device.launch(artifact.program, loaded.bases)
    return profile.cycles or 0, profile.beats_read or 0


def result(artifact: Artifact, x: np.ndarray) -> bytes:
    loaded = LoadedProgram.place(artifact.program, FunctionalDevice(ECP5))
    (spec,) = artifact.program.inputs
    found, _ = loaded.run({spec.name: x})
    return b"".join(array.tobytes() for array in found.values())


@pytest.mark.heavy(4)
def test_a_slow_memory_has_tiles_that_move_fewer_words(rng: np.random.Generator) -> None:
    data = model(rng)
    usual, board = compiled(data), compiled(data, "ulx3s")
    before, after = counted(usual), counted(board)
    assert after[0] < 0.95 * before[0]
    assert after[1] < 0.95 * before[1]
    (spec,) = usual.program.inputs
    x = rng.integers(-128, 128, spec.shape).astype(np.int8)
    assert result(board, x) == result(usual, x)


@pytest.mark.heavy(6)
def test_weights_that_stay_may_take_a_whole_scratchpad(rng: np.random.Generator) -> None:
    """Then the inputs are loaded for half as many groups of them."""
    data = model(rng, 512, 512)
    usual, board = compiled(data), compiled(data, "ulx3s")
    before, after = counted(usual), counted(board)
    assert after[0] < 0.8 * before[0]
    (spec,) = usual.program.inputs
    x = rng.integers(-128, 128, spec.shape).astype(np.int8)
    assert result(board, x) == result(usual, x)


@pytest.mark.heavy(4)
def test_memories_of_full_rate_change_nothing(rng: np.random.Generator) -> None:
    data = model(rng)
    usual = daedal.compile(data, ECP5, host=None, cache=False, cpu_levels=())
    for memory in ("ddr", "ideal"):
        made = replace(compiled(data, memory), memory=usual.memory)  # which it is told by
        assert made.to_bytes() == usual.to_bytes()


def test_a_little_gain_leaves_the_usual_tile(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the layers around it gain or lose is more than that."""
    assert 0 < LEAST_GAIN < 1
    data = model(rng)
    monkeypatch.setattr(layer_code, "LEAST_GAIN", 1.0)
    monkeypatch.setattr(layer_code, "LEAST_WORDS", 1.0)
    # Which constants stay on chip, and the order of instructions, depend on the memory, too.
    monkeypatch.setattr(linker, "keep_constants", lambda part, *_: part)
    monkeypatch.setattr(feed_units, "past_full_queues", lambda program, _: (program, 0.0))
    usual = compiled(data)
    made = replace(compiled(data, "ulx3s"), memory=usual.memory)
    assert made.to_bytes() == usual.to_bytes()
