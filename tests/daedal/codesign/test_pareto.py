"""Pareto fronts and hypervolumes against definitions: all pairs, and counted boxes."""

import numpy as np
import pytest

from daedal.codesign.pareto import front, hypervolume


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_front_is_what_no_other_point_dominates(objectives: int) -> None:
    for seed in range(20):
        points = np.random.default_rng(seed).integers(0, 6, (30, objectives)).astype(float)
        kept = {tuple(points[number]) for number in front(points)}
        wanted = {
            tuple(point)
            for point in points
            if not any((other <= point).all() and (other < point).any() for other in points)
        }
        assert kept == wanted, seed
        assert len(front(points)) == len(kept)  # of equal points one


def test_infinite_points_are_on_no_front() -> None:
    points = np.array([[np.inf, np.inf], [1.0, np.inf], [2.0, 2.0]])
    assert front(points).tolist() == [2]
    assert len(front(np.full((3, 2), np.inf))) == 0


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_hypervolume_counts_dominated_cells(objectives: int) -> None:
    side = 5
    grid = np.stack(np.meshgrid(*[np.arange(side)] * objectives, indexing="ij"), axis=-1)
    cells = grid.reshape(-1, objectives)
    reference = np.full(objectives, float(side))
    for seed in range(20):
        points = np.random.default_rng(seed).integers(0, side + 1, (6, objectives)).astype(float)
        inside = points[(points < reference).all(axis=1)]
        covered = [any((point <= cell).all() for point in inside) for cell in cells]
        assert hypervolume(points, reference) == pytest.approx(sum(covered)), seed


def test_hypervolume_of_nothing() -> None:
    assert hypervolume(np.zeros((0, 2)), np.ones(2)) == 0
    assert hypervolume(np.full((2, 2), np.inf), np.ones(2)) == 0
