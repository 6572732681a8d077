"""The public function `compare`: variants side by side on the same networks.

>>> tiny, mine = daedal.compare(["tiny", "mine.toml"], "digits_qdq.onnx")
>>> tiny.networks["digits_qdq"].cycles, tiny.shares["lut"], tiny.clock.mhz

The cycle model counts, area and clock come from the models of `daedal.codesign`: no synthesis.
Place and route adds its clocks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daedal.api import compile as compile_network
from daedal.artifact.artifact import Placement
from daedal.codesign.cycles.counting import profile_artifact
from daedal.codesign.cycles.energy import Energy, switched_energy
from daedal.codesign.cycles.host_shares import placed_on_host
from daedal.codesign.cycles.work import Work
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import Clock, clock_model
from daedal.codesign.networks import Models, named_models
from daedal.codesign.results.verify import implemented, require_implementation
from daedal.common.errors import ExploreError, ModelError, ScheduleError, first_line
from daedal.common.reporting import log
from daedal.compiler.targets.crossings import HostRates
from daedal.host.rates import MEASURED, AnyHostRates, load_host_rates
from daedal.host.time import host_seconds, items_of
from daedal.hw.synth.families import DEVICES, Family, Target, find_target
from daedal.hw.synth.flow import PLACED, Implementation
from daedal.isa.memory_file import AnyMemory, load_memory
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["ComparedNetwork", "ComparedVariant", "compare", "require_routing", "routed"]

Implement = Callable[[Variant, str, Family, Callable[[str], None]], Implementation]


@dataclass(frozen=True)
class ComparedNetwork:
    """A network on a variant.

    Attributes
    ----------
    cycles : of the accelerator for one run; None where it does not compile, with the `reason`.
    host_ms : of the host for one run: launches, moving tensors, and its parts of the model.
    items : images that one run takes.
    bounds : share of the cycles in layers that each unit bounds.
    energy : of one image, relative; None where it does not compile.
    on_host : the model's operators that the host computes; conversions between numbers aside.
    """

    cycles: int | None
    bounds: Mapping[str, float]
    reason: str = ""
    energy: Energy | None = None
    on_host: tuple[Placement, ...] = ()
    host_ms: float = 0.0
    items: int = 1

    def latency_ms(self, mhz: float | None) -> float | None:
        """Of one run, accelerator and host one after the other; None where it does not compile, or
        without a clock."""
        if self.cycles is None or mhz is None:
            return None
        return self.cycles / mhz / 1e3 + self.host_ms

    def frames(self, mhz: float | None) -> float | None:
        """Images per second, one run after the other; None as `latency_ms`."""
        latency = self.latency_ms(mhz)
        return None if latency is None else 1e3 * self.items / latency


@dataclass(frozen=True, repr=False)
class ComparedVariant:
    """A variant with all networks.

    Attributes
    ----------
    resources, clock : estimates.
    implementation : synthesized and routed; None where that was not asked for.
    """

    variant: Variant
    family: Family
    resources: Mapping[str, float]
    clock: Clock
    networks: Mapping[str, ComparedNetwork]
    implementation: Implementation | None = None

    def __repr__(self) -> str:
        networks = ", ".join(
            f"{name} {'does not compile' if item.cycles is None else f'{item.cycles:,} cycles'}"
            for name, item in self.networks.items()
        )
        return f"<ComparedVariant {self.variant.name}: {self.clock.mhz:.0f} MHz, {networks}>"

    @property
    def shares(self) -> dict[str, float]:
        """Share of the device's resources that it takes."""
        device = DEVICES[self.family]
        return {name: used / getattr(device, name) for name, used in self.resources.items()}

    @property
    def fits(self) -> bool:
        """Whether the device has all that it takes, by the estimate if it was not synthesized."""
        if self.implementation is not None:
            return not self.implementation.shortfalls
        return max(self.shares.values()) <= 1

    @property
    def routed_mhz(self) -> float | None:
        """Fmax with one seed, out of context; None where nothing was routed."""
        routed = None if self.implementation is None else self.implementation.best
        return None if routed is None else routed.slowest_mhz

    def routed_frames(self, network: str) -> float | None:
        """Images per second with the routed clock; None where one of both is missing."""
        return self.networks[network].frames(self.routed_mhz)

    def frames(self, network: str) -> tuple[float, float, float] | None:
        """Images per second: expected, and with the lowest and the highest clock of the interval;
        None where the network does not compile."""
        expected, low, high = (
            self.networks[network].frames(mhz)
            for mhz in (self.clock.mhz, self.clock.low, self.clock.high)
        )
        if expected is None or low is None or high is None:
            return None
        return expected, low, high


def compare(
    variants: Variant | str | Path | Sequence[Variant | str | Path],
    models: Models,
    *,
    fpga: str = Target.ecp5_85f,
    memory: AnyMemory = "ddr",
    host: AnyHostRates = MEASURED,
    route: bool = False,
    report: Callable[[str], None] | None = None,
) -> list[ComparedVariant]:
    """Compile models for each of the variants, count their cycles, and estimate the hardware.

    `variants` are names, .toml files or `Variant`; `models` int8 QDQ ONNX files, which are known by
    their names without the suffix, or models by name. `fpga` is the device, as for
    `daedal.synth`. `host` has the host's rates, which are part of every latency, as for
    `daedal.load_host_rates`. With `route`, each variant is synthesized and routed with one seed,
    too, in minutes the first time; answers are kept, so that an interrupted call goes on. `report`
    is called with a sentence before each long step.

    Returns a `ComparedVariant` for each variant, with its networks by name.

    Raises ExploreError for a device of which areas or clocks are not known, and for files with one
    name; ModelError, VariantError and UserError for what cannot be read; ToolError where `route`
    lacks a tool.
    """
    family = find_target(fpga).family
    if isinstance(variants, Variant | str | Path):
        variants = [variants]
    chosen = [item if isinstance(item, Variant) else load_variant(item) for item in variants]
    behind = load_memory(memory)
    networks = named_models(models)
    if route:
        require_routing(family)
    rates = load_host_rates(host)
    found = _estimated(chosen, networks, family, behind, rates, report or log)
    return list(routed(found, report=report)) if route else found


def _estimated(
    variants: Sequence[Variant],
    models: Mapping[str, bytes],
    family: Family,
    memory: MemoryModel,
    rates: HostRates,
    say: Callable[[str], None],
) -> list[ComparedVariant]:
    """All that needs no tools."""
    model_of_areas = area_model(family)
    areas = model_of_areas(variants)
    clocks = clock_model(family)(variants, areas)
    found = []
    for variant, area, clock in zip(variants, areas, clocks, strict=True):
        networks = {}
        parts = model_of_areas.by_part(variant)
        for name, model in models.items():
            say(f"counting {name}: on {variant.name}")
            networks[name] = _network(model, variant, memory, parts, rates)
        found.append(ComparedVariant(variant, family, area, clock, networks))
    return found


def routed(
    found: Sequence[ComparedVariant],
    *,
    report: Callable[[str], None] | None = None,
    implement: Implement | None = None,
) -> Iterator[ComparedVariant]:
    """The same, synthesized and routed with one seed; each as soon as it is known.

    Takes minutes each the first time. Answers are kept with those of `daedal synth`, so that an
    interrupted call goes on.

    Parameters
    ----------
    implement : what synthesizes and routes; tests replace it.

    Raises
    ------
    ToolError
        A tool failed.
    """
    for item in found:
        name = item.variant.name

        def say(said: str, step: str = f"synthesizing {name}") -> None:
            if report is not None:
                report(f"{step}, {said}")

        verilog = kept_verilog(item.variant, default_cache_dir(), say, family=item.family)
        made = (implement or implemented)(item.variant, verilog, item.family, say)
        yield replace(item, implementation=made)


def require_routing(family: Family) -> None:
    """Raise unless variants can be routed.

    Raises
    ------
    ExploreError
        The family has no open place and route.
    ToolError
        A tool is missing.
    """
    if family not in PLACED:
        known = ", ".join(sorted(item.value for item in PLACED))
        raise ExploreError(
            f"clocks are routed of family {known}, not of {family.value}, which has no open place "
            "and route; leave --route out"
        )
    require_implementation(family, "place and route")


def _network(
    model: bytes,
    variant: Variant,
    memory: MemoryModel,
    parts: Mapping[str, Mapping[str, float]],
    rates: HostRates,
) -> ComparedNetwork:
    try:
        artifact = compile_network(model, variant, cpu_levels=())
    except (ModelError, ScheduleError) as error:
        return ComparedNetwork(None, {}, first_line(error))
    profile = profile_artifact(artifact, memory)
    bounds: Counter[str] = Counter()
    for layer in profile.layers:
        bounds[layer.bound.value] += layer.cycles
    total = sum(bounds.values()) or 1
    shares = {name: cycles / total for name, cycles in bounds.most_common()}
    items = items_of(artifact)
    return ComparedNetwork(
        profile.cycles,
        shares,
        energy=switched_energy(Work.of(profile), profile.cycles, parts, variant).of_each(items),
        on_host=placed_on_host(artifact),
        host_ms=1e3 * host_seconds(artifact, rates),
        items=items,
    )
