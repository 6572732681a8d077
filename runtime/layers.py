"""Per-layer profile of a one-launch program, from the marks that its instructions left.

A layer's cycles run from the previous layer's last STORE mark to its own, so that they sum to the
time of the last store. What each unit did for a layer runs from its mark of the previous layer to
its own.
"""

from dataclasses import dataclass
from typing import Any

from daedal.isa.artifact import Artifact, Layer
from daedal.isa.profile import Profile, UnitCounters
from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit

__all__ = ["LayerProfile", "layer_profiles"]

_UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)


@dataclass(frozen=True)
class LayerProfile:
    """One layer: cycles, and per unit its cycles by class and its work.

    `share` is the part of the array's multiplications per cycle that the layer reached.
    """

    layer: Layer
    cycles: int
    share: float
    products: int
    bytes_read: int
    bytes_written: int
    units: dict[Unit, UnitCounters]

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "tag": self.layer.tag,
            "name": self.layer.name,
            "op": self.layer.op,
            "macs": self.layer.macs,
            "cycles": self.cycles,
            "share": self.share,
            "products": self.products,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "units": {
                unit.name.lower(): {
                    **{kind.name.lower(): counters.classes[kind] for kind in CLASSES},
                    "work": counters.work,
                }
                for unit, counters in self.units.items()
            },
        }


def layer_profiles(artifact: Artifact, profile: Profile) -> list[LayerProfile]:
    """Profiles in the order of the layers; empty where the device leaves no marks."""
    if not profile.marks:
        return []
    variant = artifact.program.variant
    nothing = UnitCounters(dict.fromkeys(CLASSES, 0), 0)
    last = dict.fromkeys(_UNITS, nothing)
    last_cycle = 0
    result = []
    for layer in artifact.layers:
        marks = {mark.unit: mark for mark in profile.marks if mark.tag == layer.tag}
        if Unit.STORE not in marks:
            continue
        units = {}
        for unit in _UNITS:
            now = marks[unit].counters if unit in marks else last[unit]
            units[unit] = now.since(last[unit])
            last[unit] = now
        cycles = marks[Unit.STORE].cycle - last_cycle
        last_cycle = marks[Unit.STORE].cycle
        result.append(
            LayerProfile(
                layer=layer,
                cycles=cycles,
                share=layer.macs / (cycles * variant.macs_per_cycle) if cycles > 0 else 0.0,
                products=units[Unit.GEMM].work,
                bytes_read=units[Unit.LOAD].work * variant.bus_bytes,
                bytes_written=units[Unit.STORE].work * variant.bus_bytes,
                units=units,
            )
        )
    return result
