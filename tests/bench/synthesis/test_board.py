"""The bench of boards: bars, and rows that AXI4 allows."""

import numpy as np
import pytest

from bench.measured import Measured
from bench.synthesis.board import mixed_rows


@pytest.mark.parametrize(
    ("value", "bar", "exact", "passed"),
    [
        (3.8, 3.8, False, True),
        (3.79, 3.8, False, False),
        (0, 0, True, True),
        (1, 0, True, False),
        (2.0, None, False, True),
    ],
)
def test_a_bar(value: float, bar: float | None, exact: bool, passed: bool) -> None:
    assert Measured("something", value, bar, exact).passed is passed


def test_rows_stay_in_memory_and_pages(rng: np.random.Generator) -> None:
    size = 1 << 20
    bursts = mixed_rows(rng, size, [64, 112, 256], writes=0.5)
    ends = bursts.addresses + bursts.beats * 8
    assert ends.max() <= size
    assert (bursts.addresses // 4096 == (ends - 1) // 4096).all()
    assert (bursts.addresses % 8 == 0).all()
    assert len(bursts.words) == bursts.beats[bursts.writes].sum()
