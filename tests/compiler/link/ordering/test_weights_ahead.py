"""LOADs of weights that the multipliers wait for: parts of them move, and nothing else changes."""

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from bench.qdq_model import QdqModel
from daedal.checking.layer_check import check_layers
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering import feed_units, weight_parts
from daedal.compiler.link.ordering import weights_ahead as module
from daedal.compiler.link.ordering.program_times import ProgramTimes
from daedal.compiler.link.ordering.weights_ahead import weights_ahead
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.memory_model import memory_model
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.verifier import verify
from tests.support.placed_layers import TINY, load, multiply, program_of

STEPS = 400
"""Products of a tile of the first layer. Its operands take the rows of those two tiles before."""

TILES = 12
FIRST, ROWS = 8, 96
"""Rows of the second layer's weights; the first tile of the first layer reads those before."""


@pytest.fixture(autouse=True)
def _parts_of_eight_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    words = TINY.array.block_out * TINY.array.block_in // TINY.bus_bytes
    monkeypatch.setattr(weight_parts, "PART_WORDS", 8 * words)
    monkeypatch.setattr(module, "SHORTEST_WAIT", 50)


def program(steps: int = STEPS, weights: int = FIRST) -> list[PlacedInstruction]:
    """Tiles of a layer that the multipliers bound, and one of a layer that the bus does."""
    items = [load(LoadMemory.WGT, 0, FIRST)]
    for n in range(TILES):
        items += [
            load(LoadMemory.INP, 2 * (n % 2), 1, word=n),
            multiply((Memory.INP, 2 * (n % 2), 1), (Memory.WGT, 0, FIRST), steps=steps),
        ]
    return [*items, load(LoadMemory.WGT, weights, ROWS), multiply((Memory.WGT, weights, ROWS))]


def rows_of(items: list[PlacedInstruction]) -> list[tuple[int, int, int]]:
    """Place, first row and end of the LOADs of the second layer's weights."""
    found = []
    for place, item in enumerate(items):
        if item.unit is Unit.LOAD and item.rows[0].memory is Memory.WGT and place:
            ((begin, end),) = item.rows[0].runs
            first = item.rows[0].first
            assert item.instruction.values.get("row", 0) == first + begin
            assert item.instruction.values["cols"] == end - begin
            found.append((place, first + begin, first + end))
    return found


def moved(items: list[PlacedInstruction]) -> list[PlacedInstruction]:
    """The items in their new order, some in parts."""
    return weights_ahead(program_of(items)).items


def test_parts_move_before_loads_that_have_time() -> None:
    items = program()
    found = moved(items)
    parts = rows_of(found)
    assert len(parts) > 1 and parts[0][0] < len(found) - 2
    # Each row once, and what else there is in the same order.
    loaded = sorted(row for _, begin, end in parts for row in range(begin, end))
    assert loaded == list(range(FIRST, FIRST + ROWS))
    places = {place for place, _, _ in parts}
    rest = [item for place, item in enumerate(found) if place not in places]
    assert rest == [*items[:-2], items[-1]]
    words = ROWS // 2 * TINY.array.block_out * TINY.array.block_in // TINY.bus_bytes
    offsets = {
        begin: found[place].instruction.values.get("offset_beats", 0) for place, begin, _ in parts
    }
    assert offsets[FIRST] == 0
    assert offsets.get(FIRST + ROWS // 2, words) == words


def test_layers_that_wait_for_nothing_stay() -> None:
    items = program()[:-2]
    assert moved(items) == items


@pytest.mark.parametrize("steps", [1, STEPS])
def test_products_in_front_are_not_delayed(steps: int) -> None:
    items = program(steps)
    ends = []
    for found in (items, moved(items)):
        placed = program_of(found)
        times = ProgramTimes(placed, placed.cycles(DDR))
        products = [n for n, item in enumerate(found) if item.unit is Unit.GEMM]
        ends.append([times.times(np.arange(len(found))).ends[n] for n in products])
    (*before, last), (*after, earlier) = ends
    assert after == before and earlier < last


def test_weights_wait_for_their_rows() -> None:
    """All products in front read one of the second layer's rows."""
    found = moved(program(weights=0))
    last = max(place for place, item in enumerate(found[:-1]) if item.unit is Unit.GEMM)
    assert all(place > last for place, begin, _ in rows_of(found) if begin < FIRST)
    assert any(place < last for place, begin, _ in rows_of(found) if begin >= FIRST)


def classifier(rng: np.random.Generator) -> bytes:
    """A convolution of 7 x 7 pixels, the mean of each channel, and a product with each weight."""
    maker = QdqModel()

    def conv(source: str, outputs: int, inputs: int) -> str:
        values = rng.integers(-127, 128, (outputs, inputs, 1, 1)).astype(np.int8)
        return maker.requantized(maker.op("Conv", source, maker.weights(values, 0.01)), 0.05, 0)

    x = maker.requantized(maker.input("x", (1, 32, 7, 7)), 0.05, -3)
    mean = maker.op("GlobalAveragePool", conv(x, 64, 32))
    result = conv(maker.requantized(mean, 0.01, 0), 128, 64)
    return maker.model(result).SerializeToString()


@pytest.mark.rtl
@pytest.mark.parametrize(("preset", "seed"), [("ddr", 0), ("jitter", 1), ("jitter", 2)])
def test_the_rtl_gives_the_same(
    rng, monkeypatch: pytest.MonkeyPatch, preset: str, seed: int
) -> None:
    """The bytes of the functional simulator, which are those of the reference, whatever the stalls
    of the bus, in the model's cycles."""
    changes = []

    def spy(program, memory):
        found = weights_ahead(program, memory)
        changes.append(found.items != program.items)
        return found

    monkeypatch.setattr(feed_units, "weights_ahead", spy)
    model = classifier(rng)
    artifact = daedal.compile(model, TINY, host=None, cache=False, cpu_levels=())
    assert changes == [True]
    verify(artifact.program)
    x = {"x": rng.normal(0, 1, (1, 32, 7, 7)).astype(np.float32)}
    device = rtl_device(TINY, timing=memory_model(preset, seed))
    assert check_layers(artifact, model, x).passed
    rtl = daedal.simulate(artifact, x, device=device)
    functional = daedal.simulate(artifact, x, device="functional")
    for name, tensor in functional.tensors.items():
        assert rtl.tensors[name].tobytes() == tensor.tobytes()
        assert len(np.unique(tensor)) > 30
    if preset == "ddr":
        timing = daedal.simulate(artifact, x, device="timing")
        assert rtl.profiles[0].cycles == timing.profiles[0].cycles
