"""`Walk`: from a configuration to a better neighbour; `MovePolicy`, which neighbour to try first.

A *move* takes one knob to its next value that fits, up or down. The policy learns from measured
moves how likely each is to save cycles, given what the machine's units did before it: which unit
waits for which other one says what bounds a schedule. `bench.tuning.guided_moves` compares both
with other searches (docs/adr/0012-moves-by-counters.md).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.candidates import Candidates, Rows
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.search import NumberedSearch

__all__ = ["Climb", "MovePolicy", "Moves", "Outcome", "Walk"]

_STEPS = 12
_INTERCEPT_RIDGE = 0.1


@dataclass(frozen=True)
class Outcome:
    """What a run of one configuration took, and for each unit in turn, the shares of its cycles in
    each class."""

    cycles: float
    shares: Sequence[float]


class Moves:
    """All moves between the candidates of a space.

    Attributes
    ----------
    names : a name for each move, such as ``height up``; the same in all spaces with the knob.
    targets : (candidates, moves) rows that the moves lead to, -1 for a move that leads nowhere.
    """

    def __init__(self, candidates: Candidates) -> None:
        knobs = candidates.space.knobs
        self.names = tuple(f"{knob} {to}" for knob in knobs for to in ("up", "down"))
        self._values = [np.array(values, dtype=np.float64) for values in knobs.values()]
        self._positions = candidates.positions
        self.targets: npt.NDArray[np.int64] = np.full(
            (len(candidates), len(self.names)), -1, dtype=np.int64
        )
        for knob in range(len(self._values)):
            others = np.delete(self._positions, knob, axis=1)
            # Neighbours along a knob are adjacent where its position is the last key of the order.
            order = np.lexsort((self._positions[:, knob], *others.T))
            alike = (others[order[1:]] == others[order[:-1]]).all(axis=1)
            lower, upper = order[:-1][alike], order[1:][alike]
            self.targets[lower, 2 * knob] = upper
            self.targets[upper, 2 * knob + 1] = lower

    def features(self, row: int, move: int) -> Reals:
        """(3,): where the knob's value is among all, before and after, and the logarithm of their
        ratio."""
        values = self._values[move // 2]
        ends = np.array([row, self.targets[row, move]])
        positions = self._positions[ends, move // 2]
        before, after = np.log2(1 + np.maximum(values[positions], 0))
        return np.array([*(positions / max(len(values) - 1, 1)), after - before])


class MovePolicy:
    """How likely each move is to save cycles: a logistic regression for each name of a move.

    Source: C. Bishop, "Pattern Recognition and Machine Learning", section 4.3.3 (iterative
    reweighted least squares).

    Parameters
    ----------
    counters : whether the shares are seen; without them, the policy knows only the knobs.
    ridge : the penalty of squared weights.
    """

    def __init__(self, *, counters: bool = True, ridge: float = 3.0) -> None:
        self._counters = counters
        self._ridge = ridge
        self._seen: dict[str, list[tuple[Reals, bool, float]]] = defaultdict(list)
        self._fitted: dict[str, Reals] = {}

    def copy(self) -> "MovePolicy":
        """Another policy that knows the same."""
        found = MovePolicy(counters=self._counters, ridge=self._ridge)
        found._seen.update({name: list(items) for name, items in self._seen.items()})
        found._fitted = dict(self._fitted)
        return found

    def learn_all(self, moves: Moves, outcomes: Mapping[int, Outcome]) -> None:
        """Learn all moves between measured rows."""
        for row in outcomes:
            for move, target in enumerate(moves.targets[row].tolist()):
                if target in outcomes:
                    self.learn(moves, row, move, outcomes[row], outcomes[target].cycles)

    def learn(
        self, moves: Moves, row: int, move: int, before: Outcome, after: float, weight: float = 1.0
    ) -> None:
        """A move from `row` was measured: the run before it, and the cycles after it."""
        name = moves.names[move]
        inputs = self._inputs(moves, row, move, before)
        self._seen[name].append((inputs, after < before.cycles, weight))
        self._fitted.pop(name, None)

    def probability(self, moves: Moves, row: int, move: int, before: Outcome) -> float:
        """That the move saves cycles; of a move never seen, the share of all moves that did."""
        name = moves.names[move]
        seen = self._seen.get(name)
        if not seen:
            known = [saved for items in self._seen.values() for _, saved, _ in items]
            return (1 + sum(known)) / (2 + len(known))
        if name not in self._fitted:
            inputs, saved, weights = (np.array(column) for column in zip(*seen, strict=True))
            self._fitted[name] = _logistic(inputs, saved.astype(np.float64), weights, self._ridge)
        inputs = self._inputs(moves, row, move, before)
        return float(_sigmoid(inputs @ self._fitted[name]))

    def _inputs(self, moves: Moves, row: int, move: int, before: Outcome) -> Reals:
        shares = before.shares if self._counters else ()
        return np.array([1.0, *moves.features(row, move), *shares])


def _sigmoid(values: Reals) -> Reals:
    found: Reals = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return found


def _logistic(inputs: Reals, targets: Reals, weights: Reals, ridge: float) -> Reals:
    """Weights (inputs,) of a logistic regression on (samples, inputs); the first input is 1."""
    penalty = np.full(inputs.shape[1], ridge)
    penalty[0] = _INTERCEPT_RIDGE
    found = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        likely = _sigmoid(inputs @ found)
        gradient = inputs.T @ (weights * (targets - likely)) - penalty * found
        curved = inputs * (weights * np.maximum(likely * (1 - likely), 1e-6))[:, None]
        step = np.linalg.solve(inputs.T @ curved + np.diag(penalty), gradient)
        # Full steps overshoot where few samples are told apart without error.
        found = found + np.clip(step, -4, 4)
    return found


@dataclass(frozen=True)
class Climb:
    """One walk from a start to where it ended: the cycles there, moves measured and moves taken.

    `proved` if all neighbours of the end were measured: it is a local optimum. Otherwise the policy
    gave up.
    """

    end: float
    tried: int
    taken: int
    proved: bool


class Walk(NumberedSearch):
    """Hill climbing with random restarts: a move that saves cycles is taken.

    The first climb begins at the best that was observed before, all others at rows drawn uniformly.

    Parameters
    ----------
    policy : the likeliest moves are tried first; without one, any. It learns from the walk.
    least : a climb ends where no move is likelier than this.
    own_weight : what a move of this walk weighs among those that the policy knows.

    Source: S. Russell and P. Norvig, "Artificial Intelligence", section 4.1 (first-choice and
    random-restart hill climbing).
    """

    def __init__(
        self,
        space: LayerSpace,
        *,
        seed: int = 0,
        policy: MovePolicy | None = None,
        least: float = 0.0,
        own_weight: float = 4.0,
    ) -> None:
        super().__init__(space, seed=seed)
        self.moves = Moves(self.candidates)
        self.climbs: list[Climb] = []
        self._policy = None if policy is None else policy.copy()
        self._least = least
        self._own_weight = own_weight
        self._shares: dict[int, Sequence[float]] = {}
        self._at: int | None = None
        self._tried = self._taken = 0

    def choose(self, count: int) -> Rows:
        """Neighbours of where the walk is, or a row to start from."""
        found = self.neighbours(count)
        if len(found):
            return found
        if self._at is not None:
            proved = not len(self._unknown(self._at))
            self.climbs.append(
                Climb(float(self.cycles[self._at]), self._tried, self._taken, proved)
            )
            self._at = None
        return self.draw(1)

    def neighbours(self, count: int) -> Rows:
        """Up to `count` open neighbours to measure; none where a climb ends."""
        self._descend()
        if self._at is None:
            return np.zeros(0, dtype=np.int64)
        moves = self._ranked(self.rng.permutation(self._unknown(self._at)))
        return self.moves.targets[self._at, moves[:count]]

    def count(self, configs: Sequence[Config], shares: Sequence[Sequence[float]]) -> None:
        """What the units did with configurations that are observed next; empty for failed ones."""
        for row, found in zip(self.candidates.rows(configs).tolist(), shares, strict=True):
            if found:
                self._shares[row] = found

    def observe(self, configs: Sequence[Config], cycles: Sequence[int | None]) -> None:
        """See `Search`."""
        super().observe(configs, cycles)
        rows = self.candidates.rows(configs).tolist()
        if self._at is not None:
            self._tried += len(rows)
            self._learn(rows)
        best = min(rows, key=lambda row: self.cycles[row], default=None)
        if best is None or not np.isfinite(self.cycles[best]):
            return
        if self._at is None:
            self._at, self._tried, self._taken = best, 0, 0
        elif self.cycles[best] < self.cycles[self._at]:
            self._at = best
            self._taken += 1

    def _unknown(self, row: int) -> npt.NDArray[np.int64]:
        """Moves from `row` that were not measured."""
        targets = self.moves.targets[row]
        return np.flatnonzero((targets >= 0) & self.open[targets])

    def _outcome(self, row: int) -> Outcome | None:
        shares = self._shares.get(row)
        return None if shares is None else Outcome(float(self.cycles[row]), shares)

    def _ranked(self, moves: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Moves that are likely enough, the likeliest first."""
        at = self._at
        assert at is not None
        before = self._outcome(at)
        if self._policy is None or before is None:
            return moves
        likely = np.array(
            [self._policy.probability(self.moves, at, move, before) for move in moves.tolist()]
        )
        order = np.argsort(-likely, kind="stable")
        return moves[order[likely[order] >= self._least]]

    def _learn(self, rows: Sequence[int]) -> None:
        at = self._at
        assert at is not None
        before = self._outcome(at)
        if self._policy is None or before is None:
            return
        for move, target in enumerate(self.moves.targets[at].tolist()):
            if target in rows:
                after = float(self.cycles[target])
                self._policy.learn(self.moves, at, move, before, after, self._own_weight)

    def _descend(self) -> None:
        """To the best neighbour measured before, while it takes fewer cycles."""
        while self._at is not None:
            targets = self.moves.targets[self._at]
            known = targets[(targets >= 0) & ~np.isnan(self.cycles[targets])]
            best = min(known.tolist(), key=lambda row: self.cycles[row], default=self._at)
            if not self.cycles[best] < self.cycles[self._at]:
                return
            self._at = best
            self._taken += 1
