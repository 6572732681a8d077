"""Random legal schedules of every operator: te = loop IR = the machine, whatever was chosen.

A dozen per operator run always; ``-m slow`` runs 500 of each. An attempt that the compiler refuses,
a tile that does not fit among them, does not count.
"""

import pytest

from daedal.isa.errors import ScheduleError
from daedal.isa.variant import load_variant
from tests.support.levels import Compiled, Layer, check_layer
from tests.support.operator_graphs import OPERATORS, Pick, inputs_of
from tests.support.random_schedule import random_schedule

VARIANTS = [load_variant(name) for name in ("tiny", "vta", "batch4", "wide")]

NUM_QUICK, NUM_SLOW = 10, 500

SHARE = 0.25
"""What part of the attempts must lead to a schedule: else the generator tests little."""


def legal(name: str, seed: int, number: int) -> bool:
    """Whether attempt `number` is a schedule; checks it then."""
    pick = Pick.seeded((seed, number))
    variants = [variant for variant in VARIANTS if OPERATORS[name].runs_on(variant)]
    variant = variants[number % len(variants)]
    graph = OPERATORS[name].graph(pick, variant)
    inputs = inputs_of(graph, pick)

    def change(layer: Layer) -> Layer:
        schedule = layer.lowered.schedule
        return layer.rescheduled(random_schedule(schedule, layer.original, pick.rng))

    try:
        compiled = Compiled.of(graph, variant, change)
    except ScheduleError:
        return False
    values = compiled.values(inputs)
    for layer in compiled.layers:
        check_layer(layer, values, [("a random schedule", layer.lowered.schedule.func)])
    compiled.check_program(inputs)
    return True


def check(name: str, seed: int, wanted: int) -> None:
    found = number = 0
    while found < wanted:
        assert number * SHARE <= found + wanted, f"{found} of {number} attempts of {name} are legal"
        try:
            found += legal(name, seed, number)
        except BaseException:
            print(f"{name}: seed {seed}, attempt {number}")
            raise
        number += 1


@pytest.mark.parametrize("name", OPERATORS)
def test_random_schedules(name: str, seed: int) -> None:
    check(name, seed, NUM_QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_many_random_schedules(name: str, seed: int) -> None:
    check(name, seed, NUM_SLOW)
