"""The choice of tiles: close to the best one, by the cycle model."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from daedal.compiler.ops.accelerator.vector.tile import Tile, VectorTiles, accumulation, map_sizes
from daedal.isa.latencies import alu_latency_cycles
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice
from tests.support.accelerator import link_operator
from tests.support.accelerator_operators import Case, pool_case
from tests.support.vector_operators import elementwise_case, pad_case, resize_case, slice_case

MOST_TILES = 7

Make = Callable[[Variant, np.random.Generator], Case]

SHAPE = (1, 2, 28, 28)
CASES: dict[str, Make] = {
    "add": lambda v, rng: elementwise_case(v, rng, "add", SHAPE, SHAPE),
    "mul": lambda v, rng: elementwise_case(v, rng, "mul", SHAPE, (1, 2, 1, 1)),
    "leaky_relu": lambda v, rng: elementwise_case(v, rng, "leaky_relu", SHAPE, SHAPE),
    "slice": lambda v, rng: slice_case(v, rng, SHAPE, (0, 0, 0), (2, 14, 14), (2, 2), True),
    "pad": lambda v, rng: pad_case(v, rng, SHAPE, (0, 1, 1), (0, 1, 1)),
    "resize": lambda v, rng: resize_case(v, rng, (1, 2, 14, 14), (2, 2)),
    "max pool": lambda v, rng: pool_case(v, rng, SHAPE, (3, 3), (2, 2), (1, 1, 1, 1)),
    "max pool, stride 1": lambda v, rng: pool_case(v, rng, SHAPE, (5, 5), (1, 1), (2, 2, 2, 2)),
    "avg pool": lambda v, rng: pool_case(
        v, rng, SHAPE, (7, 7), (1, 1), (3, 3, 3, 3), [[0] * 28] * 28
    ),
}


def cycles(case: Case) -> int:
    _, linked = link_operator(case.variant, case.schedule.func, case.arrays)
    program = linked.program
    device = TimingDevice(program.variant)
    return device.launch(program, LoadedProgram.place(program, device).bases).cycles


def candidates(tiles: VectorTiles) -> Iterator[Tile]:
    """Some of the tiles that fit twice and are estimated at up to twice the best."""
    ordered = sorted(tiles.fitting(2), key=tiles.cycles)
    near = [tile for tile in ordered if tiles.cycles(tile) <= 2 * tiles.cycles(ordered[0])]
    yield from near[:: -(-len(near) // MOST_TILES)]


@pytest.mark.parametrize("name", CASES)
def test_chosen_tile_is_close_to_the_best(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = load_variant("vta")

    def make() -> Case:
        return CASES[name](variant, np.random.default_rng(5))

    seen: list[VectorTiles] = []
    best = VectorTiles.best

    def noted(tiles: VectorTiles) -> Tile:
        seen.append(tiles)
        return best(tiles)

    monkeypatch.setattr(VectorTiles, "best", noted)
    chosen = cycles(make())
    found = {}
    for tile in candidates(seen[0]):
        monkeypatch.setattr(VectorTiles, "best", lambda _tiles, tile=tile: tile)
        found[tile] = cycles(make())
    assert len(found) >= 4
    assert chosen <= 1.1 * min(found.values()), found


def test_a_global_average_moves_at_the_rate_of_the_bus(rng: np.random.Generator) -> None:
    """16 channels of 56x56 in vectors of two words: 6,272 words."""
    window = (56, 56)
    case = pool_case(load_variant("vta"), rng, (1, 1, *window), window, rows=[[0]], large=True)
    assert cycles(case) <= 1.35 * 2 * 56 * 56


def test_operations_on_one_row_wait_for_each_other() -> None:
    variant = load_variant("vta")
    assert accumulation(9, 100, variant) == 900
    assert accumulation(9, 1, variant) == 9 * (alu_latency_cycles(variant) + 1)


def test_sizes_of_maps_are_whole_grains() -> None:
    assert map_sizes(4, 6, (1, 1)) == [(4, 6), (2, 6), (1, 6), (1, 3), (1, 2), (1, 1)]
    assert map_sizes(4, 6, (2, 3)) == [(4, 6), (2, 6), (2, 3)]
    both = map_sizes(4, 6, (2, 3), overlapping=True)
    assert both == [(4, 6), (2, 6), (4, 3), (2, 3)]


def test_windows_that_overlap_load_few_pixels_twice(rng: np.random.Generator) -> None:
    """ResNet-18's pool: with whole rows, one at a time, every second one came twice."""
    variant, size = load_variant("vta"), 112
    case = pool_case(variant, rng, (1, 1, size, size), (3, 3), (2, 2), (1, 1, 1, 1))
    _, linked = link_operator(variant, case.schedule.func, case.arrays)
    loads = [item for item in linked.program.instructions if item.opcode is Opcode.LOAD]
    pixels = sum(
        item.blocks * item.rows * item.cols
        for item in loads
        if item.memory == LoadMemory.ACC_NARROW
    )
    assert size * size <= pixels <= 1.2 * size * size
