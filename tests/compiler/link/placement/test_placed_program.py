"""Orders and parts of a program have the arrays of the same instructions in a new program."""

import numpy as np

from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.placed_program import PlacedProgram
from tests.compiler.link.placement.test_hazards import REGIONS, TINY, stream


def program(items: list[PlacedInstruction], unread: list[int] | None = None) -> PlacedProgram:
    return PlacedProgram.of(TINY, REGIONS, items, unread or [])


def assert_same(found: PlacedProgram, expected: PlacedProgram) -> None:
    assert list(map(id, found.items)) == list(map(id, expected.items))
    np.testing.assert_array_equal(found.units, expected.units)
    np.testing.assert_array_equal(found.beats, expected.beats)
    np.testing.assert_array_equal(found.unread, expected.unread)
    np.testing.assert_array_equal(found.cycles(DDR), expected.cycles(DDR))
    np.testing.assert_array_equal(hazards(found), hazards(expected))


def test_another_order(rng: np.random.Generator) -> None:
    items = stream(rng, 60)
    order = rng.permutation(len(items))
    first = program(items, [3, 40])
    first.cycles(DDR)
    unread = [place for place, number in enumerate(order) if number in (3, 40)]
    assert_same(first.reordered(order), program([items[n] for n in order], unread))


def test_other_instructions_for_some(rng: np.random.Generator) -> None:
    items, others = stream(rng, 40), stream(rng, 40)
    first = program(items, [5])
    first.cycles(DDR)
    numbers = [0, 5, 5, 6, 39]
    found = [items[0], items[5], others[5], others[6], items[39]]
    assert_same(first.replaced(numbers, found), program(found, [1]))


def test_two_programs(rng: np.random.Generator) -> None:
    one, two = stream(rng, 30), stream(rng, 20)
    assert_same(program(one, [2]).joined(program(two, [1])), program([*one, *two], [2, 31]))


def test_without_instructions() -> None:
    assert program([]).joined(program([])).items == []
