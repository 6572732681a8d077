"""Results that are requantized again instead of loaded: the mean of a map behind a convolution."""

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.compiler.link.ordering import follow_tiles
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import memory_model
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from tests.support.interleaving import check_interleavings

TINY = load_variant("tiny")
VTA = load_variant("vta")


def model(
    rng: np.random.Generator,
    *,
    channels: int = 64,
    size: int = 5,
    kernel: int = 3,
    add: bool = False,
    pool: bool = False,
) -> bytes:
    """A convolution, with `add` the sum with its operand, the mean of each channel, or with `pool`
    the largest of padded windows, and a product with each weight."""
    maker = QdqModel()

    def conv(source: str, kernel: int, scale: float) -> str:
        values = rng.integers(-127, 128, (channels, channels, kernel, kernel)).astype(np.int8)
        weights = maker.weights(values, scale)
        y = maker.op("Conv", source, weights, pads=[kernel // 2] * 4)
        return maker.requantized(y, 0.05, 3)

    x = maker.requantized(maker.input("x", (1, channels, size, size)), 0.05, -3)
    y = conv(x, kernel, 0.004)
    if add:
        y = maker.requantized(maker.op("Add", y, x), 0.05, 0)
    if pool:
        y = maker.requantized(maker.op("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4), 0.05, 3)
    else:
        y = maker.requantized(maker.op("GlobalAveragePool", y), 0.02, 0)
    return maker.model(conv(y, 1, 0.01)).SerializeToString()


def compiled(data: bytes, variant: Variant = TINY) -> Artifact:
    artifact = daedal.compile(data, variant, host=None, cache=False, cpu_levels=())
    verify(artifact.program)
    return artifact


def of(artifact: Artifact, opcode: Opcode) -> list[Instruction]:
    return [item for item in artifact.program.instructions if item.opcode is opcode]


def maps_loaded(artifact: Artifact) -> int:
    """LOADs of results into accumulators."""
    return sum(item.memory == LoadMemory.ACC_NARROW for item in of(artifact, Opcode.LOAD))


def requantized_twice(artifact: Artifact) -> int:
    return sum(
        item.operation == AluOp.REQUANTIZE and item.destination == OutMemory.ACC
        for item in of(artifact, Opcode.ALU)
    )


@pytest.mark.parametrize(("size", "kernel", "again"), [(5, 3, True), (6, 1, False), (1, 1, False)])
def test_every_layer_equals_the_reference(rng, size: int, kernel: int, again: bool) -> None:
    """Behind tiles with few products, the ALU of `tiny` has no time for more."""
    data = model(rng, size=size, kernel=kernel)
    artifact = compiled(data)
    found = check_layers(artifact, data, {"x": rng.normal(0, 1, (1, 64, size, size))})
    assert found.passed, found.first_difference
    assert (requantized_twice(artifact) > 0) == again
    assert (maps_loaded(artifact) > 0) == (not again)


def test_a_sum_behind_the_convolution(rng) -> None:
    """The ALU's last operation, on two accumulators or one, is not always a REQUANTIZE."""
    data = model(rng, add=True)
    found = check_layers(compiled(data), data, {"x": rng.normal(0, 1, (1, 64, 5, 5))})
    assert found.passed, found.first_difference


def test_pads_are_no_results(rng) -> None:
    """A LOAD that fills a border stays: no REQUANTIZE writes its rows."""
    data = model(rng, pool=True)
    artifact = compiled(data)
    assert maps_loaded(artifact) and not requantized_twice(artifact)
    found = check_layers(artifact, data, {"x": rng.normal(0, 1, (1, 64, 5, 5))})
    assert found.passed, found.first_difference


def test_fewer_cycles_and_the_map_is_not_stored(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    data = model(rng, channels=128, size=7, kernel=1)
    artifact = compiled(data, VTA)
    assert requantized_twice(artifact) and not maps_loaded(artifact)
    monkeypatch.setattr(follow_tiles, "requantized_rows", lambda *_: None)
    usual = compiled(data, VTA)
    assert maps_loaded(usual) and not requantized_twice(usual)
    profiles = [
        daedal.simulate(
            item, {"x": np.zeros((1, 128, 7, 7), np.float32)}, device="timing"
        ).profiles[0]
        for item in (artifact, usual)
    ]
    rows = 128 // VTA.array.block_out * 7 * 7
    saved = 2 * rows * VTA.array.block_out // VTA.bus_bytes
    moved = [profile.beats_read + profile.beats_written for profile in profiles]
    assert moved[0] < moved[1] - saved // 2
    assert (profiles[0].cycles or 0) < (profiles[1].cycles or 0)


@pytest.mark.rtl
@pytest.mark.parametrize(("preset", "seed"), [("ddr", 0), ("jitter", 1)])
def test_the_rtl_gives_the_same(rng, preset: str, seed: int) -> None:
    """The functional simulator's bytes, whatever the stalls of the bus, in the model's cycles."""
    artifact = compiled(model(rng))
    assert requantized_twice(artifact)
    x = {"x": rng.normal(0, 1, (1, 64, 5, 5)).astype(np.float32)}
    rtl = daedal.simulate(artifact, x, device=rtl_device(TINY, timing=memory_model(preset, seed)))
    functional = daedal.simulate(artifact, x, device="functional")
    for name, tensor in functional.tensors.items():
        assert rtl.tensors[name].tobytes() == tensor.tobytes()
        assert len(np.unique(tensor)) > 10
    if preset == "ddr":
        timing = daedal.simulate(artifact, x, device="timing")
        assert rtl.profiles[0].cycles == timing.profiles[0].cycles


def test_the_same_under_any_interleaving(rng) -> None:
    check_interleavings(compiled(model(rng)).program, rng, 4)
