"""Floorplan of a netlist's multipliers and block RAMs on an ECP5 with 85,000 look-up tables.

Input: the cells of a flattened netlist. Output: a site for each hard block, near those that it
exchanges signals with. nextpnr's placer spreads logic well, but scatters hard blocks over their
rows; the signals of a wide scratchpad then congest the wires along a row.

Two steps. `couplings` models the netlist as a network of resistors: the effective conductance
between two blocks through the logic between them is the weight of their distance (F. Doerfler, F.
Bullo, Kron reduction of graphs, IEEE TCAS-I 60(1), 2013). `assign_sites` anneals sites, so that the
sum of distances weighted by couplings is small (S. Kirkpatrick et al., Optimization by simulated
annealing, Science 220, 1983).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.hw.synth.hierarchy import Cells

__all__ = ["SITES", "Site", "assign_sites", "couplings", "floorplans"]

Site = tuple[int, int, str]
"""Column, row, and the name of the place in that tile."""

_COLUMNS = (*range(4, 59, 9), *range(69, 115, 9))
"""Where groups of four blocks begin. Source: nextpnr's database of the LFE5U-85F."""

SITES: dict[str, tuple[Site, ...]] = {
    "DP16KD": tuple(
        (column + 2 * number, row, f"EBR{number}")
        for row in (22, 46, 70, 82)
        for column in _COLUMNS
        for number in range(4)
    ),
    "MULT18X18D": tuple(
        (column + number, row, f"MULT18_{number}")
        for row in (10, 34, 58)
        for column in _COLUMNS
        for number in (0, 1, 4, 5)
    ),
}
"""All sites by type of cell."""

_MOST_PINS = 2000
"""Nets with more pins, such as the clock, are ignored."""
_LEAK = 1e-3
"""Conductance of each cell to ground, so that logic without a block has a potential, too."""
_STEPS = 150
"""Iterations of conjugate gradients; more do not change any site."""
_LEAST_COUPLING = 1e-3
"""Blocks that are coupled less than this to all others are left to the placer."""
_MOVES_PER_BLOCK = 3500
_HOTTEST, _COLDEST = 30.0, 0.05
"""Temperatures of the annealing, in columns times conductance."""

Matrix = npt.NDArray[np.float64]


def floorplans(cells: Cells, seeds: Sequence[int]) -> list[dict[str, str]]:
    """The site of each hard block by the name of its cell, a plan for each seed.

    Blocks that already have a site are left out, and so are blocks without couplings to others. If
    there are more blocks of a kind than sites, all are left out.
    """
    blocks = [
        name
        for name, cell in cells.items()
        if cell["type"] in SITES and not {"BEL", "LOC"} & set(cell.get("attributes", ()))
    ]
    counts = Counter(cells[name]["type"] for name in blocks)
    if any(count > len(SITES[kind]) for kind, count in counts.items()):
        return [{} for _ in seeds]
    matrix = couplings(cells, blocks)
    pulled = np.flatnonzero(matrix.sum(axis=1) >= _LEAST_COUPLING)
    kinds = [cells[blocks[number]]["type"] for number in pulled]
    pulls = matrix[np.ix_(pulled, pulled)]
    return [
        {
            blocks[number]: f"X{column}/Y{row}/{name}"
            for number, (column, row, name) in zip(
                pulled, assign_sites(kinds, pulls, seed), strict=True
            )
        }
        for seed in seeds
    ]


def couplings(cells: Cells, blocks: Sequence[str]) -> Matrix:
    """Effective conductance between each two of `blocks`, symmetric, zero on the diagonal.

    A net of two pins has conductance 1. A net of n pins is a star whose arms have conductance
    2 / n, because each further pin adds little wire.
    """
    if len(blocks) < 2:
        return np.zeros((len(blocks), len(blocks)))
    from scipy import sparse

    network = _network(cells)
    number_of = {name: number for number, name in enumerate(cells)}
    fixed = np.array([number_of[name] for name in blocks])
    free = np.setdiff1d(np.arange(network.shape[0]), fixed)
    degree = np.asarray(network.sum(axis=1)).ravel()
    laplacian = (sparse.diags(degree) - network).tocsr()
    inner = (laplacian[free][:, free] + _LEAK * sparse.identity(len(free))).tocsr()
    outer = laplacian[free][:, fixed].toarray()
    reduced = laplacian[fixed][:, fixed].toarray() + outer.T @ _solved(inner, -outer)
    found: Matrix = np.maximum(-(reduced + reduced.T) / 2, 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def assign_sites(kinds: Sequence[str], pull: Matrix, seed: int) -> list[Site]:
    """A different site for each block of `kinds`; `pull` weights the distance of each pair.

    There must be at least as many sites as blocks of each kind.
    """
    rng = np.random.default_rng(seed)
    holder = {kind: np.full(len(sites), -1) for kind, sites in SITES.items()}
    at = np.zeros(len(kinds), int)
    for kind, taken in holder.items():
        mine = [number for number, its in enumerate(kinds) if its == kind]
        at[mine] = rng.permutation(len(taken))[: len(mine)]
        taken[at[mine]] = mine
    places = {kind: np.array([site[:2] for site in sites]) for kind, sites in SITES.items()}
    where = np.array([places[kind][at[n]] for n, kind in enumerate(kinds)], float).reshape(-1, 2)

    def distances(point: Matrix) -> Matrix:
        """From everything to one place, in columns and rows."""
        found: Matrix = np.abs(where - point).sum(axis=1)
        return found

    moves = _MOVES_PER_BLOCK * len(kinds)
    movers = rng.integers(0, max(len(kinds), 1), moves).tolist()
    aims, chances = rng.random(moves).tolist(), rng.random(moves).tolist()
    for step, (mover, aim, chance) in enumerate(zip(movers, aims, chances, strict=True)):
        kind = kinds[mover]
        taken = holder[kind]
        site = int(aim * len(taken))
        other = int(taken[site])
        if other == mover:
            continue
        there, here = places[kind][site].astype(float), where[mover].copy()
        change = distances(there) - distances(here)
        cost = float(pull[mover] @ change)
        if other >= 0:
            # The two keep their distance, which both terms count as gone.
            cost += float(
                2 * pull[mover, other] * np.abs(there - here).sum() - pull[other] @ change
            )
        heat = _HOTTEST * (_COLDEST / _HOTTEST) ** (step / moves)
        if cost < 0 or chance < math.exp(-cost / heat):
            taken[at[mover]] = other
            if other >= 0:
                at[other], where[other] = at[mover], here
            taken[site], at[mover], where[mover] = mover, site, there
    return [SITES[kind][at[number]] for number, kind in enumerate(kinds)]


def _network(cells: Cells) -> Any:
    """Conductances between cells, and the centres of stars behind them, as a sparse matrix."""
    from scipy import sparse

    pins: dict[int, set[int]] = defaultdict(set)
    for number, cell in enumerate(cells.values()):
        for bits in cell["connections"].values():
            for bit in bits:
                if isinstance(bit, int):  # the others are constants
                    pins[bit].add(number)
    ends: tuple[list[int], list[int]] = ([], [])
    values: list[float] = []
    size = len(cells)
    for net in pins.values():
        if len(net) == 2:
            for end, number in zip(ends, sorted(net), strict=True):
                end.append(number)
            values.append(1.0)
        elif 2 < len(net) <= _MOST_PINS:
            ends[0].extend(sorted(net))
            ends[1].extend([size] * len(net))
            values.extend([2 / len(net)] * len(net))
            size += 1
    half = sparse.coo_array((values, ends), shape=(size, size)).tocsr()
    return half + half.T


def _solved(matrix: Any, right: Matrix) -> Matrix:
    """Solutions of a sparse positive definite system, one per column, by conjugate gradients."""
    scale = (1 / matrix.diagonal())[:, None]
    found = np.zeros_like(right)
    rest = right.copy()
    ahead = scale * rest
    direction = ahead.copy()
    norm = (rest * ahead).sum(axis=0)
    for _ in range(_STEPS):
        image = matrix @ direction
        step = norm / np.maximum((direction * image).sum(axis=0), 1e-30)
        found += step * direction
        rest -= step * image
        ahead = scale * rest
        before, norm = norm, (rest * ahead).sum(axis=0)
        direction = ahead + norm / np.maximum(before, 1e-30) * direction
    return found
