"""Spaces on other variants: moved ones are those of the template, and joined ones those alone.

Layers are small and random, of every operator and on several variants, and then on variants with
other scratchpads and lanes. A failure names the seed, the operator and the variant.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import pytest

from daedal.common.errors import ScheduleError, VariantError
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.ops.accelerator.conv.layers import ORDERS, ConvLayers
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.accelerator.tiles.tile_space import chosen
from daedal.compiler.ops.space import Config, Table
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant
from tests.daedal.tuning.test_templates import STREAM, TEMPLATES, VARIANTS, FewChannels
from tests.support.blocked_layer import blocked_layers
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

CHANGES = {
    "inp_bytes": (512, 1_024, 4_096, 32_768),
    "wgt_bytes": (1_024, 4_096, 16_384, 65_536),
    "acc_bytes": (256, 1_024, 2_048, 8_192, 65_536),
    "out_bytes": (64, 256, 512, 2_048, 16_384),
    "par_bytes": (256, 512, 4_096),
    "acc_banks": (2, 4, 8),
    "queue_depth": (2, 4, 16),
    "alu_lanes": (1, 2, 4, 8),
    "requantize_lanes": (1, 2, 4, 8),
}
LAYERS, MOVES = 4, 4
QUICK = [(2, 2), pytest.param((LAYERS, MOVES), marks=pytest.mark.slow)]
"""Layers of an operator, and variants that each is moved to."""


def changed(variant: Variant, rng: np.random.Generator) -> Variant:
    """With other sizes."""
    while True:
        values = {name: int(rng.choice(several)) for name, several in CHANGES.items()}
        try:
            return variant.replace(None, **values)
        except VariantError:
            continue


def pairs(
    name: str, seed: int, layers: int = LAYERS, moves: int = MOVES
) -> Iterator[tuple[str, LayerSpace | ScheduleError | None, LayerSpace | ScheduleError]]:
    """Of random layers of an operator: the space moved to another variant, None where the template
    has to make it, and the template's; the error where nothing fits."""
    operator = OPERATORS["conv2d" if name == STREAM else name]
    picks = FewChannels if name == STREAM else Pick
    able = [key for key, variant in VARIANTS.items() if operator.runs_on(variant)]
    found = 0
    for number in range(50 * layers):
        pick = picks.seeded((seed, number))
        variant = VARIANTS[able[number % len(able)]]
        graph, nodes = blocked_layers(operator.graph(pick, variant), variant)
        for node in nodes:
            if isinstance(graph.types[node.inputs[0]].layout, RowStreamLayout) != (name == STREAM):
                continue
            space = any_space_of(graph, node, variant)
            found += 1
            for _ in range(moves):
                other = changed(variant, pick.rng)
                label = f"seed {seed}, {name} {number} on {other}"
                yield (
                    label,
                    attempt(partial(space.on, other)),
                    attempt(partial(any_space_of, graph, node, other)),
                )
        if found >= layers:
            return


T = TypeVar("T")


def attempt(make: Callable[[], T]) -> T | ScheduleError:
    try:
        return make()
    except ScheduleError as error:
        return error


def default_of(space: LayerSpace) -> Config | None:
    found = attempt(lambda: space.default)
    return None if isinstance(found, ScheduleError) else found


def num_rows(table: Table) -> int:
    return len(next(iter(table.values())))


@pytest.mark.parametrize("extent", QUICK)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_moved_space_is_that_of_the_template(
    name: str, extent: tuple[int, int], seed: int
) -> None:
    moves = refusals = 0
    for label, moved, wanted in pairs(name, seed, *extent):
        if moved is None:
            continue
        if isinstance(moved, ScheduleError) or isinstance(wanted, ScheduleError):
            assert str(moved) == str(wanted), label
            refusals += 1
            continue
        moves += 1
        table, others = moved.all(), wanted.all()
        assert list(table) == list(others), label
        for knob, column in table.items():
            assert column.tolist() == others[knob].tolist(), f"{label}: {knob}"
        assert (moved.cycles(table) == wanted.cycles(others)).all(), label
        memory = PRESETS["ddr"]
        assert (moved.bound(table, memory) == wanted.bound(others, memory)).all(), label
        assert default_of(moved) == default_of(wanted), label
    assert moves >= 1 if extent == QUICK[0] else moves > MOVES
    assert moves + refusals > extent[0] * extent[1] // 2


@pytest.mark.parametrize("name", ["conv2d", "conv2d_add", "grouped_conv2d"])
def test_what_fits_is_enumerated_in_the_order_of_the_knobs(name: str, seed: int) -> None:
    """Against all combinations, without leaving out any early."""
    checked = 0
    for label, space, _ in pairs(name, seed):
        if not isinstance(space, ConvSpace) or space.size > 200_000:
            continue
        grid = np.meshgrid(*space.knobs.values(), indexing="ij")
        table = {knob: part.reshape(-1) for knob, part in zip(space.knobs, grid, strict=True)}
        fits = space.fits(table)
        found = space.all()
        for knob, column in table.items():
            assert column[fits].tolist() == found[knob].tolist(), f"{label}: {knob}"
        checked += num_rows(found) > 0
    assert checked > 2


def test_joined_layers_are_those_alone(seed: int) -> None:
    names = ("conv2d", "conv2d_add", "grouped_conv2d", "conv2d_mul")
    groups: dict[str, list[ConvSpace]] = {}
    for name in names:
        for _, space, _ in pairs(name, seed):
            if isinstance(space, ConvSpace):
                array = (space.variant.array, space.variant.bus)
                # With so many rows of parameters, two tiles or even one do not fit.
                for classes in (1, 3, 9):
                    shapes = [replace(shape, classes=classes) for shape in space.shapes]
                    groups.setdefault(str(array), []).append(ConvSpace(shapes, space.variant))
    assert groups
    rng = np.random.default_rng(seed)
    single, empty = 0, 0
    for spaces in groups.values():
        layers = ConvLayers([space.shapes for space in spaces])
        for _ in range(MOVES):
            variant = changed(spaces[0].variant, rng)
            wanted = []
            for space in spaces:
                table = space.on(variant).all()
                # A network is estimated with the order of work that the default has.
                usual = [table[knob] == values[0] for knob, values in ORDERS.items()]
                table = chosen(table, np.all(usual, axis=0))
                fits = num_rows(table) > 0
                cycles = space.on(variant).cycles_with(table, DDR)
                wanted.append(cycles.min() if fits else np.inf)
            assert layers.least(variant).tolist() == wanted, f"seed {seed}, {variant}"
            single += (layers.all(variant)[1] == 1).any()
            empty += np.isinf(wanted).any()
    assert single and empty
