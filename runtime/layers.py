"""Per-layer profile of a one-launch program, from the marks that its instructions left.

A layer's cycles are those from the previous layer's last STORE mark to its own, so they sum to the
time of the last store. A unit's counts for a layer run from its mark of another layer to its next
mark of this one, and may begin while the previous layer is still running. Interleaved layers
(`compiler.link.ordering.interleave`) have several such stretches. Bytes are those moved by the
layer's own instructions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daedal.artifact.artifact import Launch, Layer
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES
from daedal.isa.table import GemmMode, Opcode, Unit
from daedal.isa.transfer import transfer
from daedal.runtime.bound import Bound, find_bound, wait_chain

__all__ = ["LAYER_UNITS", "LayerProfile", "layer_cycles", "layer_profiles", "layer_tags"]

LAYER_UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
"""Units that work for a layer; FETCH serves all of them."""


@dataclass(frozen=True)
class LayerProfile:
    """One layer: cycles, and per unit its cycles by class and its work.

    Multiplications with padding do not count; the compiler omits them where it can.

    `macs_per_cycle` and `bus_bytes` (per cycle) are the machine's peak rates, `mode_macs_per_cycle`
    is its array's peak rate in the layer's mode: dense or depthwise. Layers overlap: one that
    started while the previous layer was still running may take fewer cycles than its roofline.
    """

    layer: Layer
    cycles: int
    macs_per_cycle: int
    mode_macs_per_cycle: int
    bus_bytes: int
    products: int
    bytes_read: int
    bytes_written: int
    units: Mapping[Unit, UnitCounters]

    @property
    def ideal_cycles(self) -> float:
        """Cycles of its multiplications at the array's peak rate in its mode."""
        return self.layer.needed_macs / self.mode_macs_per_cycle

    @property
    def bytes_needed(self) -> int:
        """Bytes that have to cross the bus: each once, or those that it moved if these are fewer,
        because operands or results stay on chip."""
        return min(self.layer.bytes_once, self.bytes_moved)

    @property
    def memory_cycles(self) -> float:
        """Cycles of the needed bytes on the bus."""
        return self.bytes_needed / self.bus_bytes

    @property
    def roofline_cycles(self) -> float:
        """The fewest cycles of array and bus: the longer of ideal and memory cycles."""
        return max(self.ideal_cycles, self.memory_cycles)

    @property
    def share(self) -> float:
        """Its multiplications relative to the array's peak in these cycles, or in the cycles of its
        products, if these are more because it began while the previous layer was still storing."""
        cycles = max(self.cycles, self.products)
        return self.layer.needed_macs / self.macs_per_cycle / cycles if cycles > 0 else 0.0

    @property
    def roofline_share(self) -> float:
        """Roofline over cycles: 1 if the array or the bus was busy in every cycle, or if the layer
        took fewer cycles because it worked while the previous layer was still storing."""
        return min(1.0, self.roofline_cycles / self.cycles) if self.cycles > 0 else 0.0

    @property
    def bytes_moved(self) -> int:
        """Bytes it read and wrote over the bus, without instructions and marks."""
        return self.bytes_read + self.bytes_written

    def words(self, unit: Unit) -> int:
        """Bus words that LOAD read or STORE wrote for it."""
        return (self.bytes_read if unit is Unit.LOAD else self.bytes_written) // self.bus_bytes

    @property
    def reuse(self) -> float:
        """Multiply-accumulates per byte moved."""
        return self.layer.needed_macs / self.bytes_moved if self.bytes_moved else 0.0

    @property
    def rate(self) -> float:
        """Multiply-accumulates per cycle of the layer, or per cycle of its roofline, if that is
        longer because it worked while the previous layer was still storing."""
        cycles = max(self.cycles, self.ideal_cycles, self.bytes_moved / self.bus_bytes)
        return self.layer.needed_macs / cycles if cycles > 0 else 0.0

    @property
    def traffic(self) -> float:
        """Bytes moved over bytes once: 1 if it moved nothing twice and no padding."""
        return self.bytes_moved / self.layer.bytes_once if self.layer.bytes_once else 0.0

    @property
    def bound(self) -> Bound:
        """What bounds it; `runtime.bound.find_bound` has the rule."""
        return find_bound(self.cycles, self.units, self.words(Unit.LOAD), self.words(Unit.STORE))

    @property
    def wait_chain(self) -> tuple[Unit, ...]:
        """The chain of waiting units; `runtime.bound.wait_chain` has the rule."""
        return wait_chain(self.units)

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "tag": self.layer.tag,
            "name": self.layer.name,
            "op": self.layer.op,
            "output": self.layer.output,
            "macs": self.layer.macs,
            "padding_macs": self.layer.padding_macs,
            "mode_macs_per_cycle": self.mode_macs_per_cycle,
            "cycles": self.cycles,
            "ideal_cycles": self.ideal_cycles,
            "memory_cycles": self.memory_cycles,
            "roofline_cycles": self.roofline_cycles,
            "share": self.share,
            "roofline_share": self.roofline_share,
            "bound": self.bound.value,
            "wait_chain": [unit.name.lower() for unit in self.wait_chain],
            "products": self.products,
            "bytes_once": self.layer.bytes_once,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "reuse": self.reuse,
            "units": {unit.name.lower(): item.to_json() for unit, item in self.units.items()},
        }


def layer_tags(program: Program) -> list[int | None]:
    """Layer of every instruction: the tag of its unit's next mark; None where no mark follows."""
    following: dict[Unit, int | None] = {}
    tags: list[int | None] = []
    for item in reversed(program.instructions):
        if item.mark:
            following[item.unit] = item.tag
        tags.append(following.get(item.unit))
    return tags[::-1]


def layer_profiles(launch: Launch, profile: Profile) -> list[LayerProfile]:
    """Profiles in the order of the layers; empty where the device leaves no marks."""
    if not profile.marks:
        return []
    variant, program = launch.program.variant, launch.program.repeated
    counters, cycles = _counters(profile.marks), layer_cycles(profile.marks)
    moved, rates = _bytes_moved(program), _mode_rates(program)
    return [
        LayerProfile(
            layer=layer,
            cycles=cycles[layer.tag],
            macs_per_cycle=variant.macs_per_cycle,
            mode_macs_per_cycle=rates.get(layer.tag, variant.macs_per_cycle),
            bus_bytes=variant.bus_bytes,
            products=counters[layer.tag][Unit.GEMM].work,
            bytes_read=moved[layer.tag, Unit.LOAD],
            bytes_written=moved[layer.tag, Unit.STORE],
            units=counters[layer.tag],
        )
        for layer in launch.layers
        if layer.tag in cycles
    ]


def _counters(marks: Sequence[MarkRecord]) -> dict[int, dict[Unit, UnitCounters]]:
    """Counts of every unit for each layer: the differences of a unit's successive marks."""
    nothing = UnitCounters(dict.fromkeys(CLASSES, 0), 0)
    last = dict.fromkeys(LAYER_UNITS, nothing)
    found: dict[int, dict[Unit, UnitCounters]] = {}
    for mark in marks:
        if mark.unit in last:
            own = found.setdefault(mark.tag, dict.fromkeys(LAYER_UNITS, nothing))
            own[mark.unit] = own[mark.unit].plus(mark.counters.since(last[mark.unit]))
            last[mark.unit] = mark.counters
    return found


def layer_cycles(marks: Sequence[MarkRecord]) -> dict[int, int]:
    """Cycles of each layer by its tag, from the last STORE of the layer that ended before it."""
    ends = {mark.tag: mark.cycle for mark in marks if mark.unit is Unit.STORE}
    found, before = {}, 0
    for tag, end in sorted(ends.items(), key=lambda item: item[1]):
        found[tag], before = end - before, end
    return found


def _mode_rates(program: Program) -> dict[int | None, int]:
    """Multiply-accumulates per cycle of the fastest GEMM mode that a layer uses."""
    array = program.variant.array
    rates: dict[int | None, int] = {}
    for item, tag in zip(program.instructions, layer_tags(program), strict=True):
        if item.opcode is Opcode.GEMM:
            taps = GemmMode(item.mode).taps
            rate = array.batch * array.block_out * (taps or array.block_in)
            rates[tag] = max(rate, rates.get(tag, 0))
    return rates


def _bytes_moved(program: Program) -> Counter[tuple[int | None, Unit]]:
    """Bytes that LOAD and STORE move, by layer.

    The units' own counters cannot attribute them: words of the next layer cross the bus before the
    last instruction of this one retires.
    """
    moved: Counter[tuple[int | None, Unit]] = Counter()
    for item, tag in zip(program.instructions, layer_tags(program), strict=True):
        if item.opcode in (Opcode.LOAD, Opcode.STORE):
            rows = transfer(program.variant, item)
            moved[tag, item.unit] += len(rows.rows) * rows.row_bytes
    return moved
