"""Rows of accesses: `overlap` against sets of rows."""

import numpy as np

from daedal.compiler.codegen.segment import Runs, overlap


def _runs(rng: np.random.Generator) -> Runs:
    runs: list[tuple[int, int]] = []
    end = 0
    for _ in range(rng.integers(1, 4)):
        begin = end + int(rng.integers(4))
        end = begin + int(rng.integers(1, 4))
        runs.append((begin, end))
    return tuple(runs)


def _rows(runs: Runs, first: int) -> set[int]:
    return {first + row for begin, end in runs for row in range(begin, end)}


def test_overlap(rng: np.random.Generator) -> None:
    meet = between = 0
    for _ in range(2000):
        some, others, distance = _runs(rng), _runs(rng), int(rng.integers(-12, 13))
        expected = bool(_rows(some, 0) & _rows(others, distance))
        assert overlap(some, others, distance) is expected
        meet += expected
        hulls = some[0][0] < others[-1][1] + distance and others[0][0] + distance < some[-1][1]
        between += hulls and not expected
    assert meet > 200 and between > 50, "both answers are tested, and rows between others' rows"
