"""`Annealing`: parallel simulated annealing on a cost model's scores, in diverse batches.

Source: T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 3.3 and
algorithm 1: annealing proposes many candidates, and a batch is chosen greedily by its predicted
cost and by how many values of the knobs it covers; a share is drawn at random.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.space import Space
from daedal.compiler.tune.candidates import Candidates, Rows, diverse
from daedal.compiler.tune.cost_model import Analytic, CostModel
from daedal.compiler.tune.search import NumberedSearch, StopRule

__all__ = ["Annealing", "step"]


def step(candidates: Candidates, rng: np.random.Generator, rows: Rows) -> Rows:
    """A neighbour of each row: one step of one knob, chosen at random; the row itself where the
    step leads to nothing that fits."""
    positions = candidates.positions[rows]
    knobs = rng.integers(len(candidates.sizes), size=len(rows))
    positions[np.arange(len(rows)), knobs] += rng.choice((-1, 1), size=len(rows))
    found = candidates.at(positions)
    return np.where(found < 0, rows, found)


class Annealing(NumberedSearch):
    """Chains that walk over neighbours, guided by `model`, which is fitted before each batch.

    Parameters
    ----------
    chains, steps
        How many chains walk at the same time, and how far for each batch.
    diversity
        What a value of a knob that is new in the batch is worth, in standard deviations of the
        scores of the candidates for the batch, divided by the number of knobs.
    random_share
        The share of each batch that is drawn at random, so that the model also sees the rest of
        the space.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        stop: StopRule | None = None,
        model: CostModel | None = None,
        chains: int = 64,
        steps: int = 64,
        diversity: float = 0.5,
        random_share: float = 0.1,
    ) -> None:
        super().__init__(space, seed=seed, stop=stop)
        self._model: CostModel = Analytic() if model is None else model
        self._chains = chains
        self._steps = steps
        self._diversity = diversity
        self._random_share = random_share

    def choose(self, count: int) -> Rows:
        """A diverse batch of what the chains found best, and some rows drawn uniformly."""
        self._fit()
        visited, scores = self._walk()
        best = np.argsort(scores, kind="stable")[: 8 * count]
        num_random = int(self.rng.binomial(count, self._random_share))
        wanted = count - num_random
        batch = diverse(
            self.candidates, visited[best], scores[best], wanted, self._diversity
        ).tolist()
        taken = set(batch)
        others = [row for row in self.draw(count).tolist() if row not in taken]
        return np.array([*batch, *others][:count], dtype=np.int64)

    def _fit(self) -> None:
        """Fit the model; a failed candidate counts as twice the most cycles measured."""
        rows = self.observed()
        cycles = self.cycles[rows]
        measured = np.isfinite(cycles)
        if measured.any():
            cycles = np.where(measured, cycles, 2 * cycles[measured].max())
            self._model.fit(self.candidates.features(rows), cycles)

    def _walk(self) -> tuple[Rows, npt.NDArray[np.float64]]:
        """The open rows that the chains visited, and their scores."""
        at = self._starts()
        scores = self._scores(at)
        visited, seen = [at], [scores]
        scale = float(scores.std()) or 1.0
        for temperature in scale * np.linspace(1.0, 0.0, self._steps):
            to = step(self.candidates, self.rng, at)
            reached = self._scores(to)
            visited.append(to)
            seen.append(reached)
            slack = temperature * self.rng.exponential(size=len(at))
            # Accepting with the odds exp(-rise / temperature) is comparing the rise with
            # `temperature` times an exponential variable.
            moves = reached - scores <= slack
            at, scores = np.where(moves, to, at), np.where(moves, reached, scores)
        rows, first = np.unique(np.concatenate(visited), return_index=True)
        fresh = self.open[rows]
        return rows[fresh], np.concatenate(seen)[first][fresh]

    def _starts(self) -> Rows:
        """A quarter of the chains starts at the best rows observed, a quarter at the lowest
        estimates that are open, and the rest anywhere."""
        quarter = self._chains // 4
        best = self.observed()[:quarter]
        unknown = np.flatnonzero(self.open)
        order = np.argsort(self.candidates.estimates[unknown], kind="stable")
        likely = unknown[order[:quarter]]
        rest = self._chains - len(best) - len(likely)
        anywhere = self.rng.integers(len(self.candidates), size=rest)
        return np.concatenate([best, likely, anywhere])

    def _scores(self, rows: Rows) -> npt.NDArray[np.float64]:
        return self._model.predict(self.candidates.features(rows))
