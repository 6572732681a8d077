"""The public function `explore`: searches variants and schedules together, until a budget is spent.

>>> found = daedal.explore("digits_qdq.onnx", "found", fpga="ecp5-85f", minutes=10)
>>> [(point.variant.name, point.value("latency"), point.value("area")) for point in found.front]
>>> artifact = found.points[0].artifact("digits_qdq")
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daedal.codesign.cycles.counting import Counter, Network, counters
from daedal.codesign.cycles.host_shares import HostShares, host_shares, machines_with_options
from daedal.codesign.exploration import Exploration
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.board import Board, board_named
from daedal.codesign.hardware.clock import clock_model
from daedal.codesign.networks import Models, named_models
from daedal.codesign.results.directory import SearchDirectory
from daedal.codesign.results.point_folder import PointFolder
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.front_search import FrontSearch, Goal
from daedal.codesign.search.objectives import (
    USABLE,
    Limit,
    Objective,
    parse_limits,
    parse_objectives,
)
from daedal.codesign.search.search_loop import Budget, SearchLoop
from daedal.codesign.search.variant_space import VariantSpace
from daedal.common.errors import (
    ExploreError,
    ModelError,
    first_line,
)
from daedal.common.reporting import log
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.narrow_weights import may_have_narrow_weights
from daedal.compiler.targets.capabilities import Capabilities
from daedal.compiler.targets.crossings import HostRates
from daedal.compiler.version import cycles_version, digest_of_sources
from daedal.host.rates import MEASURED, AnyHostRates, load_host_rates
from daedal.hw.synth.families import Target, find_target
from daedal.isa.memory_file import AnyMemory, load_memory, memory_to_json
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.pool_access import joined_pool

if TYPE_CHECKING:  # Dask loads slowly, and may be missing
    from daedal.tuning.pool import Pool

__all__ = ["explore", "nothing_found", "searched_device"]

Progress = Callable[[Exploration], None]

_MINUTES = 10.0
"""Without a budget."""
_WORKERS = 2
"""Processes that count where there is no pool."""


def explore(
    models: Models,
    folder: str | Path,
    *,
    fpga: str | None = None,
    board: str | Path | None = None,
    objectives: str | Sequence[str] = (Objective.latency, Objective.area),
    limits: Mapping[str, float] | Sequence[str] = (),
    minutes: float | None = None,
    evaluations: int | None = None,
    base: Variant | str | Path = "ecp5",
    mhz: float | None = None,
    memory: AnyMemory | None = None,
    host: AnyHostRates = MEASURED,
    seed: int = 0,
    workers: int | None = None,
    pool: str | None = None,
    tls: str | Path | None = None,
    report: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Search the variants that run models fastest in the least area, until a budget is spent.

    Every counted variant is kept in `folder` at once; the same call continues there, and finds what
    it had found without an interruption (KeyboardInterrupt). Minutes are those of all runs
    together. After an interruption, points of the front lack programs, which the same call adds.
    `docs/codesign.md` has the files.

    Parameters
    ----------
    models : int8 QDQ ONNX files, which are known by their names without the suffix, or models by
        name.
    fpga, board : one of both: an FPGA, as for `daedal.synth`, or a board by name or .toml file.
        The logic of a board counts as area, and its memory limits the clock.
    objectives : what to minimize: ``latency``, ``area``, ``energy``.
    limits : the most of an objective, or of a resource in percent of the device, such as
        ``{"latency": 1.5, "block_ram": 75}``.
    minutes, evaluations : the budget: a time, or a number of variants to compile; 10 minutes by
        default.
    base : the variant whose other parameters all results have.
    mhz : a clock for all variants; else it is estimated.
    memory : behind the bus; by default the board's own, or ``ddr``.
    host : the host's rates, for its part of every latency (`daedal.load_host_rates`); where they
        are measured, those with which the search in `folder` began.
    workers : processes that count, so many variants at a time; 2 by default.
    pool, tls : the address of a pool whose workers count instead, and the folder of its
        certificates (docs/pool.md).
    report : called with a sentence before each long step.
    progress : called with what was found so far, after each round that changed the front and each
        point whose folder was completed.

    Raises
    ------
    TuningError
        The pool is not there, its workers are gone, or have another version.
    ExploreError
        Two budgets, a folder of another search, a network with nothing for the accelerator, a
        device without tables, or limits that no variant of the space keeps.
    ModelError, VariantError, UserError
        What cannot be read.
    """
    device, known = searched_device(fpga, board)
    behind = load_memory(memory or ("ddr" if known is None else known.memory))
    names = objectives if isinstance(objectives, str) else ",".join(objectives)
    most = limits
    if isinstance(limits, Mapping):
        most = [f"{name}={value}" for name, value in limits.items()]
    goal = Goal(parse_objectives(names), parse_limits(list(most)), USABLE)
    _check_clock(mhz, known)
    networks = named_models(models)
    given = _budget(minutes, evaluations)
    say = report or log
    if tls is not None and pool is None:
        raise ExploreError("tls is for pools; give a pool, too")
    # Without a pool, the workers are processes of the search itself.
    joining = 0 if pool is None else workers or 0
    with joined_pool(pool, tls, workers=joining, report=say) as joined:
        return _search(
            networks,
            device,
            goal,
            Path(folder),
            given,
            base=base if isinstance(base, Variant) else load_variant(base),
            mhz=None if mhz is None else float(mhz),  # as the command line gives it
            memory=behind,
            board=known,
            rates=_rates(host, Path(folder)),
            seed=seed,
            workers=workers or _WORKERS,
            pool=joined,
            say=say,
            progress=progress or (lambda _found: None),
        )


def searched_device(fpga: str | None, board: str | Path | None) -> tuple[Target, Board | None]:
    """The device of a search, and its board. Raises ExploreError unless one of both is given,
    UserError where there is none of that name."""
    if board is not None and fpga is None:
        known = board_named(board)
        return known.target, known
    if fpga is None or board is not None:
        raise ExploreError("a search is for an FPGA or a board: give one of --fpga and --board")
    return find_target(fpga), None


def _check_clock(mhz: float | None, board: Board | None) -> None:
    if mhz is None:
        return
    if not 0 < mhz < math.inf:
        raise ExploreError(f"a clock is a number above 0 MHz, not {mhz:g}")
    if board is not None and mhz > board.most_mhz:
        raise ExploreError(
            f"the memory of board {board.name!r} allows at most {board.most_mhz:.4g} MHz, not "
            f"{mhz:g}; give a slower clock"
        )


def _budget(minutes: float | None, evaluations: int | None) -> tuple[float | None, int | None]:
    """Minutes, or a number of evaluations."""
    if minutes is not None and evaluations is not None:
        raise ExploreError("a search has one budget: minutes, or a number of evaluations")
    if minutes is None and evaluations is None:
        minutes = _MINUTES
    given = minutes if evaluations is None else evaluations
    assert given is not None
    if not 0 < given < math.inf:
        raise ExploreError(f"a budget is a number above 0, not {given:g}")
    return minutes, evaluations


def _rates(host: AnyHostRates, folder: Path) -> HostRates:
    """The host's rates; where they are measured, those that the search in the folder began with."""
    known = SearchDirectory(folder).host_rates() if host == MEASURED else None
    return known or load_host_rates(host)


def _search(
    models: Mapping[str, bytes],
    target: Target,
    goal: Goal,
    folder: Path,
    given: tuple[float | None, int | None],
    *,
    base: Variant,
    mhz: float | None,
    memory: MemoryModel,
    board: Board | None,
    rates: HostRates,
    seed: int,
    workers: int,
    pool: "Pool | None",
    say: Callable[[str], None],
    progress: Progress,
) -> Exploration:
    """Search the default space around `base` until the budget is spent, or KeyboardInterrupt."""
    space = _space(models, base, memory)
    # Refused before anything is written.
    shares = _shares(models, space, memory, rates)
    networks = {name: _network(models[name], shares[name], base) for name in models}
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
            host_ms={
                name: {able: share.ms for able, share in found.items()}
                for name, found in shares.items()
            },
            energy=Objective.energy in goal.measures,
            estimates=directory.estimates(_estimator_version(), space.has),
            keep=directory.add_estimates,
        )
        # One that lacks a single option of those that a network needs is no better than the base.
        machines = (space.base, *machines_with_options(space).values())
        start = [point for machine in machines if (point := space.point(machine)) is not None]
        assert start, "the space is around its base"
        search = FrontSearch(space, goal, evaluator.estimate, start=start, seed=seed)
        budget = Budget(*given, directory.seconds())
        interrupted, ended, shown = False, None, list[Evaluation]()

        def so_far(*, is_interrupted: bool = False) -> Exploration:
            compiled = tuple(made for made in search.counted.values() if made is not None)
            return Exploration(
                tuple(search.front()),
                compiled,
                len(compiled),
                len(search.counted) - len(compiled),
                evaluator.num_estimates,
                budget.seconds,
                is_interrupted,
                folder,
                goal,
                board,
            )

        def counted() -> None:
            front = search.front()
            if front != shown:
                shown[:] = front
                directory.write_front(front, goal.objectives)
                progress(so_far())

        try:
            with _counting(networks, memory, workers, pool) as (counter, width):
                loop = SearchLoop(search, evaluator, counter, directory, budget, say, counted)
                try:
                    loop.run(rounds, width)
                except (KeyboardInterrupt, SystemExit) as error:
                    interrupted, ended = True, _ended(error)
                    loop.recall(rounds)  # those that were not replayed yet
        except (KeyboardInterrupt, SystemExit) as error:
            interrupted, ended = True, _ended(error)
        directory.write_seconds(budget.seconds)
        found = so_far(is_interrupted=interrupted)
        front = found.front
        if not front and not interrupted:
            raise nothing_found(search.counted.values(), goal)
        directory.write_front(front, goal.objectives)
        if ended is not None:
            raise ended
        if not interrupted:
            try:
                for _ in _complete(directory, evaluator, front, models, memory, say):
                    progress(found)
            except KeyboardInterrupt:
                found = dataclasses.replace(found, interrupted=True)
    return found


def _space(models: Mapping[str, bytes], base: Variant, memory: MemoryModel) -> VariantSpace:
    """The variants that the memory serves, with what the models can use. Raises UserError where
    the memory does not serve the base."""
    kept = []
    if not any(may_have_narrow_weights(load_onnx(model)) for model in models.values()):
        kept.append("narrow_weights")
    if memory.sdram is not None:
        memory.sdram.check(base)
        kept.append("data_bits")
    return VariantSpace.around(base, kept)


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


def _shares(
    models: Mapping[str, bytes], space: VariantSpace, memory: MemoryModel, rates: HostRates
) -> dict[str, HostShares]:
    """What the host computes of each network. Those that no variant runs are refused, and memory
    that the cycle model does not know."""
    if memory.is_random:
        raise ExploreError(
            "a search needs a memory without random delays, not "
            f"{memory.name!r}; choose another one"
        )
    found: dict[str, HostShares] = {}
    for name, model in models.items():
        try:
            found[name] = host_shares(model, space, rates)
        except ModelError as error:
            raise ExploreError(f"network {name!r}: {first_line(error)}") from error
    return found


def _network(model: bytes, shares: HostShares, base: Variant) -> Network:
    """With the tensors that the host may compute."""
    tensors = {able: share.tensors for able, share in shares.items()}
    return Network(model, tensors[Capabilities.of(base)], tensors)


def _complete(
    directory: SearchDirectory,
    evaluator: Evaluator,
    front: Sequence[Evaluation],
    models: Mapping[str, bytes],
    memory: MemoryModel,
    say: Callable[[str], None],
) -> Iterator[PointFolder]:
    """Write what the folders of the front's points lack. Yields those that were not complete."""
    for number, item in enumerate(front):

        def report(said: str, step: str = f"completing point {number + 1} of {len(front)}") -> None:
            say(f"{step}: {said}")

        point = directory.point(item)
        was_complete = point.is_complete
        point.complete(models, evaluator.predict, memory=memory, report=report)
        if not was_complete:
            yield point


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
