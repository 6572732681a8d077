"""Launches made by hand: an artifact, and what a machine could have counted while it ran."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daedal.artifact.artifact import Artifact, Launch, Layer
from daedal.isa.instruction import Instruction
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.network_profile import NetworkProfile, network_profile
from daedal.runtime.profiler.timeline import timeline

__all__ = ["MadeLaunch", "counters", "random_launch"]

TINY = load_variant("tiny")
_OPCODES = {
    Unit.LOAD: Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, blocks=1, rows=1, cols=2),
    Unit.GEMM: Instruction.of(Opcode.GEMM),
    Unit.ALU: Instruction.of(Opcode.ALU),
    Unit.STORE: Instruction.of(Opcode.STORE, blocks=1, rows=1, cols=1),
}


def counters(work: int = 0, **classes: int) -> UnitCounters:
    """Counters with the classes given by their names in lower case, the others 0."""
    return UnitCounters({kind: classes.get(kind.name.lower(), 0) for kind in CLASSES}, work)


@dataclass(frozen=True)
class MadeLaunch:
    """An artifact; the profiles of a plain run and of one in which all was marked."""

    artifact: Artifact
    plain: Profile
    marked: Profile

    def profile(self, name: str = "made", *, with_timeline: bool = True) -> NetworkProfile:
        """What the profiler makes of it."""
        result = network_profile(self.artifact, [self.plain], memory="ddr", name=name)
        if not with_timeline:
            return result
        return result.with_timeline(timeline(self.artifact.program, self.marked))


def random_launch(
    rng: np.random.Generator, *, names: Sequence[str] | None = None, num_layers: int = 4
) -> MadeLaunch:
    """Layers of a few instructions each; every unit does something else in every one.

    A unit other than STORE may have none in a layer. Both runs take the same cycles.
    """
    names = names if names is not None else [f"layer{number}" for number in range(num_layers)]
    instructions: list[Instruction] = []
    for tag in range(len(names)):
        for unit in LAYER_UNITS:
            count = int(rng.integers(1 if unit is Unit.STORE else 0, 4))
            plain = [_OPCODES[unit]] * count
            instructions += plain[:-1]
            instructions += [item.replace(mark=1, tag=tag) for item in plain[-1:]]
    instructions.append(Instruction.of(Opcode.FINISH))
    records = []
    totals = {unit: counters() for unit in Unit}
    for number, item in enumerate(instructions[:-1]):
        totals[item.unit] = _sum(totals[item.unit], _random_counters(rng, item.unit))
        cycle = totals[item.unit].cycles
        records.append(MarkRecord(item.tag, item.unit, number, cycle, totals[item.unit]))
    cycles = max(item.cycles for item in totals.values()) + int(rng.integers(0, 50))
    units = {unit: _sum(item, counters(idle=cycles - item.cycles)) for unit, item in totals.items()}
    layers = tuple(
        Layer(tag, name, "q_conv2d", int(rng.integers(0, 9000)), name, int(rng.integers(1, 900)))
        for tag, name in enumerate(names)
    )
    chosen = [mark for mark in records if instructions[mark.instruction].mark]
    launch = Launch(Program(TINY, tuple(instructions)), (), (), layers)
    artifact = Artifact.of_launch(launch)
    beats = {"beats_read": 900, "beats_written": 90}
    plain_run = Profile("made", cycles, units=units, marks=tuple(chosen), **beats)
    return MadeLaunch(
        artifact, plain_run, Profile("made", cycles, units=units, marks=tuple(records), **beats)
    )


def _random_counters(rng: np.random.Generator, unit: Unit) -> UnitCounters:
    """Cycles in all classes but waits for itself; at least one is BUSY."""
    own = CycleClass[f"WAIT_{unit.name}"]
    classes = {kind: int(rng.integers(0, 40)) for kind in CLASSES if rng.random() < 0.6}
    classes |= {own: 0, CycleClass.BUSY: int(rng.integers(1, 60))}
    return UnitCounters({kind: classes.get(kind, 0) for kind in CLASSES}, int(rng.integers(0, 60)))


def _sum(first: UnitCounters, second: UnitCounters) -> UnitCounters:
    classes = {kind: first.classes[kind] + second.classes[kind] for kind in CLASSES}
    return UnitCounters(classes, first.work + second.work)
