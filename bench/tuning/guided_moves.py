"""Do the machine's counters tell which knob to turn?

    python bench/tuning/guided_moves.py [--json F]

A walk goes from a measured configuration to a neighbour that takes fewer cycles, until there is
none, and starts again elsewhere. Two walks differ only in which neighbour they measure first:
any (*blind*), or the one that a policy finds likeliest to save cycles, given the shares of their
cycles that the units waited in the last run (*learned*). Compared with them: a policy that does not
see these shares, this kit's search (*guided*), and *both*: every second candidate by moves from the
best so far. The analytic estimate is withheld from all. Where the default is more than 1 % above
the optimum, the last two are compared again with the estimate given and the default known.

A policy and the model of the guided search learn from the same data: what blind walks measured on
all layers but the one that is tested. Counted are the measured candidates until one is within 1 %
of the optimum that `bench.tuning.truth` keeps. The spaces are those configurations that have at
most `INSTRUCTIONS` instructions, as others take minutes each.

Measurements are kept in a file, so that an interrupted run continues.
"""

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table as ShownTable

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.tuning.moves import Climb, MovePolicy, Moves, Outcome, Walk
from bench.tuning.truth import MEMORY, NEAR, load_truth
from bench.tuning.tuner import layer_of
from bench.tuning.workloads import WORKLOADS, TuningWorkload
from daedal.common.files import make_folder
from daedal.compiler.layers.features import layer_columns
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Config, Table
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.cost_model import Columns, Reals
from daedal.compiler.tune.guided import Guided
from daedal.compiler.tune.samples import Samples
from daedal.compiler.tune.search import Search
from daedal.compiler.tune.transfer import Transfer
from daedal.compiler.version import compiler_version
from daedal.isa.memory_model import PRESETS
from daedal.isa.profile import Profile
from daedal.isa.registers import CLASSES
from daedal.runtime.layers import LAYER_UNITS

__all__ = ["main"]

KEPT = Path(__file__).resolve().parents[2] / ".daedal" / "tuning_moves.jsonl"
INSTRUCTIONS = 2000
MOST_TRIALS = 32
SEEDS = 3
LEAST = 0.15
"""A policy ends a climb where no move is likelier to save cycles."""
NAMES = (
    *("C10@vta", "C10@ecp5_half", "C4@wide", "C7@ecp5_half", "C7@tiny"),
    *("D6@vta", "D4@vta", "fragment72@vta", "fragment20@vta", "1x1@wide"),
)
"""Workloads whose candidates take less than a second each, on all four variants."""
STOPS = ("without counters", "guided", "both")
"""How methods begin that end when one is near; others go on, so that their climbs compare."""
GIVEN = ", estimate given"
"""How methods end that begin with the default, and see estimate and bounds."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """Cycles of a configuration, what the units did, and the processor time that it took."""

    cycles: int | None
    shares: tuple[float, ...]
    seconds: float


def shares_of(profile: Profile) -> tuple[float, ...]:
    """For each of `LAYER_UNITS`, the shares of its cycles in each of `CLASSES`: 1 in sum."""
    return tuple(
        profile.units[unit].classes[kind] / profile.units[unit].cycles
        for unit in LAYER_UNITS
        for kind in CLASSES
    )


class Short(LayerSpace):
    """The configurations of `space` with few instructions, without their estimates."""

    def __init__(self, space: LayerSpace, instructions: float) -> None:
        self._space = space
        self._instructions = instructions

    @property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        return self._space.knobs

    def possible(self, table: Table) -> npt.NDArray[np.bool_]:
        return self._space.possible(table)

    def fits(self, table: Table) -> npt.NDArray[np.bool_]:
        found = self._space.fits(table)
        rows = np.flatnonzero(found)
        counts = self._space.features({knob: table[knob][rows] for knob in table})["instructions"]
        found[rows] = counts <= self._instructions
        return found

    def cycles(self, table: Table) -> Reals:
        return np.ones(len(next(iter(table.values()))))

    def features(self, table: Table) -> dict[str, Reals]:
        return {}


class Counted:
    """The space of a workload, and its measurements."""

    def __init__(self, workload: TuningWorkload, kept: Path, truth: Mapping[str, Any]) -> None:
        space = workload.space
        assert space is not None
        self.workload = workload
        best = Config.from_json(truth["config"])
        (count,) = space.features(space.table([best]))["instructions"]
        self.space = Short(space, max(INSTRUCTIONS, count))
        memory = PRESETS[MEMORY]
        self.columns: Columns = layer_columns(space, self.space.all(), workload.variant, memory)
        self._kept = kept
        self._known: dict[tuple[int, ...], Measured] = {}
        self._version = compiler_version()
        for line in kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else ():
            version, name, values, *found = json.loads(line)
            if (version, name) == (self._version, workload.name):
                self._known[tuple(values)] = Measured(found[0], tuple(found[1]), found[2])
        cycles = self(best).cycles
        assert cycles is not None, "the optimum was measured before"
        self.near = NEAR * cycles
        self.default = space.default

    @functools.cached_property
    def candidates(self) -> Candidates:
        """The configurations by rows."""
        return Candidates(self.space)

    def __call__(self, config: Config) -> Measured:
        """Measure a configuration, or look it up."""
        values = tuple(value for _, value in config.values)
        if values not in self._known:
            begin = time.process_time()
            profile = self.workload.runner.profile(config)
            seconds = time.process_time() - begin
            cycles = None if profile is None else profile.cycles
            found = Measured(cycles, () if profile is None else shares_of(profile), seconds)
            self._known[values] = found
            line = json.dumps(
                [self._version, self.workload.name, values, found.cycles, found.shares, seconds]
            )
            with self._kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return self._known[values]

    def seconds(self) -> list[float]:
        """Processor time of each candidate measured."""
        return [found.seconds for found in self._known.values()]


class Both:
    """Every second candidate by moves from the best so far, the others by the guided search."""

    def __init__(self, guided: Guided, walk: Walk) -> None:
        self._guided = guided
        self._walk = walk
        self._turn = 0

    def propose(self, count: int) -> list[Config]:
        """One configuration."""
        assert count == 1
        self._turn += 1
        rows = self._walk.neighbours(1) if self._turn % 2 == 0 else ()
        return self._walk.candidates.configs(rows) if len(rows) else self._guided.propose(1)

    def count(self, configs: Sequence[Config], shares: Sequence[Sequence[float]]) -> None:
        """As `Walk.count`."""
        self._walk.count(configs, shares)

    def observe(self, configs: Sequence[Config], cycles: Sequence[int | None]) -> None:
        """Both learn everything."""
        self._guided.observe(configs, cycles)
        self._walk.observe(configs, cycles)


@dataclass(frozen=True)
class Run:
    """One search on one workload: the best after each candidate, and its own time for each."""

    curve: tuple[float, ...]
    seconds: float
    climbs: tuple[Climb, ...]
    configs: tuple[Config, ...]

    def needed(self, near: float) -> int | None:
        """Candidates until one is near; None if none is."""
        return next((at + 1 for at, value in enumerate(self.curve) if value <= near), None)


def drive(
    oracle: Counted, search: Search | Both, until: float, start: Sequence[Config] = ()
) -> Run:
    """Measure what `search` proposes until one takes at most `until` cycles.

    It is told of `start` first, which does not count.
    """
    curve: list[float] = []
    tried: list[Config] = []
    seconds = 0.0
    _tell(search, start, [oracle(config) for config in start])
    while len(curve) < MOST_TRIALS and not (curve and curve[-1] <= until):
        begin = time.process_time()
        configs = search.propose(1)
        seconds += time.process_time() - begin
        if not configs:
            break
        found = [oracle(config) for config in configs]
        for item in found:
            value = np.inf if item.cycles is None else float(item.cycles)
            curve.append(min(value, curve[-1] if curve else np.inf))
        tried += configs
        begin = time.process_time()
        _tell(search, configs, found)
        seconds += time.process_time() - begin
    climbs = search.climbs if isinstance(search, Walk) else []
    return Run(
        tuple(curve),
        seconds / max(len(curve), 1),
        tuple(climbs),
        tuple(tried),
    )


def _tell(search: Search | Both, configs: Sequence[Config], found: Sequence[Measured]) -> None:
    if isinstance(search, Walk | Both):
        search.count(configs, [item.shares for item in found])
    if configs:
        search.observe(configs, [item.cycles for item in found])


class Lessons:
    """What the blind walks measured, of each workload by rows."""

    def __init__(self, oracles: Mapping[str, Counted], runs: Mapping[str, Sequence[Run]]) -> None:
        self._oracles = oracles
        self.outcomes: dict[str, dict[int, Outcome]] = {}
        for name, oracle in oracles.items():
            configs = list(dict.fromkeys(item for run in runs[name] for item in run.configs))
            rows = oracle.candidates.rows(configs).tolist()
            found = zip(rows, map(oracle, configs), strict=True)
            self.outcomes[name] = {
                row: Outcome(item.cycles, item.shares)
                for row, item in found
                if item.cycles is not None
            }

    def policy(self, name: str, *, counters: bool) -> MovePolicy:
        """A policy that never saw the layer of the workload `name`."""
        policy = MovePolicy(counters=counters)
        for other in self._others(name):
            policy.learn_all(Moves(self._oracles[other].candidates), self.outcomes[other])
        return policy

    def model(self, name: str, *, prior: bool) -> Transfer:
        """The model of the guided search, from the same measurements."""
        samples = Samples()
        for other in self._others(name):
            rows = np.array(list(self.outcomes[other]))
            cycles = np.array([item.cycles for item in self.outcomes[other].values()])
            columns = self._oracles[other].columns
            samples.add(other, {key: column[rows] for key, column in columns.items()}, cycles)
        return Transfer(samples, prior=prior)

    def order(self, name: str, *, counters: bool) -> float:
        """How often the policy finds a move that saves cycles likelier than one that does not."""
        policy = self.policy(name, counters=counters)
        moves = Moves(self._oracles[name].candidates)
        outcomes = self.outcomes[name]
        likely: tuple[list[float], list[float]] = ([], [])
        for row, before in outcomes.items():
            for move, target in enumerate(moves.targets[row].tolist()):
                if target in outcomes:
                    saved = outcomes[target].cycles < before.cycles
                    likely[saved].append(policy.probability(moves, row, move, before))
        worse, better = (np.array(values) for values in likely)
        above = (better[:, None] > worse).mean() + (better[:, None] == worse).mean() / 2
        return float(above)

    def _others(self, name: str) -> list[str]:
        return [other for other in self.outcomes if layer_of(other) != layer_of(name)]


def measure(oracles: Mapping[str, Counted], say: Say) -> dict[str, Any]:
    """Everything: runs by method and workload, and what the policies know of each workload."""
    runs: dict[str, dict[str, list[Run]]] = {}

    def run(method: str, make: Callable[[str, int], Search | Both], *, given: bool = False) -> None:
        for name, oracle in oracles.items():
            if given and (oracle(oracle.default).cycles or 0) <= oracle.near:
                continue
            until = oracle.near if method.startswith(STOPS) else 0.0
            start = [oracle.default] if given else []
            found = [drive(oracle, make(name, seed), until, start) for seed in range(SEEDS)]
            runs.setdefault(method, {})[name] = found
            say(f"{method}, {name}: {[item.needed(oracle.near) for item in found]}")

    run("blind", lambda name, seed: Walk(oracles[name].space, seed=seed))
    lessons = Lessons(oracles, runs["blind"])
    learned, knobs = (
        {name: lessons.policy(name, counters=counters) for name in oracles}
        for counters in (True, False)
    )

    def walk(policy: MovePolicy | None, name: str, seed: int) -> Walk:
        return Walk(oracles[name].space, seed=seed, policy=policy, least=LEAST)

    run("learned", lambda name, seed: walk(learned[name], name, seed))
    run("without counters", lambda name, seed: walk(knobs[name], name, seed))
    for given in (False, True):
        models = {name: lessons.model(name, prior=given) for name in oracles}

        def guided(name: str, seed: int, models: Mapping[str, Transfer] = models) -> Guided:
            oracle = oracles[name]
            return Guided(oracle.space, models[name].warm(oracle.columns), seed=seed)

        def both(policies: Mapping[str, MovePolicy] | None, name: str, seed: int) -> Both:
            policy = None if policies is None else policies[name]
            return Both(guided(name, seed), walk(policy, name, seed))

        suffix = GIVEN if given else ""
        run(f"guided{suffix}", guided, given=given)
        run(f"both{suffix}", functools.partial(both, learned), given=given)
        run(f"both, blind{suffix}", functools.partial(both, None), given=given)
    return {
        "runs": {
            method: {name: figures_of(oracles[name], found) for name, found in rows.items()}
            for method, rows in runs.items()
        },
        "order": {
            name: {
                "learned": lessons.order(name, counters=True),
                "without counters": lessons.order(name, counters=False),
            }
            for name in oracles
        },
        "candidate_seconds": {
            name: float(np.median(oracle.seconds())) for name, oracle in oracles.items()
        },
        "programs": {name: len(oracle.candidates) for name, oracle in oracles.items()},
    }


def figures_of(oracle: Counted, runs: Sequence[Run]) -> dict[str, Any]:
    """What is reported of one method on one workload."""
    needed = [run.needed(oracle.near) for run in runs]
    climbs = [climb for run in runs for climb in run.climbs]
    return {
        "needed": needed,
        "trials": float(np.mean([MOST_TRIALS if count is None else count for count in needed])),
        "above": [run.curve[-1] * NEAR / oracle.near - 1 for run in runs],
        "climbs": [asdict(climb) for climb in climbs],
        "stuck": sum(climb.end > oracle.near for climb in climbs),
        "seconds": float(np.mean([run.seconds for run in runs])),
    }


def summary(found: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The figures of each method over all workloads."""
    methods: dict[str, dict[str, float]] = {}
    blind = found["runs"]["blind"]
    for method, rows in found["runs"].items():
        trials = {name: row["trials"] for name, row in rows.items()}
        needed = [count for row in rows.values() for count in row["needed"]]
        methods[method] = {
            "trials": float(np.exp(np.mean(np.log(list(trials.values()))))),
            "found": float(np.mean([count is not None for count in needed])),
            "own_seconds": float(np.mean([row["seconds"] for row in rows.values()])),
        }
        if not method.endswith(GIVEN):
            ratios = [blind[name]["trials"] / count for name, count in trials.items()]
            methods[method]["than_blind"] = float(np.exp(np.mean(np.log(ratios))))
        climbs = [climb for row in rows.values() for climb in row["climbs"]]
        if climbs and not method.startswith(STOPS):
            stuck = sum(row["stuck"] for row in rows.values())
            methods[method] |= {
                "climbs": len(climbs),
                "stuck": stuck / len(climbs),
                "tried": float(np.mean([climb["tried"] for climb in climbs])),
                "taken": float(np.mean([climb["taken"] for climb in climbs])),
            }
    return methods


def show(console: Console, found: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Tables of everything."""
    table = ShownTable("measured until within 1 %", "programs", *found["runs"])
    for name, count in found["programs"].items():
        cells = [
            ", ".join("-" if n is None else str(n) for n in rows[name]["needed"])
            if name in rows
            else ""
            for rows in found["runs"].values()
        ]
        table.add_row(name, f"{count:,}", *cells)
    console.print(table)
    keys = list(dict.fromkeys(key for row in figures.values() for key in row))
    table = ShownTable("all workloads", *keys)
    for method, row in figures.items():
        table.add_row(method, *(f"{row[key]:.3g}" if key in row else "" for key in keys))
    console.print(table)
    for name, row in found["order"].items():
        console.print(
            f"{name}: order of moves", {key: round(value, 2) for key, value in row.items()}
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    make_folder(KEPT.parent)
    truth = load_truth()
    oracles = {name: Counted(WORKLOADS[name], KEPT, truth[name]) for name in options.only}
    found = measure(oracles, Console(stderr=True).log)
    figures = summary(found)
    show(Console(width=150), found, figures)
    if options.json is not None:
        content = json.dumps({"all": figures, **found}, indent=1) + "\n"
        options.json.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
