"""`compare`: variants side by side: cycles, area, clock and frames per second of the same networks.

The cycle model counts, area and clock come from the models of `daedal.codesign`: no synthesis.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from daedal.api import compile as compile_network
from daedal.codesign.area import area_model
from daedal.codesign.clock import Clock, clock_model
from daedal.codesign.counting import profile_artifact
from daedal.hw.synth.families import DEVICES, Family
from daedal.hw.synth.figures import frames_per_second
from daedal.isa.artifact import Artifact, Placement
from daedal.isa.errors import ModelError, ScheduleError, first_line
from daedal.isa.variant import Variant

__all__ = ["ComparedNetwork", "ComparedVariant", "compare"]

_CONVERSIONS = ("DequantizeLinear", "QuantizeLinear")


@dataclass(frozen=True)
class ComparedNetwork:
    """A network on a variant.

    Attributes
    ----------
    cycles : of the accelerator for one image; None where it does not compile, with the `reason`.
    bounds : share of the cycles in layers that each unit bounds.
    on_host : the model's operators that the host computes, at no cycles; conversions between
        numbers aside.
    """

    cycles: int | None
    bounds: Mapping[str, float]
    reason: str = ""
    on_host: tuple[Placement, ...] = ()


@dataclass(frozen=True)
class ComparedVariant:
    """A variant with all networks; `resources` and `clock` are estimates."""

    variant: Variant
    family: Family
    resources: Mapping[str, float]
    clock: Clock
    networks: Mapping[str, ComparedNetwork]

    @property
    def shares(self) -> dict[str, float]:
        """Share of the device's resources that it takes."""
        device = DEVICES[self.family]
        return {name: used / getattr(device, name) for name, used in self.resources.items()}

    @property
    def fits(self) -> bool:
        """Whether the device has all that it takes, by the estimate."""
        return max(self.shares.values()) <= 1

    def frames(self, network: str) -> tuple[float, float, float] | None:
        """Images per second: expected, and with the lowest and the highest clock of the interval;
        None where the network does not compile."""
        cycles = self.networks[network].cycles
        found = [
            frames_per_second(cycles, mhz)
            for mhz in (self.clock.mhz, self.clock.low, self.clock.high)
        ]
        expected, low, high = found
        if expected is None or low is None or high is None:
            return None
        return expected, low, high


def compare(
    variants: Sequence[Variant],
    models: Mapping[str, bytes],
    family: Family,
    *,
    memory: str = "ddr",
    report: Callable[[str], None] | None = None,
) -> list[ComparedVariant]:
    """Compile `models` for each of the variants, count their cycles, and estimate the hardware.

    Raises ExploreError for a family of which areas or clocks are not known.
    """
    say = report or (lambda _sentence: None)
    areas = area_model(family)(variants)
    clocks = clock_model(family)(variants, areas)
    found = []
    for variant, area, clock in zip(variants, areas, clocks, strict=True):
        networks = {}
        for name, model in models.items():
            say(f"{variant.name}: {name}")
            networks[name] = _network(model, variant, memory)
        found.append(ComparedVariant(variant, family, area, clock, networks))
    return found


def _network(model: bytes, variant: Variant, memory: str) -> ComparedNetwork:
    try:
        artifact = compile_network(model, variant.replace(counters=True))
    except (ModelError, ScheduleError) as error:
        return ComparedNetwork(None, {}, first_line(error))
    profile = profile_artifact(artifact, memory)
    bounds: Counter[str] = Counter()
    for layer in profile.layers:
        bounds[layer.bound.value] += layer.cycles
    total = sum(bounds.values()) or 1
    shares = {name: cycles / total for name, cycles in bounds.most_common()}
    return ComparedNetwork(profile.cycles, shares, on_host=_on_host(artifact))


def _on_host(artifact: Artifact) -> tuple[Placement, ...]:
    return tuple(
        item for item in artifact.placements if item.where == "host" and item.op not in _CONVERSIONS
    )
