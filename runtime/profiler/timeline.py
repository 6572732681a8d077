"""`Timeline`: when each unit worked on each instruction, from a run in which all are marked.

Input: a program (`mark_all` marks every instruction) and the mark records of its run. Output: an
`Interval` per instruction: from the retirement of the unit's previous instruction to its own, with
the unit's cycles by class. The numbers of cycles are exact. Their order inside an interval is not
recorded; they are drawn as idle, waits, stall, busy.

Each mark is a 64-byte record that shares the bus with the program on RTL, so a marked run is longer
than the original one; compare `Timeline.cycles`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from daedal.isa.instruction import Instruction
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import AluOp, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.runtime.layers import LAYER_UNITS, layer_tags

__all__ = ["Interval", "LayerSpan", "Timeline", "mark_all", "timeline"]

DRAWN = (
    CycleClass.IDLE,
    CycleClass.WAIT_LOAD,
    CycleClass.WAIT_GEMM,
    CycleClass.WAIT_ALU,
    CycleClass.WAIT_STORE,
    CycleClass.STALL,
    CycleClass.BUSY,
)
"""Order in which the classes of an interval are drawn."""


@dataclass(frozen=True)
class Interval:
    """Activity of `unit` from its previous retirement to that of `instruction`.

    `tag` is its layer's; None after the last layer. `begin` and `end` are cycles; the classes of
    `counters` sum to the cycles between them.
    """

    unit: Unit
    instruction: int
    tag: int | None
    label: str
    begin: int
    counters: UnitCounters

    @property
    def end(self) -> int:
        """Cycle of its retirement."""
        return self.begin + self.counters.cycles

    def spans(self) -> Iterator[tuple[CycleClass, int, int]]:
        """Classes that occur, each with first cycle and end, in the order of `DRAWN`."""
        at = self.begin
        for kind in DRAWN:
            cycles = self.counters.classes[kind]
            if cycles:
                yield kind, at, at + cycles
            at += cycles

    @property
    def work_begin(self) -> int:
        """Cycle where STALL and BUSY begin as drawn: the unit executes the instruction."""
        working = self.counters.classes[CycleClass.STALL] + self.counters.classes[CycleClass.BUSY]
        return self.end - working


@dataclass(frozen=True)
class LayerSpan:
    """A layer's cycles in a timeline: from the last store of the layer before to its own."""

    tag: int
    begin: int
    end: int


@dataclass(frozen=True)
class Timeline:
    """All intervals, by unit and time; `cycles` are those of the fully marked run."""

    cycles: int
    intervals: tuple[Interval, ...]

    def lane(self, unit: Unit) -> tuple[Interval, ...]:
        """Intervals of one unit in order of time. Within a launch there is no gap between them."""
        return tuple(item for item in self.intervals if item.unit is unit)

    def layer_spans(self) -> tuple[LayerSpan, ...]:
        """Layers in order of time, without gaps."""
        last: dict[int, int] = {}
        for item in self.lane(Unit.STORE):
            if item.tag is not None:
                last[item.tag] = item.end
        spans = []
        begin = 0
        for tag, end in sorted(last.items(), key=lambda pair: pair[1]):
            spans.append(LayerSpan(tag, begin, end))
            begin = end
        return tuple(spans)

    def followed_by(
        self, later: "Timeline", *, num_layers: int, num_instructions: int
    ) -> "Timeline":
        """This timeline followed by that of a later launch.

        `num_layers` and `num_instructions` are the totals of the launches so far; the later
        launch's tags and instructions are renumbered from there.
        """
        moved = (
            replace(
                item,
                instruction=num_instructions + item.instruction,
                tag=None if item.tag is None else num_layers + item.tag,
                begin=self.cycles + item.begin,
            )
            for item in later.intervals
        )
        return Timeline(self.cycles + later.cycles, (*self.intervals, *moved))

    def to_json(self) -> dict[str, Any]:
        """Plain data: a row for each interval, in the order of `columns`."""
        return {
            "cycles": self.cycles,
            "columns": [
                *("unit", "instruction", "tag", "label", "begin"),
                *(kind.name.lower() for kind in CLASSES),
                "work",
            ],
            "rows": [
                [
                    item.unit.name.lower(),
                    item.instruction,
                    item.tag,
                    item.label,
                    item.begin,
                    *(item.counters.classes[kind] for kind in CLASSES),
                    item.counters.work,
                ]
                for item in self.intervals
            ],
        }


def mark_all(program: Program) -> Program:
    """The program with a mark on every instruction of LOAD, GEMM, ALU and STORE."""
    instructions = tuple(
        item.replace(mark=1, tag=tag or 0) if item.unit in LAYER_UNITS else item
        for item, tag in zip(program.instructions, layer_tags(program), strict=True)
    )
    return replace(program, instructions=instructions)


def timeline(program: Program, profile: Profile) -> Timeline:
    """Intervals from the marks that `mark_all(program)` left in `profile`."""
    assert profile.cycles is not None, "marks come from a device that counts cycles"
    tags = layer_tags(program)
    intervals = []
    for unit in LAYER_UNITS:
        before = UnitCounters(dict.fromkeys(CLASSES, 0), 0)
        for mark in _in_order(profile.marks, unit):
            spent = mark.counters.since(before)
            intervals.append(
                Interval(
                    unit,
                    mark.instruction,
                    tags[mark.instruction],
                    _label(program.instructions[mark.instruction]),
                    mark.cycle - spent.cycles,
                    spent,
                )
            )
            before = mark.counters
    return Timeline(profile.cycles, tuple(intervals))


def _in_order(marks: Sequence[MarkRecord], unit: Unit) -> list[MarkRecord]:
    return sorted((mark for mark in marks if mark.unit is unit), key=lambda mark: mark.instruction)


def _label(instruction: Instruction) -> str:
    """A short label: the operation and its object."""
    match instruction.opcode:
        case Opcode.LOAD:
            return f"LOAD {LoadMemory(instruction.memory).name}"
        case Opcode.GEMM:
            return f"GEMM {GemmMode(instruction.mode).name.lower()}"
        case Opcode.ALU:
            return f"ALU {AluOp(instruction.operation).name}"
        case Opcode.STORE:
            return f"STORE {OutMemory(instruction.memory).name}"
        case opcode:
            return str(opcode.name)
