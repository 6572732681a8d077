"""`SearchLoop`: proposes, counts, keeps and records variants in rounds, until a budget is spent.

Rounds that earlier runs counted are replayed, so that an interrupted search goes on as if it had
not been interrupted.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from daedal.codesign.cycles.counting import Counter
from daedal.codesign.results.directory import Round, SearchDirectory
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.front_search import FrontSearch
from daedal.codesign.search.variant_space import Point

__all__ = ["Budget", "SearchLoop"]


class Budget:
    """Minutes, or a number of evaluations; `spent` are the seconds of earlier runs."""

    def __init__(self, minutes: float | None, evaluations: int | None, spent: float) -> None:
        self._minutes, self._evaluations = minutes, evaluations
        self._spent, self._began = spent, float("inf")

    def begin(self) -> None:
        """From now on, time is spent."""
        self._began = min(self._began, time.monotonic())

    @property
    def seconds(self) -> float:
        """What was spent, by earlier runs, too."""
        return self._spent + max(0.0, time.monotonic() - self._began)

    def left(self, counted: int) -> bool:
        """Whether the search goes on after so many variants."""
        if self._evaluations is not None:
            return counted < self._evaluations
        assert self._minutes is not None
        return self.seconds < 60 * self._minutes

    def text(self, counted: int) -> str:
        """What was spent of it."""
        if self._evaluations is not None:
            return f"{counted} of {self._evaluations} variants"
        return f"{self.seconds / 60:.1f} of {self._minutes:g} minutes"


@dataclass(frozen=True)
class SearchLoop:
    """The loop of a search: points are proposed, counted, kept and recorded, in rounds.

    `counted` is called after each round that was counted now.
    """

    search: FrontSearch
    evaluator: Evaluator
    counter: Counter
    directory: SearchDirectory
    budget: Budget
    say: Callable[[str], None]
    counted: Callable[[], None]

    def run(self, earlier: Mapping[int, Round], width: Callable[[], int]) -> None:
        """Search until the budget is spent.

        The random draws of rounds that earlier runs counted are made again, so that the search is
        in the state that it was in when it was interrupted; nothing of them is compiled again.

        Parameters
        ----------
        width : how many points to ask for in a round.
        """
        for done in earlier.values():
            self.evaluator.learn(done.found)
        last = max(earlier, default=-1)
        if not self.budget.left(sum(len(done.found) for done in earlier.values() if done.is_whole)):
            self.recall(earlier)
            return
        for number in itertools.count():
            if number > last:
                self.budget.begin()
            is_left = self.budget.left(len(self.search.counted))
            known = earlier.get(number)
            if known is None and not is_left:
                if number > last:
                    return
                continue
            self._report(number, last)
            asked = width() if known is None else known.asked
            points = self.search.propose(asked)
            if known is not None and not (is_left and known.found.keys() <= set(points)):
                points = list(known.found)  # the estimates have changed since, or no budget is left
            if not points:
                return
            self._count(number, asked, points, known)

    def recall(self, earlier: Mapping[int, Round]) -> None:
        """Record what earlier runs counted, without their draws: for a search that ends here."""
        for done in earlier.values():
            self.search.record(dict(self.evaluator.count(list(done.found), self.counter)))

    def _count(self, number: int, asked: int, points: Sequence[Point], known: Round | None) -> None:
        found = {}
        for point, made in self.evaluator.count(points, self.counter):
            if known is None or point not in known.found:
                self.directory.add(number, asked, point, made)
            found[point] = made
        # Not in the order in which they ended: a seed gives one search.
        self.search.record({point: found[point] for point in points})
        if known is None:
            self.directory.write_seconds(self.budget.seconds)
            self.counted()

    def _report(self, number: int, last: int) -> None:
        if number <= last:
            self.say(f"replaying: round {number + 1} of {last + 1}")
            return
        search = self.search
        self.say(
            f"exploring: {self.budget.text(len(search.counted))}, {len(search.estimated):,} "
            f"estimated, {len(search.front())} on the front"
        )
