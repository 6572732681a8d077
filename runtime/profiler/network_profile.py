"""`NetworkProfile`: one run of a compiled network, by layer; the basis of all profiler views.

Input: an artifact and the device's `Profile` of each launch. Output: a document that is saved as
JSON and read back. Derived values (bounds, shares) are written for other tools, and recomputed when
the file is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.common.markdown import markdown_table
from daedal.isa.profile import Profile, UnitCounters
from daedal.isa.registers import COUNTER_BITS
from daedal.isa.table import Unit
from daedal.isa.variant import Variant
from daedal.runtime.layers import LayerProfile, layer_profiles
from daedal.runtime.profiler.timeline import Timeline

__all__ = ["FORMAT", "Conditions", "NetworkProfile", "network_profile"]

FORMAT = "daedal profile 3"


@dataclass(frozen=True)
class Conditions:
    """Conditions of a measurement: machine, memory model, device, and the peak rates."""

    variant: str
    fingerprint: str
    macs_per_cycle: int
    bus_bytes: int
    device: str
    memory: str

    @classmethod
    def of(cls, variant: Variant, device: str, memory: str) -> "Conditions":
        """Conditions of a run on `variant`."""
        return cls(
            variant.name,
            variant.fingerprint,
            variant.macs_per_cycle,
            variant.bus_bytes,
            device,
            memory,
        )


@dataclass(frozen=True, repr=False)
class NetworkProfile:
    """The launches of a run, from the machine's own counters and marks.

    Attributes
    ----------
    name : of what was profiled, for titles.
    cycles : from start to interrupt, of all launches.
    beats_read, beats_written : bus words: LOAD's and STORE's, those of instructions
        and of marks.
    units : per unit its cycles by class; they sum to `cycles`.
    layers : in order; their cycles sum to the last store.
    timeline : every instruction of a second run in which all were marked, where one was made.
    """

    name: str
    conditions: Conditions
    cycles: int
    beats_read: int
    beats_written: int
    units: Mapping[Unit, UnitCounters]
    layers: tuple[LayerProfile, ...]
    timeline: Timeline | None = None

    def __repr__(self) -> str:
        where = self.conditions
        return (
            f"<NetworkProfile {self.name!r} on {where.variant}, {where.device} with memory "
            f"{where.memory}: {len(self.layers)} layers, {self.cycles:,} cycles>"
        )

    def _repr_markdown_(self) -> str:
        """What notebooks show: a row for each layer."""
        head = ["layer", "operator", "bound by", "cycles", "roofline", "of roof", "MACs per byte"]
        rows = [
            (
                item.layer.name,
                item.layer.op,
                item.bound.value,
                f"{item.cycles:,}",
                f"{item.roofline_cycles:,.0f}",
                f"{item.roofline_share:.1%}",
                f"{item.reuse:.1f}",
            )
            for item in self.layers
        ]
        return f"`{self!r}`\n\n{markdown_table(head, rows)}"

    @property
    def tail_cycles(self) -> int:
        """From the last store to the interrupt."""
        return self.cycles - sum(layer.cycles for layer in self.layers)

    @property
    def roofline_cycles(self) -> float:
        """Sum of the layers' rooflines."""
        return sum(layer.roofline_cycles for layer in self.layers)

    @property
    def roofline_share(self) -> float:
        """Part of all cycles that the layers' rooflines are, each at most its layer's cycles."""
        bounded = sum(layer.roofline_share * layer.cycles for layer in self.layers)
        return bounded / self.cycles if self.cycles else 0.0

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(layer.layer.macs for layer in self.layers)

    @property
    def padding_macs(self) -> int:
        """How many of `macs` multiply padding."""
        return sum(layer.layer.padding_macs for layer in self.layers)

    @property
    def share(self) -> float:
        """Multiplications relative to the array's peak over all cycles."""
        needed = self.macs - self.padding_macs
        return needed / self.conditions.macs_per_cycle / self.cycles if self.cycles else 0.0

    def with_timeline(self, timeline: Timeline) -> "NetworkProfile":
        """The same with a timeline."""
        return replace(self, timeline=timeline)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `read_profile` turns it back."""
        return {
            "format": FORMAT,
            "name": self.name,
            "conditions": asdict(self.conditions),
            "cycles": self.cycles,
            "tail_cycles": self.tail_cycles,
            "macs": self.macs,
            "padding_macs": self.padding_macs,
            "share": self.share,
            "roofline_cycles": self.roofline_cycles,
            "roofline_share": self.roofline_share,
            "beats_read": self.beats_read,
            "beats_written": self.beats_written,
            "units": {unit.name.lower(): item.to_json() for unit, item in self.units.items()},
            "layers": [layer.to_json() for layer in self.layers],
            "timeline": None if self.timeline is None else self.timeline.to_json(),
        }


def network_profile(
    artifact: Artifact, launches: Sequence[Profile], *, memory: str, name: str = ""
) -> NetworkProfile:
    """Join what the compiler knows of the layers with what the device counted in each launch.

    `memory` names the memory model behind the bus.

    Raises
    ------
    UserError
        The device has no notion of time, left no marks, or its counters wrapped.
    """
    total = Profile.total(launches)
    if total.cycles is None:
        raise UserError(
            f"a profile needs a device that counts cycles, not {total.device!r}; choose rtl"
        )
    _check_counters(launches)
    layers: list[LayerProfile] = []
    num_layers = 0
    for launch, counted in zip(artifact.launches, launches, strict=True):
        for item in layer_profiles(launch, counted):
            # Make tags unique among all launches; the places of results are not needed.
            layer = replace(item.layer, tag=num_layers + item.layer.tag, result=None, costs=())
            layers.append(replace(item, layer=layer))
        num_layers += len(launch.layers)
    if not layers:
        raise UserError(
            "a profile needs a machine with counters and marks, not variant "
            f"{artifact.variant.name!r}; compile for one with units.counters = true"
        )
    return NetworkProfile(
        name=name,
        conditions=Conditions.of(artifact.variant, total.device, memory),
        cycles=total.cycles,
        beats_read=total.beats_read,
        beats_written=total.beats_written,
        units=dict(total.units),
        layers=tuple(_numbered(layers)),
    )


def _check_counters(launches: Sequence[Profile]) -> None:
    """Raise UserError where a device left out the counters of a launch, as they had wrapped."""
    most = 1 << COUNTER_BITS
    for number, item in enumerate(launches, start=1):
        if not item.units and item.cycles is not None and item.cycles >= most:
            raise UserError(
                f"a profile needs launches of fewer than {most:,} cycles, at which the counters of "
                f"the {item.device} device wrap; launch {number} took {item.cycles:,}: profile a "
                "smaller network, or choose timing"
            )


def _numbered(layers: Sequence[LayerProfile]) -> list[LayerProfile]:
    """Tags count through all launches."""
    return [replace(item, layer=replace(item.layer, tag=tag)) for tag, item in enumerate(layers)]
