"""Pareto fronts: points that no other point beats in every objective. All objectives are minimized.

Input: arrays of objectives, (points, objectives). Output: which points are on the front, and the
hypervolume that a front dominates (Zitzler and Thiele, 1998).
"""

import numpy as np
import numpy.typing as npt

__all__ = ["front", "gains", "hypervolume"]

Objectives = npt.NDArray[np.float64]


def front(points: Objectives) -> npt.NDArray[np.int64]:
    """Numbers of the points that no other one dominates, by the first objective; of equal points
    the first."""
    order = np.lexsort(points.T[::-1])
    order = order[np.isfinite(points[order]).all(axis=1)]
    if points.shape[1] == 2:
        second = points[order, 1]
        least = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
        kept: npt.NDArray[np.int64] = order[second < least[: len(order)]]
        return kept
    found: list[int] = []
    while len(order):
        first = order[0]
        found.append(int(first))
        order = order[~(points[first] <= points[order]).all(axis=1)]
    return np.array(found, dtype=np.int64)


def hypervolume(points: Objectives, reference: Objectives) -> float:
    """Volume of what is dominated by some point and dominates `reference`."""
    inside = points[(points < reference).all(axis=1)] if len(points) else points
    if not len(inside):
        return 0.0
    shape = inside[front(inside)]
    if shape.shape[1] == 2:  # sorted by the first: steps of a staircase
        above = np.concatenate([[reference[1]], shape[:-1, 1]])
        return float(((reference[0] - shape[:, 0]) * (above - shape[:, 1])).sum())
    return _volume(shape, reference)


def gains(
    candidates: Objectives, points: Objectives, reference: Objectives
) -> npt.NDArray[np.float64]:
    """What each candidate alone would add to the hypervolume of `points`."""
    if candidates.shape[1] != 2:
        base = hypervolume(points, reference)
        joined = [hypervolume(np.vstack([points, row]), reference) for row in candidates]
        return np.array(joined) - base
    inside = points[(points < reference).all(axis=1)] if len(points) else points
    steps = inside[front(inside)]
    # Between two points of the front, the second objective of the first one is reached.
    begins = np.concatenate([[-np.inf], steps[:, 0]])
    ends = np.concatenate([steps[:, 0], [reference[0]]])
    heights = np.concatenate([[reference[1]], steps[:, 1]])
    finite = np.isfinite(candidates).all(axis=1)
    first, second = candidates[finite, :1], candidates[finite, 1:]
    widths = np.maximum(ends - np.maximum(begins, np.minimum(first, reference[0])), 0.0)
    depths = np.maximum(heights - second, 0.0)
    added = np.zeros(len(candidates))
    added[finite] = (widths * depths).sum(axis=1)
    return added


def _volume(points: Objectives, reference: Objectives) -> float:
    """By slices along the last objective; `points` dominate `reference`."""
    if points.shape[1] == 1:
        return float(reference[0] - points[:, 0].min())
    order = np.argsort(points[:, -1])
    ends = [*points[order[1:], -1], reference[-1]]
    total = 0.0
    for number, end in enumerate(ends):
        depth = end - points[order[number], -1]
        if depth > 0:
            slab = points[order[: number + 1], :-1]
            total += depth * _volume(slab[front(slab)], reference[:-1])
    return total
