"""`explain_layer`: why the best measured schedule of a layer takes fewer cycles than the default.

Three answers, each from another source: which knobs matter (each is set back alone, and measured),
which properties of the schedule a model of the measured cycles holds responsible, and what the
machine's units did in both runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.isa.profile import Profile
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import Unit
from daedal.runtime.bound import Bound, find_bound
from daedal.runtime.layers import LAYER_UNITS
from daedal.tuning.contributions import Contributions, Schedules
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.target import Setting
from daedal.tuning.task import Task
from daedal.tuning.whole_network import WholeNetwork

__all__ = [
    "LEAST_RECORDS",
    "Contribution",
    "Explanation",
    "KnobChange",
    "UnitChange",
    "explain_layer",
]

LEAST_RECORDS = 16
"""Measured schedules that an explanation needs, or all where there are fewer."""


@dataclass(frozen=True)
class KnobChange:
    """A knob that differs from the default's value.

    `cycles_without` is what the best schedule takes with the default's value of this knob; None if
    that cannot be built.
    """

    knob: str
    before: int
    after: int
    cycles_without: int | None


@dataclass(frozen=True)
class Contribution:
    """A feature that differs between the default and the best schedule.

    `effect` is the share of the cycles that the model attributes to it: -0.05 for 5 % fewer.
    """

    feature: str
    before: float
    after: float
    effect: float


@dataclass(frozen=True)
class UnitChange:
    """Cycles that a unit spent in a class, by default and in the best schedule."""

    unit: Unit
    kind: CycleClass
    before: int
    after: int


@dataclass(frozen=True)
class Explanation:
    """The default of a layer against the best schedule measured; the same if nothing is better.

    Attributes
    ----------
    knobs : those that changed, the one that matters most first.
    contributions : of features that differ, the largest first.
    rest : the effect that the model attributes to features with equal values, because it depends on
        those that differ. All effects multiplied, as 1 + effect, give the predicted ratio.
    predicted : the share of cycles that the model predicts to change.
    error : the median error of its predictions in cross-validation.
    num_own, num_others : schedules of this layer and of others that it learned from.
    units : changes of all units and classes, the largest first.
    bounds : what bounds the layer, by default and best.
    work : words loaded, products, vectors of the ALU, words stored, instructions; both.
    """

    layer: str
    default: Config
    best: Config
    cycles: tuple[int, int]
    knobs: tuple[KnobChange, ...]
    contributions: tuple[Contribution, ...]
    rest: float
    predicted: float
    error: float
    num_own: int
    num_others: int
    units: tuple[UnitChange, ...]
    bounds: tuple[Bound, Bound]
    work: tuple[tuple[str, int, int], ...]

    @property
    def change(self) -> float:
        """Share of the cycles that the best schedule saves, negative, as measured."""
        return self.cycles[1] / self.cycles[0] - 1


def explain_layer(
    network: WholeNetwork, tasks: Sequence[Task], layer: str, setting: Setting
) -> Explanation:
    """Why the best measured schedule of `layer` wins.

    Up to one schedule for each knob is measured, and recorded.

    Raises
    ------
    TuningError
        The network has no such layer with several schedules, or the records are too few.
    """
    task = task_of(tasks, layer)
    own = _schedules(task)
    needed = min(LEAST_RECORDS, len(task.space.configs(task.space.all())))
    if own is None or len(own.cycles) < needed:
        raise TuningError(
            f"an explanation needs at least {needed} measured schedules with the default, and "
            f"the database has {0 if own is None else len(own.cycles)} of layer {layer!r}; add "
            "--trials to measure more"
        )
    best, cycles = _stable_best(task, setting)
    own = _schedules(task)
    assert own is not None
    others = [found for item in tasks if item is not task and (found := _schedules(item))]
    model = Contributions(own, others)
    effects = model.difference(best)
    before, after = _profiles(network, task, (task.default, best))
    return Explanation(
        layer,
        task.default,
        best,
        (own.cycles[task.default], cycles),
        _knobs(task, best),
        *_contributions(own, best, effects),
        math.expm1(sum(effects.values())),
        math.expm1(model.error),
        len(own.cycles),
        sum(len(item.cycles) for item in others),
        _units(before, after),
        (_bound(before), _bound(after)),
        tuple(
            (name, before.units[unit].work, after.units[unit].work) for unit, name in _WORK.items()
        ),
    )


def task_of(tasks: Sequence[Task], layer: str) -> Task:
    """The task of a layer. Raises TuningError if there is none."""
    for item in tasks:
        if layer in item.layers:
            return item
    names = ", ".join(item.layers[0] for item in tasks)
    raise TuningError(f"a layer to explain must be one of {names}, not {layer!r}")


_WORK = {
    Unit.LOAD: "words loaded",
    Unit.GEMM: "products",
    Unit.ALU: "vectors of the ALU",
    Unit.STORE: "words stored",
    Unit.FETCH: "instructions",
}


def _schedules(task: Task) -> Schedules | None:
    """The measured schedules of a task; None if its default is not among them."""
    found = {config: cycles for config, cycles in task.measured.items() if cycles is not None}
    return Schedules(task.space, task.default, found) if task.default in found else None


def _stable_best(task: Task, setting: Setting) -> tuple[Config, int]:
    """The best schedule, after every changed knob was set back alone; one of these may be better,
    and then they are compared with that."""
    while True:
        assert task.best is not None
        config, cycles = task.best
        unknown = [item for item in _set_back(task, config).values() if item not in task.measured]
        if unknown:
            task.measure(unknown, setting)
        if task.best == (config, cycles):
            return config, cycles


def _set_back(task: Task, best: Config) -> dict[str, Config]:
    """`best` with the default's value of one knob, for each that changed and still fits."""
    found = {
        knob: Config.from_json({**best.to_json(), knob: value})
        for knob, value in task.default.values
        if best[knob] != value
    }
    if not found:
        return {}
    fits = task.space.fits(task.space.table(list(found.values())))
    return {knob: config for (knob, config), fit in zip(found.items(), fits, strict=True) if fit}


def _knobs(task: Task, best: Config) -> tuple[KnobChange, ...]:
    back = _set_back(task, best)
    found = [
        KnobChange(knob, value, best[knob], task.measured.get(back[knob]) if knob in back else None)
        for knob, value in task.default.values
        if best[knob] != value
    ]
    return tuple(sorted(found, key=lambda item: -(item.cycles_without or 0)))


def _contributions(
    own: Schedules, best: Config, effects: dict[str, float]
) -> tuple[tuple[Contribution, ...], float]:
    """The features that differ, and the effect of all others together."""
    features = {name: column.tolist() for name, column in own.features([own.default, best]).items()}
    found = []
    rest = 0.0
    for name, effect in effects.items():
        before, after = features[name]
        if before == after:
            rest += effect
        else:
            found.append(Contribution(name, before, after, math.expm1(effect)))
    found.sort(key=lambda item: -abs(math.log1p(item.effect)))
    return tuple(found), math.expm1(rest)


def _profiles(network: WholeNetwork, task: Task, configs: Sequence[Config]) -> list[Profile]:
    """What the machine's units did with each of `configs`."""
    at = network.kinds.index(task.workload.key)
    runner = LayerRunner(*network.layers[at], network.variant, network.memory)
    found = [runner.profile(config) for config in configs]
    built = [profile for profile in found if profile is not None]
    assert len(built) == len(configs), "both were measured before"
    return built


def _units(before: Profile, after: Profile) -> tuple[UnitChange, ...]:
    found = [
        UnitChange(unit, kind, before.units[unit].classes[kind], after.units[unit].classes[kind])
        for unit in LAYER_UNITS
        for kind in CLASSES
    ]
    changed = [item for item in found if item.before != item.after]
    return tuple(sorted(changed, key=lambda item: -abs(item.after - item.before)))


def _bound(profile: Profile) -> Bound:
    units = {unit: profile.units[unit] for unit in LAYER_UNITS}
    assert profile.cycles is not None, "the cycle model counts cycles"
    return find_bound(profile.cycles, units, units[Unit.LOAD].work, units[Unit.STORE].work)
