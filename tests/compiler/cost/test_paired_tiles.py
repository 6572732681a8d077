"""Weights that stay on chip while pairs of tiles take turns."""

import pytest

from daedal.compiler.cost.paired_tiles import weights_that_stay


@pytest.mark.parametrize(
    ("steps", "places", "stay"),
    [
        (24, 21, 20),  # 4 of 24 are loaded again, with steps between them
        (24, 13, 12),
        (24, 12, 10),  # 14 of 24: two of them follow each other, so they have two places
        (96, 42, 40),
        (24, 40, 24),
        (24, 25, 24),
        (24, 24, 23),
        (24, 2, 0),
    ],
)
def test_others_have_one_place_or_two(steps: int, places: int, stay: int) -> None:
    assert weights_that_stay(steps, places) == stay
