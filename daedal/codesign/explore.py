"""`explore`: searches variants and schedules together, until a budget is spent."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.codesign.area import area_model
from daedal.codesign.clock import clock_model
from daedal.codesign.counting import Network, counters
from daedal.codesign.directory import SearchDirectory
from daedal.codesign.evaluation import Evaluation
from daedal.codesign.evaluator import Evaluator
from daedal.codesign.objectives import Limit
from daedal.codesign.search import FrontSearch, Goal
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.compiler.version import compiler_version
from daedal.hw.synth.families import Target
from daedal.isa.errors import ExploreError, ModelError, ScheduleError, UnsupportedError, first_line
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant

__all__ = ["Exploration", "explore", "nothing_found"]


@dataclass(frozen=True)
class Exploration:
    """What a search found; `interrupted` where it ended before its budget.

    Attributes
    ----------
    front, evaluations : counted variants: of the front, and all.
    counted, refused : numbers of variants that compiled, and that did not.
    """

    front: tuple[Evaluation, ...]
    evaluations: tuple[Evaluation, ...]
    counted: int
    refused: int
    estimated: int
    seconds: float
    interrupted: bool


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
    report: Callable[[str], None] | None = None,
) -> Exploration:
    """Search the default space around `base` until the budget is spent, or KeyboardInterrupt.

    Every counted variant is kept in `folder` at once; the same call continues there. After an
    interruption, points of the front lack Verilog and programs, which the same call adds.

    Raises
    ------
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
    evaluator = Evaluator(space, networks, target.family, mhz=mhz)
    directory = SearchDirectory(folder)
    known = directory.open(_settings(models, target, goal, space, mhz, memory, seed))
    began = time.monotonic()
    start = space.point(space.base)
    search = FrontSearch(
        space, goal, evaluator.estimate, start=() if start is None else (start,), seed=seed
    )
    search.record(known)
    evaluator.learn(known.values())
    interrupted = False
    try:
        with counters(networks, memory, workers) as counter:
            while _left(search, began, minutes, evaluations):
                say(_progress(search, began, minutes, evaluations))
                points = search.propose(workers)
                if not points:
                    break
                found = {}
                for point, made in evaluator.count(points, counter):
                    directory.add(point, made)
                    found[point] = made
                # Not in the order in which they ended: a seed gives one search.
                search.record({point: found[point] for point in points})
    except KeyboardInterrupt:
        interrupted = True
    front = tuple(search.front())
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
        len(search.estimated),
        time.monotonic() - began,
        interrupted,
    )


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


def _left(
    search: FrontSearch, began: float, minutes: float | None, evaluations: int | None
) -> bool:
    if evaluations is not None:
        return len(search.counted) < evaluations
    assert minutes is not None
    return time.monotonic() - began < 60 * minutes


def _progress(
    search: FrontSearch, began: float, minutes: float | None, evaluations: int | None
) -> str:
    done = (
        f"{len(search.counted)} of {evaluations} variants"
        if evaluations is not None
        else f"{(time.monotonic() - began) / 60:.1f} of {minutes:g} minutes"
    )
    front = len(search.front())
    return f"exploring: {done}, {len(search.estimated):,} estimated, {front} on the front"


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
