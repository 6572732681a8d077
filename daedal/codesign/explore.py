"""`explore`: searches variants and schedules together, until a budget is spent."""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daedal.codesign.area import area_model
from daedal.codesign.clock import clock_model
from daedal.codesign.counting import Counter, Network, counters
from daedal.codesign.directory import Round, SearchDirectory
from daedal.codesign.evaluation import Evaluation
from daedal.codesign.evaluator import Evaluator
from daedal.codesign.objectives import Limit
from daedal.codesign.search import FrontSearch, Goal
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, Point, VariantSpace
from daedal.compiler.version import compiler_version
from daedal.hw.synth.families import Target
from daedal.isa.errors import ExploreError, ModelError, ScheduleError, UnsupportedError, first_line
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant

if TYPE_CHECKING:
    from daedal.tuning.pool import Pool

__all__ = ["Exploration", "explore", "nothing_found"]


@dataclass(frozen=True)
class Exploration:
    """What a search found; `interrupted` where it ended before its budget.

    Attributes
    ----------
    front, evaluations : counted variants: of the front, and all.
    counted, refused : numbers of variants that compiled, and that did not.
    seconds : of the search, earlier runs in this folder included.
    """

    front: tuple[Evaluation, ...]
    evaluations: tuple[Evaluation, ...]
    counted: int
    refused: int
    estimated: int
    seconds: float
    interrupted: bool


class _Budget:
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
class _Run:
    """The loop of a search: points are proposed, counted, kept and recorded, in rounds."""

    search: FrontSearch
    evaluator: Evaluator
    counter: Counter
    directory: SearchDirectory
    budget: _Budget
    say: Callable[[str], None]

    def loop(self, earlier: Mapping[int, Round], width: Callable[[], int]) -> None:
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

    def _report(self, number: int, last: int) -> None:
        if number <= last:
            self.say(f"replaying: round {number + 1} of {last + 1}")
            return
        search = self.search
        self.say(
            f"exploring: {self.budget.text(len(search.counted))}, {len(search.estimated):,} "
            f"estimated, {len(search.front())} on the front"
        )


def explore(
    models: Mapping[str, bytes],
    target: Target,
    goal: Goal,
    folder: Path,
    *,
    minutes: float | None = None,
    evaluations: int | None = None,
    base: Variant | None = None,
    mhz: float | None = None,
    memory: str = "ddr",
    seed: int = 0,
    workers: int = 2,
    pool: "Pool | None" = None,
    report: Callable[[str], None] | None = None,
) -> Exploration:
    """Search the default space around `base` until the budget is spent, or KeyboardInterrupt.

    Every counted variant is kept in `folder` at once; the same call continues there, and finds what
    it had found without an interruption. Minutes are those of all runs together. After an
    interruption, points of the front lack Verilog and programs, which the same call adds.

    Parameters
    ----------
    mhz : a clock for all variants; else it is estimated.
    workers : processes that count, so many variants at a time.
    pool : workers that count instead, as many variants as there are workers at a time.

    Raises
    ------
    TuningError
        The pool's workers are gone, or have another version.
    ExploreError
        No budget, a folder of another search, a network with nothing for the accelerator, a family
        without tables, or limits that no variant of the space keeps.
    """
    if (minutes is None) == (evaluations is None):
        raise ExploreError("a search has one budget: minutes, or a number of evaluations")
    if (minutes is not None and minutes <= 0) or (evaluations is not None and evaluations < 1):
        raise ExploreError(
            f"a budget is above 0, not {minutes if evaluations is None else evaluations}"
        )
    say = report or (lambda _sentence: None)
    space = VariantSpace(base or load_variant("ecp5"), DEFAULT_PARAMETERS)
    # Refused before anything is written.
    networks = _checked(models, space.base, memory)
    area_model(target.family)
    if mhz is None:
        clock_model(target.family)
    directory = SearchDirectory(folder)
    rounds = directory.open(_settings(models, target, goal, space, mhz, memory, seed))
    evaluator = Evaluator(
        space,
        networks,
        target.family,
        mhz=mhz,
        estimates=directory.estimates(_estimator_version()),
        keep=directory.add_estimates,
    )
    start = space.point(space.base)
    search = FrontSearch(
        space, goal, evaluator.estimate, start=() if start is None else (start,), seed=seed
    )
    budget = _Budget(minutes, evaluations, directory.seconds())
    interrupted = False
    try:
        with _counting(networks, memory, workers, pool) as (counter, width):
            run = _Run(search, evaluator, counter, directory, budget, say)
            try:
                run.loop(rounds, width)
            except KeyboardInterrupt:
                interrupted = True
                run.recall(rounds)  # those that were not replayed yet
    except KeyboardInterrupt:
        interrupted = True
    directory.write_seconds(budget.seconds)
    estimated, front = evaluator.num_estimates, tuple(search.front())
    if not front and not interrupted:
        raise nothing_found(search.counted.values(), goal)
    directory.write_front(front, goal.objectives)
    if not interrupted:
        try:
            _complete(directory, evaluator, front, models, memory, say)
        except KeyboardInterrupt:
            interrupted = True
    compiled = tuple(made for made in search.counted.values() if made is not None)
    return Exploration(
        front,
        compiled,
        len(compiled),
        len(search.counted) - len(compiled),
        estimated,
        budget.seconds,
        interrupted,
    )


@contextmanager
def _counting(
    networks: Mapping[str, Network], memory: str, workers: int, pool: "Pool | None"
) -> Iterator[tuple[Counter, Callable[[], int]]]:
    """What counts, and how many variants at a time."""
    if pool is None:
        with counters(networks, memory, workers) as counter:
            yield counter, lambda: workers
        return
    from daedal.codesign.pool_counting import pool_counter

    yield pool_counter(pool, networks, memory), lambda: max(1, pool.num_counting)


def _checked(models: Mapping[str, bytes], base: Variant, memory: str) -> dict[str, Network]:
    """The networks. Those that no variant runs are refused, and memory that the cycle model does
    not know."""
    if PRESETS[memory].is_random:
        raise ExploreError(
            f"a search needs a memory without random delays, not {memory!r}; choose another one"
        )
    networks = {}
    for name, model in models.items():
        try:
            networks[name] = Network.on(model, base)
        except (ScheduleError, UnsupportedError):  # other variants may run it
            networks[name] = Network(model)
        except ModelError as error:
            raise ExploreError(f"network {name!r}: {first_line(error)}") from error
    return networks


def _complete(
    directory: SearchDirectory,
    evaluator: Evaluator,
    front: Sequence[Evaluation],
    models: Mapping[str, bytes],
    memory: str,
    say: Callable[[str], None],
) -> None:
    """Write what the folders of the front's points lack."""
    for number, item in enumerate(front):

        def report(said: str, step: str = f"completing point {number + 1} of {len(front)}") -> None:
            say(f"{step}: {said}")

        point = directory.point(item)
        point.complete(models, evaluator.predict, memory=memory, report=report)


def _settings(
    models: Mapping[str, bytes],
    target: Target,
    goal: Goal,
    space: VariantSpace,
    mhz: float | None,
    memory: str,
    seed: int,
) -> dict[str, Any]:
    """All that the evaluations of a folder depend on."""
    return {
        "networks": {
            name: hashlib.sha256(model).hexdigest()[:16] for name, model in models.items()
        },
        "target": target.value,
        "objectives": [objective.value for objective in goal.objectives],
        "limits": [str(limit) for limit in goal.all_limits],
        "base": space.base.fingerprint,
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "clock": mhz,
        "memory": memory,
        "seed": seed,
        "kit": compiler_version(),
    }


@cache
def _estimator_version() -> str:
    """Of the code and the tables that estimates depend on."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256(compiler_version().encode())
    for path in sorted([*here.glob("*.py"), *here.glob("data/*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def nothing_found(counted: Iterable[Evaluation | None], goal: Goal) -> ExploreError:
    """Why the front is empty: the limit that is missed, and the nearest variant."""
    found = [item for item in counted if item is not None]
    if not found:
        return ExploreError(
            "a search needs a variant that its networks compile for, and none was found; try "
            "another base variant or a larger budget"
        )

    def missed(item: Evaluation) -> tuple[float, Limit]:
        """The limit that is exceeded most, after by how much."""
        excesses = [(item.value(limit.measure) / limit.most, limit) for limit in goal.all_limits]
        return max(excesses, key=lambda excess: excess[0])

    nearest = min(found, key=lambda item: missed(item)[0])
    _, limit = missed(nearest)
    kept_alone = any(item.value(limit.measure) <= limit.most for item in found)
    others = " with all other limits" if kept_alone else ""
    return ExploreError(
        f"no variant found keeps {limit.measure} at most {limit.most:g}{others}; the nearest has "
        f"{nearest.value(limit.measure):.4g} ({nearest.variant.name}); raise the limit or the "
        "budget"
    )
