"""`Evaluator`: from points of a space to evaluations, for one set of networks and one family."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Counter, Network
from daedal.codesign.cycles.energy import switched_energy
from daedal.codesign.cycles.estimated_work import EstimatedWork
from daedal.codesign.cycles.work import Counts
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.board import Board
from daedal.codesign.hardware.clock import Clock, clock_model
from daedal.codesign.results.directory import Estimates
from daedal.codesign.results.prediction import Prediction, parameter_steps
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.variant_space import Point, VariantSpace
from daedal.compiler.targets.capabilities import Capabilities
from daedal.hw.synth.families import Family
from daedal.isa.latencies import gemm_lead_cycles
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.variant import MultiplierStyle, Variant

__all__ = ["Evaluator"]


class Evaluator:
    """Evaluates points of `space`.

    Parameters
    ----------
    networks : by name.
    mhz : a clock for all variants, instead of the learned one.
    board : where the machine is not alone on the device; its memory limits the learned clock.
    memory : what estimates have behind the bus.
    host_ms : what the host takes for each network, by the capabilities of a variant.
    energy : whether estimates have an energy, which takes longer; what is counted has one anyway.
    estimates : those that are known already.
    keep : called with new estimates.
    """

    def __init__(
        self,
        space: VariantSpace,
        networks: Mapping[str, Network],
        family: Family,
        *,
        mhz: float | None = None,
        board: Board | None = None,
        memory: MemoryModel = PRESETS["ddr"],
        host_ms: Mapping[str, Mapping[Capabilities, float]] | None = None,
        energy: bool = False,
        estimates: Estimates | None = None,
        keep: Callable[[Estimates], None] = lambda _found: None,
    ) -> None:
        self._space = space
        self._family = family
        self._mhz = mhz
        self._board = board
        self._host_ms = dict(host_ms or {})
        self._counted: dict[str, Counts | None] = {}
        self._estimates = estimates or {}
        self._keep = keep
        self._networks = {
            name: AnalyticCycles(network.model, network.on_host_of, memory)
            for name, network in networks.items()
        }
        self._works = {
            name: EstimatedWork(network.model, network.on_host_of, memory)
            for name, network in networks.items()
            if energy
        }

    def estimate(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """The estimated evaluation of each point; None where a network does not fit."""
        missing = [point for point in dict.fromkeys(points) if point not in self._estimates]
        if missing:
            fresh = {point: self._estimated(point) for point in missing}
            self._estimates.update(fresh)
            self._keep(fresh)
        return self._joined(points, [self._estimates[point] for point in points])

    @property
    def num_estimates(self) -> int:
        """How many points were estimated, by earlier runs, too."""
        return len(self._estimates)

    def _glanced(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """As `estimate`, of points that the search did not ask for: they are not kept."""
        return self._joined(
            points,
            [
                self._estimates[point] if point in self._estimates else self._estimated(point)
                for point in points
            ],
        )

    def _joined(
        self, points: Sequence[Point], counts: Sequence[Counts | None]
    ) -> list[Evaluation | None]:
        return [
            None if found is None else self._with(base, found)
            for found, base in zip(counts, self._composed(points), strict=True)
        ]

    def _with(self, base: Evaluation, counts: Counts) -> Evaluation:
        """The evaluation of a variant with what is known of its networks."""
        made = replace(base, cycles=counts.cycles, work=counts.work)
        if not counts.work:
            return made
        parts = area_model(self._family).by_part(base.variant)
        energy = {
            name: switched_energy(work, counts.cycles[name], parts, base.variant).total
            for name, work in counts.work.items()
        }
        return replace(made, energy=energy)

    def _estimated(self, point: Point) -> Counts | None:
        variant = self._variant(point)
        cycles = {name: float(network(variant)) for name, network in self._networks.items()}
        if not np.isfinite(list(cycles.values())).all():
            return None
        works = {name: estimate(variant) for name, estimate in self._works.items()}
        known = {name: work for name, work in works.items() if work is not None}
        return Counts(cycles, known) if len(known) == len(works) else None

    def count(
        self, points: Sequence[Point], counter: Counter
    ) -> Iterator[tuple[Point, Evaluation | None]]:
        """Each point with its counted evaluation, as soon as it is known.

        Variants whose programs are the same are compiled once.
        """
        bases = self._composed(points)
        machines = {_machine(base.variant): _same_programs(base.variant) for base in bases}
        missing = [key for key in machines if key not in self._counted]
        for point, base in zip(points, bases, strict=True):
            if _machine(base.variant) not in missing:
                yield point, self._counted_with(base, self._counted[_machine(base.variant)])
        for number, counts in counter([machines[key] for key in missing]):
            self._counted[missing[number]] = counts
            for point, base in zip(points, bases, strict=True):
                if _machine(base.variant) == missing[number]:
                    yield point, self._counted_with(base, counts)

    def learn(self, known: Mapping[Point, Evaluation | None]) -> None:
        """Take over what an earlier run counted."""
        for point, item in known.items():
            counts = None if item is None else Counts(item.cycles, item.work)
            self._counted[_machine(self._variant(point))] = counts

    def predict(self, item: Evaluation) -> Prediction:
        """The estimates of a variant of the space in detail."""
        (clock,) = self.clocks([item.variant], [item.resources])
        point = self._space.point(item.variant)
        steps = () if point is None else parameter_steps(self._space, self._glanced, point)
        units = dict(area_model(self._family).by_part(item.variant))
        if self._board is not None:
            units[self._board.name] = dict(self._board.resources)
        return Prediction(clock, units, tuple(steps))

    def clocks(
        self, variants: Sequence[Variant], resources: Sequence[Mapping[str, float]]
    ) -> list[Clock]:
        """The clock of each variant."""
        if self._mhz is not None:
            return [Clock(self._mhz, self._mhz, self._mhz)] * len(variants)
        found = clock_model(self._family)(variants, resources)
        return found if self._board is None else [self._board.clock(clock) for clock in found]

    def _composed(self, points: Sequence[Point]) -> list[Evaluation]:
        """Area and clock of each point; no cycles yet."""
        variants = [self._variant(point) for point in points]
        areas: Sequence[Mapping[str, float]] = area_model(self._family)(variants)
        if self._board is not None:
            areas = [self._board.with_machine(used) for used in areas]
        clocks = self.clocks(variants, areas)
        return [
            Evaluation(
                variant,
                self._family,
                Step.estimated,
                {},
                area,
                clock.mhz,
                host_ms=self._host_ms_of(variant),
            )
            for variant, area, clock in zip(variants, areas, clocks, strict=True)
        ]

    def _host_ms_of(self, variant: Variant) -> dict[str, float]:
        """What the host takes for each network; 0 where it would have to compute too much."""
        able = Capabilities.of(variant)
        return {name: known.get(able, 0.0) for name, known in self._host_ms.items()}

    def _counted_with(self, base: Evaluation, counts: Counts | None) -> Evaluation | None:
        return None if counts is None else replace(self._with(base, counts), step=Step.counted)

    def _variant(self, point: Point) -> Variant:
        variant = self._space.variant(point)
        assert variant is not None, "only points that are variants are evaluated"
        return variant


def _machine(variant: Variant) -> str:
    """Equal for variants that run the same programs in the same cycles."""
    return _same_programs(variant).fingerprint


def _same_programs(variant: Variant) -> Variant:
    """One variant for all that run the same programs in the same cycles.

    The latency of the multipliers counts, not their style. A machine with counters writes marks.
    """
    other = variant.replace(multiplier_style=MultiplierStyle.LUT.value)
    return other if gemm_lead_cycles(other) == gemm_lead_cycles(variant) else variant
