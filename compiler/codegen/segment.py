"""`Segment`: the accelerator code of one layer, before placement.

Instructions are in sequential order. Scratchpad rows are relative to *instances*: each execution of
an allocation creates a new virtual buffer. Memory offsets are relative to named tensors. Micro-op
sequences are written out in each instruction. There are no tokens: `daedal.compiler.link` adds
whatever depends on several instructions.

Input: made by `daedal.compiler.codegen.accelerator`. Output: read by `daedal.compiler.link`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit

__all__ = [
    "Instance",
    "RowAccess",
    "Runs",
    "Segment",
    "SegmentInstruction",
    "UopSequence",
    "joined",
    "overlap",
    "relabeled",
    "renamed",
    "shared",
    "shifted",
]

UopSequence = tuple[tuple[int, ...], ...]
"""Micro-ops of one sequence: (acc, inp, wgt, first) for GEMM, (dst, src, par) for the ALU."""

Runs = tuple[tuple[int, int], ...]
"""Ranges ``[begin, end)``, at least one, in ascending order."""


@dataclass(frozen=True, eq=False)
class Instance:
    """A run of scratchpad rows, live from its first to its last use; compared by identity.

    Parameters
    ----------
    name : name of the buffer.
    thread : index of its virtual thread in each of the thread loops around it.
    copies : places that the schedule requests (`Schedule.double_buffer`); the linker may ignore it.
    """

    name: str
    memory: Memory
    rows: int
    thread: tuple[int, ...] = ()
    copies: int = 1


class RowAccess(NamedTuple):
    """Rows of an instance that an instruction touches.

    It is a named tuple for speed: a network has two hundred thousand of them. Many have dozens of
    runs of rows, which they share: those of a nest are the same whenever it is executed. `field` is
    the instruction field to which `scale` times the instance's first row is added.
    """

    instance: Instance
    field: str
    runs: Runs
    reads: bool = False
    writes: bool = False
    scale: int = 1

    @property
    def begin(self) -> int:
        """The first row."""
        return self.runs[0][0]

    @property
    def end(self) -> int:
        """One past the last row."""
        return self.runs[-1][1]


class SegmentInstruction(NamedTuple):
    """One instruction before placement.

    Parameters
    ----------
    template : fields relative to instances (rows) and to `tensor` (offset_beats).
    rows : every scratchpad row it touches, except its micro-ops.
    tensor : what a LOAD reads or a STORE writes.
    uops : the micro-op sequence of a GEMM or ALU instruction.
    """

    template: Instruction
    rows: tuple[RowAccess, ...]
    tensor: str | None = None
    uops: UopSequence | None = None

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return self.template.unit


@dataclass(frozen=True)
class Segment:
    """The code of one layer.

    Parameters
    ----------
    tensors : the size in bytes of every tensor that it uses.
    is_by_need : whether its LOADs come directly before what needs them already
        (`daedal.compiler.link.ordering.order`).
    is_move : whether it stores elements of its operand, and constants, as they are.
    """

    name: str
    instructions: tuple[SegmentInstruction, ...]
    tensors: Mapping[str, int] = field(default_factory=dict)
    is_by_need: bool = False
    is_move: bool = False

    @property
    def writes(self) -> frozenset[str]:
        """The tensors that some STORE writes."""
        return frozenset(
            item.tensor for item in self.instructions if item.unit is Unit.STORE and item.tensor
        )


def joined(segments: Sequence[Segment], name: str) -> Segment:
    """The segments of one layer concatenated into a segment called `name`."""
    tensors: dict[str, int] = {}
    for segment in segments:
        for tensor, size in segment.tensors.items():
            assert tensors.setdefault(tensor, size) == size, f"{tensor!r} has two sizes"
    instructions = tuple(item for segment in segments for item in segment.instructions)
    return Segment(name, instructions, tensors)


def overlap(some: Runs, others: Runs, distance: int = 0) -> bool:
    """Whether two accesses have a row in common; the second one's rows are `distance` further."""
    if some[0][0] >= others[-1][1] + distance or others[0][0] + distance >= some[-1][1]:
        return False
    return any(
        begin < stop + distance and start + distance < end
        for begin, end in some
        for start, stop in others
    )


@lru_cache(maxsize=1 << 12)
def shared(runs: Runs) -> Runs:
    """Equal runs as one object: the linker enters each object once."""
    return runs


def shifted(runs: Runs, offset: int) -> Runs:
    """The same ranges, `offset` further."""
    return tuple((begin + offset, end + offset) for begin, end in runs)


def renamed(item: SegmentInstruction, names: Mapping[Instance, Instance]) -> SegmentInstruction:
    """An instruction with other instances for those among `names`."""
    if not any(access.instance in names for access in item.rows):
        return item
    rows = tuple(
        access._replace(instance=names.get(access.instance, access.instance))
        for access in item.rows
    )
    return item._replace(rows=rows)


def relabeled(segment: Segment, name: str, tensors: Mapping[str, str]) -> Segment:
    """`segment` with another name and other names of its tensors, on the same instances.

    Both may be in one program. Where they are interleaved, the linker gives one of them instances
    of its own (`daedal.compiler.link.ordering.begin_early`).
    """
    return Segment(
        name,
        tuple(
            [
                item
                if item.tensor is None
                else SegmentInstruction(item.template, item.rows, tensors[item.tensor], item.uops)
                for item in segment.instructions
            ]
        ),
        {tensors[tensor]: size for tensor, size in segment.tensors.items()},
        segment.is_by_need,
    )
