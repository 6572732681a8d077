"""`explore`: searches variants and schedules together, until a budget is spent."""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daedal.api import compile as compile_network
from daedal.codesign.cycles.counting import Counter, Network, counters
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.board import Board
from daedal.codesign.hardware.clock import clock_model
from daedal.codesign.results.directory import SearchDirectory
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.front_search import FrontSearch, Goal
from daedal.codesign.search.objectives import Limit, Objective
from daedal.codesign.search.search_loop import Budget, SearchLoop
from daedal.codesign.search.variant_space import VariantSpace
from daedal.common.errors import (
    ExploreError,
    ModelError,
    ScheduleError,
    UnsupportedError,
    UserError,
    first_line,
)
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.compiler.version import cycles_version, digest_of_sources
from daedal.host_time import host_seconds
from daedal.hw.synth.families import Target
from daedal.isa.memory_file import AnyMemory, load_memory, memory_to_json
from daedal.isa.memory_model import MemoryModel
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
    memory: AnyMemory = "ddr",
    board: Board | None = None,
    rates: HostRates = DEFAULT_HOST,
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
    board : where the machines are on a board of this `target`: its logic counts as area, and its
        memory limits the clock. `memory` is the board's own, or another one for comparison.
    rates : the host's, for its part of every latency: as for `base`, at all variants.
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
    given = minutes if evaluations is None else evaluations
    assert given is not None
    if not 0 < given < math.inf:
        raise ExploreError(f"a budget is a number above 0, not {given:g}")
    say = report or (lambda _sentence: None)
    memory = load_memory(memory)
    space = _space(base or load_variant("ecp5"), memory)
    # Refused before anything is written.
    networks = _checked(models, space.base, memory)
    area_model(target.family)
    if mhz is None:
        clock_model(target.family)
    directory = SearchDirectory(folder)
    with directory.claimed():
        settings = _settings(models, target, goal, space, mhz, memory, rates, seed)
        settings["board"] = None if board is None else board.to_json()
        rounds = directory.open(settings, space.has)
        evaluator = Evaluator(
            space,
            networks,
            target.family,
            mhz=mhz,
            board=board,
            memory=memory,
            host_ms=_host_ms(models, space.base, rates),
            energy=Objective.energy in goal.measures,
            estimates=directory.estimates(_estimator_version(), space.has),
            keep=directory.add_estimates,
        )
        start = space.point(space.base)
        assert start is not None, "the space is around it"
        search = FrontSearch(space, goal, evaluator.estimate, start=[start], seed=seed)
        budget = Budget(minutes, evaluations, directory.seconds())
        interrupted, ended = False, None
        try:
            with _counting(networks, memory, workers, pool) as (counter, width):
                loop = SearchLoop(search, evaluator, counter, directory, budget, say)
                try:
                    loop.run(rounds, width)
                except (KeyboardInterrupt, SystemExit) as error:
                    interrupted, ended = True, _ended(error)
                    loop.recall(rounds)  # those that were not replayed yet
        except (KeyboardInterrupt, SystemExit) as error:
            interrupted, ended = True, _ended(error)
        seconds = budget.seconds
        directory.write_seconds(seconds)
        estimated, front = evaluator.num_estimates, tuple(search.front())
        if not front and not interrupted:
            raise nothing_found(search.counted.values(), goal)
        directory.write_front(front, goal.objectives)
        if ended is not None:
            raise ended
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
        seconds,
        interrupted,
    )


def _space(base: Variant, memory: MemoryModel) -> VariantSpace:
    """The variants that the memory serves. Raises UserError where it does not serve the base."""
    sdram = memory.sdram
    if sdram is None:
        return VariantSpace.around(base)
    sdram.check(base)
    return VariantSpace.around(base, kept=["data_bits"])


def _ended(error: BaseException) -> SystemExit | None:
    """The exit that a signal such as SIGTERM asks for, once the front is written."""
    return error if isinstance(error, SystemExit) else None


@contextmanager
def _counting(
    networks: Mapping[str, Network], memory: MemoryModel, workers: int, pool: "Pool | None"
) -> Iterator[tuple[Counter, Callable[[], int]]]:
    """What counts, and how many variants at a time."""
    if pool is None:
        with counters(networks, memory, workers) as counter:
            yield counter, lambda: workers
        return
    from daedal.codesign.cycles.pool_counting import pool_counter

    yield pool_counter(pool, networks, memory), lambda: max(1, pool.num_counting)


def _checked(models: Mapping[str, bytes], base: Variant, memory: MemoryModel) -> dict[str, Network]:
    """The networks. Those that no variant runs are refused, and memory that the cycle model does
    not know."""
    if memory.is_random:
        raise ExploreError(
            "a search needs a memory without random delays, not "
            f"{memory.name!r}; choose another one"
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


def _host_ms(models: Mapping[str, bytes], base: Variant, rates: HostRates) -> dict[str, float]:
    """What the host takes for each network where `base` runs the rest; 0 where it cannot."""
    found = {}
    for name, model in models.items():
        try:
            artifact = compile_network(model, base, cpu_levels=())
        except UserError:  # other variants may run it, with nothing left to the host
            found[name] = 0.0
        else:
            found[name] = 1e3 * host_seconds(artifact, rates)
    return found


def _complete(
    directory: SearchDirectory,
    evaluator: Evaluator,
    front: Sequence[Evaluation],
    models: Mapping[str, bytes],
    memory: MemoryModel,
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
    memory: MemoryModel,
    rates: HostRates,
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
        "memory": memory_to_json(memory),
        "host": dataclasses.asdict(rates),
        "seed": seed,
        "kit": cycles_version(),
    }


@cache
def _estimator_version() -> str:
    """Of the code and the tables that estimates depend on."""
    return f"{cycles_version()} {digest_of_sources(_estimator_sources())}"


def _estimator_sources() -> list[Path]:
    """The source files that the estimates depend on."""
    here = Path(__file__).resolve().parent
    return sorted([*here.rglob("*.py"), *here.rglob("data/*")])


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
