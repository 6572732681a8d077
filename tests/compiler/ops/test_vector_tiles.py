"""The choice of tiles: close to the best one, by the cycle model."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from daedal.compiler.ops.accelerator.tiles.tile_space import TileSpace
from daedal.compiler.ops.accelerator.vector.space import VectorSpace
from daedal.compiler.ops.accelerator.vector.tile import accumulation
from daedal.compiler.ops.space import Config
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


def candidates(space: TileSpace) -> list[Config]:
    """Some of the usual configurations that are estimated at up to twice the best."""
    table = space.usual(space.all())
    estimates = space.cycles(table)
    order = np.argsort(estimates, kind="stable")
    near = order[estimates[order] <= 2 * estimates.min()]
    some = near[:: -(-len(near) // MOST_TILES)]
    return space.configs({knob: column[some] for knob, column in table.items()})


@pytest.mark.parametrize("name", CASES)
def test_chosen_tile_is_close_to_the_best(name: str) -> None:
    case = CASES[name](load_variant("vta"), np.random.default_rng(5))
    template = case.template
    assert template is not None
    chosen = cycles(case)
    found = {
        config: cycles(replace(case, schedule=template.schedule(config)))
        for config in candidates(template.space)
    }
    assert len(found) >= 4
    assert chosen <= 1.1 * min(found.values()), found


def test_a_global_average_moves_at_the_rate_of_the_bus(rng: np.random.Generator) -> None:
    """16 channels of 56x56 in vectors of two words: 6,272 words."""
    window = (56, 56)
    case = pool_case(load_variant("vta"), rng, (1, 1, *window), window, rows=[[0]], large=True)
    assert cycles(case) <= 1.35 * 2 * 56 * 56


def test_parts_of_rows_are_a_burst_each(rng: np.random.Generator) -> None:
    """Without them in the estimate, single columns were chosen, at three times the cycles."""
    case = pool_case(load_variant("tiny"), rng, (1, 64, 13, 13), (13, 13), rows=[[0]], large=True)
    assert case.template is not None
    narrow = case.template.schedule(Config.of(blocks=32, height=1, width=1))
    assert 2 * cycles(case) < cycles(replace(case, schedule=narrow))


def test_operations_on_one_row_wait_for_each_other() -> None:
    variant = load_variant("vta")
    assert accumulation(9, 100, variant) == 900
    assert accumulation(9, 1, variant) == 9 * (alu_latency_cycles(variant) + 1)


@pytest.mark.parametrize(
    ("case", "usual", "grain"),
    [
        (
            lambda v, rng: elementwise_case(v, rng, "add", (1, 1, 4, 6), (1, 1, 4, 6)),
            {(4, 6), (2, 6), (1, 6), (1, 3), (1, 2), (1, 1)},
            (1, 1),
        ),
        (
            lambda v, rng: resize_case(v, rng, (1, 1, 2, 2), (2, 3)),
            {(4, 6), (2, 6), (2, 3)},
            (2, 3),
        ),
        (
            lambda v, rng: pool_case(v, rng, (1, 1, 4, 6), (3, 3), (1, 1), (1, 1, 1, 1)),
            {(h, w) for h in (4, 2, 1) for w in (6, 3, 2, 1)},
            (1, 1),
        ),
    ],
)
def test_sizes_of_maps_are_whole_grains(case: Make, usual: set, grain: tuple[int, int], rng):
    """The default is one of whole rows and parts of a row; of windows that overlap, of all."""
    template = case(load_variant("vta"), rng).template
    assert template is not None and isinstance(template.space, VectorSpace)
    table = template.space.all()
    sizes = [
        set(zip(rows["height"].tolist(), rows["width"].tolist(), strict=True))
        for rows in (table, template.space.usual(table))
    ]
    assert sizes[1] == usual <= sizes[0]
    assert all(h % grain[0] == 0 and w % grain[1] == 0 for h, w in sizes[0])


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
