"""Pareto fronts and hypervolumes against definitions: all pairs, and counted boxes."""

import itertools

import numpy as np
import pytest

from daedal.codesign.search.pareto import front, gains, hypervolume


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


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_gains_are_differences_of_hypervolumes(objectives: int) -> None:
    reference = np.full(objectives, 5.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 7, (seed % 6, objectives)).astype(float)
        candidates = rng.integers(-1, 7, (12, objectives)).astype(float)
        candidates[0] = np.inf
        found = gains(candidates, points, reference)
        for row, gain in zip(candidates, found, strict=True):
            joined = hypervolume(np.vstack([points, row]), reference)
            assert gain == pytest.approx(joined - hypervolume(points, reference)), seed


def test_hypervolume_of_nothing() -> None:
    assert hypervolume(np.zeros((0, 2)), np.ones(2)) == 0
    assert hypervolume(np.full((2, 2), np.inf), np.ones(2)) == 0


def test_three_objectives_by_inclusion_and_exclusion() -> None:
    """The volume of a union of boxes that share the reference as a corner."""
    reference = np.array([1.0, 2.0, 3.0])
    for seed in range(20):
        points = np.random.default_rng(seed).random((7, 3)) * reference
        total = 0.0
        for size in range(1, len(points) + 1):
            for chosen in itertools.combinations(points, size):
                total -= (-1) ** size * float(np.prod(reference - np.max(chosen, axis=0)))
        assert hypervolume(points, reference) == pytest.approx(total), seed


def test_three_objectives_by_random_draws() -> None:
    reference = np.array([1.0, 2.0, 3.0])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = rng.random((40, 3)) * reference
        points = np.vstack([points, points[:5], [[0.5, 2.5, 0.1]]])  # equal ones, and one outside
        draws = rng.random((20_000, 3)) * reference
        share = (points[:, None, :] <= draws).all(axis=2).any(axis=0).mean()
        # Five standard deviations of a share.
        assert hypervolume(points, reference) / 6 == pytest.approx(share, abs=5 * 0.5 / 141), seed
