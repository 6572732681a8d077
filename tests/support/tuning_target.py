"""A target of the tuner that is neither the accelerator nor a processor: layers of a toy space.

It measures what the space says, times a load that grows with every batch, as a busy machine's
does, unless its unit is exact.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from daedal.compiler.ops.space import Config
from daedal.compiler.tune.features import shared_columns
from daedal.compiler.tune.workload import Workload
from daedal.tuning.runner import Result, cycles_of
from daedal.tuning.target import CYCLES, Kind, NetworkCycles, Place, TuningTarget, Unit
from tests.support.tuning_spaces import Rugged

__all__ = ["ToyTarget"]


class ToyRunner:
    """Measures a layer; the default takes a known time, others a share of it."""

    limit_seconds = float("inf")

    def __init__(self, target: "ToyTarget", workload: Workload) -> None:
        self.workload = workload
        self._target = target

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """See `Runner`."""
        self._target.batches.append(list(configs))
        return [Result(self._target.cycles(config)) for config in configs]

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """See `Runner`."""
        return cycles_of(configs, self.results(configs))


class ToyTarget(TuningTarget):
    """A network of `names`, all of one kind.

    `lucky` are configurations that take half of their cycles the first time.
    """

    title = "a toy"

    def __init__(
        self, names: Sequence[str] = ("a", "b"), unit: Unit = CYCLES, machine: str = "toy1"
    ) -> None:
        self.place = Place("toy", machine, "none", unit, title=machine)
        self.digest = "0" * 64
        self.space = Rugged()
        self.names = tuple(names)
        self.batches: list[list[Config]] = []
        self.known: list[int | None] = []
        self.lucky: set[Config] = set()

    def cycles(self, config: Config) -> int:
        """What a configuration takes this time."""
        (found,) = self.space.measure([config])
        if config in self.lucky:
            self.lucky.remove(config)
            return found // 4
        return found

    def kinds(self) -> list[Kind]:
        """See `TuningTarget`."""
        workload = Workload.from_json({"operator": "toy"})

        def runner(default: int | None) -> ToyRunner:
            self.known.append(default)
            return ToyRunner(self, workload)

        columns = partial(shared_columns, self.space, machine={"machine size": 3.0})
        return [Kind(workload, self.names, self.space, columns, runner)]

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """See `TuningTarget`."""
        (kind,) = self.kinds()
        config = configs.get(kind.workload.key, self.space.default)
        return NetworkCycles(len(self.names) * self.space.measure([config])[0], {})
