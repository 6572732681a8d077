"""Depthwise convolutions whose results stay in OUT, part by part, for the pointwise convolutions
behind them: tiles, cycles, results."""

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.compiler.graph.graph import Graph
from daedal.compiler.layers import layer_code
from daedal.compiler.layers.pairs import Pair, PairTiles
from daedal.compiler.link.ordering import interleave
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import MemoryModel
from daedal.isa.protocols import Device
from daedal.isa.table import BASES, GemmMode, Opcode
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.memory_flow import MemoryFlow
from daedal.sim.timing.device import TimingDevice
from tests.support.interleaving import check_interleavings

DIRECT = load_variant("vta")
PLAIN = DIRECT.replace("plain", gemm_reads_out=False)
SIZE = 28
WORKSPACE = BASES.index("workspace")


def model(
    rng: np.random.Generator,
    *,
    channels: int = 64,
    stride: int = 1,
    add: bool = False,
    twice: bool = False,
    before: bool = False,
) -> bytes:
    """A depthwise convolution and the pointwise one that reads its result; with `add`, the input is
    added behind them; with `twice`, a pool reads the depthwise result, too; with `before`, another
    pointwise convolution is in front of them."""
    maker = QdqModel()

    def conv(source: str, outputs: int, inputs: int, kernel: int, **attrs: object) -> str:
        values = rng.integers(-127, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
        y = maker.op("Conv", source, maker.weights(values, 0.002), **attrs)
        return maker.requantized(y, 0.05, 0)

    x = maker.requantized(maker.input("x", (1, channels, SIZE, SIZE)), 0.05, -3)
    source = conv(x, channels, channels, 1) if before else x
    y = conv(source, channels, 1, 3, pads=[1] * 4, strides=[stride] * 2, group=channels)
    z = conv(y, channels, channels, 1)
    if add:
        z = maker.requantized(maker.op("Add", z, x), 0.05, 0)
    others = [maker.requantized(maker.op("GlobalAveragePool", y), 0.05, 0)] if twice else []
    return maker.model(z, *others).SerializeToString()


def compiled(data: bytes, variant: Variant = DIRECT) -> Artifact:
    artifact = daedal.compile(data, variant, host=None, cache=False, cpu_levels=())
    verify(artifact.program)
    return artifact


def cycles(artifact: Artifact, device: Device | None = None) -> int:
    device = device or TimingDevice(artifact.variant)
    loaded = LoadedProgram.place(artifact.program, device)
    return device.launch(artifact.program, loaded.bases).cycles or 0


def chains(artifact: Artifact) -> bool:
    """Whether all dense products read OUT."""
    modes = {item.mode for item in products(artifact)}
    return GemmMode.DENSE_OUT in modes and GemmMode.DENSE not in modes


def products(artifact: Artifact) -> list[Instruction]:
    return [item for item in artifact.program.instructions if item.opcode is Opcode.GEMM]


def words(artifact: Artifact, opcode: Opcode) -> int:
    """Rows that LOADs or STOREs of a program move."""
    found = (item for item in artifact.program.instructions if item.opcode is opcode)
    return sum(item.blocks * item.rows * item.cols for item in found)


@pytest.mark.heavy(3)
@pytest.mark.parametrize(("stride", "add"), [(1, False), (2, False), (1, True)])
def test_every_layer_equals_the_reference(rng, stride: int, add: bool) -> None:
    data = model(rng, stride=stride, add=add)
    artifact = compiled(data)
    assert chains(artifact)
    found = check_layers(artifact, data, {"x": rng.normal(0, 1, (1, 64, SIZE, SIZE))})
    assert found.passed, found.first_difference
    assert all(tensor.difference is not None for tensor in found.tensors)


@pytest.mark.heavy(3)
def test_the_result_between_the_layers_is_not_moved(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    data = model(rng)
    chained = compiled(data)
    plain = compiled(data, PLAIN)
    rows = 4 * SIZE * SIZE
    assert words(chained, Opcode.STORE) == words(plain, Opcode.STORE) - rows
    assert cycles(chained) < 0.85 * cycles(plain)
    # The tiles make the difference: the usual ones leave the linker nothing to chain.
    monkeypatch.setattr(layer_code, "chained_tiles", lambda *_: None)
    assert not chains(compiled(data))


@pytest.mark.heavy(3)
def test_the_result_between_the_layers_takes_no_memory(rng) -> None:
    """Only the operand of the depthwise convolution lies in the workspace."""
    data = model(rng, before=True)
    size = 64 * SIZE * SIZE
    program = compiled(data).program
    assert program.region_bytes[WORKSPACE] == MemoryFlow(program).workspace_needed_bytes == size
    assert program.observed.region_bytes[WORKSPACE] == 2 * size
    assert compiled(data, PLAIN).program.region_bytes[WORKSPACE] == 2 * size


@pytest.mark.heavy(3)
@pytest.mark.parametrize("gain", [0.0, 1e9])
def test_sharing_units_may_gain_more(rng, monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    """The depthwise convolution can be in a pair with the layer before it or behind it."""

    def sharing(
        graph: Graph, pair: Pair, variant: Variant, memory: MemoryModel
    ) -> PairTiles | None:
        first, second = (any_space_of(graph, node, variant).default for node in pair)
        return PairTiles(first, second, gain)

    monkeypatch.setattr(layer_code, "sharing_tiles", sharing)
    modes = {x.mode for x in products(compiled(model(rng, before=True)))}
    assert (GemmMode.DENSE_OUT in modes) == (gain == 0)


@pytest.mark.heavy(2)
def test_another_reader_has_the_result_in_memory(rng) -> None:
    data = model(rng, twice=True)
    artifact = compiled(data)
    found = check_layers(artifact, data, {"x": rng.normal(0, 1, (1, 64, SIZE, SIZE))})
    assert found.passed, found.first_difference


@pytest.mark.heavy(3)
def test_the_same_under_any_interleaving(rng) -> None:
    check_interleavings(compiled(model(rng)).program, rng, 4)


@pytest.mark.heavy(2)
def test_a_chain_that_does_not_fit_is_left_out(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are free, but not in one piece, the layers run one after the other."""
    data = model(rng)
    monkeypatch.setattr("daedal.compiler.link.ordering.chain_tiles.all_fit", lambda *_: True)
    monkeypatch.setattr(interleave, "tiles_in_turns", lambda *_: {})
    monkeypatch.setattr("daedal.compiler.link.ordering.chain_tiles.AHEAD", 50)
    artifact = compiled(data)
    assert not chains(artifact)
    found = check_layers(artifact, data, {"x": rng.normal(0, 1, (1, 64, SIZE, SIZE))})
    assert found.passed, found.first_difference


@pytest.mark.rtl
@pytest.mark.slow
def test_the_rtl_takes_as_many_cycles(rng) -> None:
    """The functional simulator's bytes, in the cycles that the model counts."""
    variant = load_variant("tiny").replace("direct", gemm_reads_out=True)
    artifact = compiled(model(rng, channels=16, stride=2), variant)
    assert chains(artifact)
    inputs = {"x": rng.normal(0, 1, (1, 16, SIZE, SIZE)).astype(np.float32)}
    expected = daedal.simulate(artifact, inputs, device="timing")
    found = daedal.simulate(artifact, inputs, device=rtl_device(variant))
    (name,) = expected.tensors
    np.testing.assert_array_equal(found.tensors[name], expected.tensors[name])
    assert found.profiles[0].cycles == expected.profiles[0].cycles
    assert len(np.unique(found.tensors[name])) > 30
