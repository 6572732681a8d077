"""A `Segment` as bytes, and back: what `daedal.compiler.layers.segment_store` keeps on disk.

The file holds JSON (names, and how long each table is) and tables of 64-bit integers, compressed
(`codegen.packed_file`). What is equal in many instructions is written once: the names of fields,
micro-op sequences, runs of rows.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from daedal.common.errors import ArtifactError
from daedal.compiler.codegen.packed_file import damage_refused, packed, unpacked
from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    Runs,
    Segment,
    SegmentInstruction,
    UopSequence,
)
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode

__all__ = ["segment_from", "segment_to_bytes"]

_WHAT = "a segment"
_NOTHING = -1
_MEMORIES = tuple(Memory)
_TABLES = ("shapes", "values", "counts", "accesses", "tensors", "uops", "sequences", "runs")

T = TypeVar("T", bound=Hashable)


def segment_to_bytes(segment: Segment) -> bytes:
    """The bytes of `segment`; `segment_from` reads them."""
    shapes: dict[tuple[int, tuple[str, ...]], int] = {}
    instances: dict[Instance, int] = {}
    fields: dict[str, int] = {}
    names: dict[str, int] = dict(zip(segment.tensors, itertools.count(), strict=False))
    uops: dict[UopSequence, int] = {}
    runs: dict[Runs, int] = {}
    tables: dict[str, list[int]] = {name: [] for name in _TABLES}
    for item in segment.instructions:
        template = item.template
        shape = int(template.opcode), tuple(template.values)
        tables["shapes"].append(_number(shapes, shape))
        tables["values"] += template.values.values()
        tables["counts"].append(len(item.rows))
        for instance, field, touched, reads, writes, scale in item.rows:
            tables["accesses"] += (
                _number(instances, instance),
                _number(fields, field),
                _number(runs, touched),
                reads,
                writes,
                scale,
            )
        tables["tensors"].append(_NOTHING if item.tensor is None else names[item.tensor])
        tables["uops"].append(_NOTHING if item.uops is None else _number(uops, item.uops))
    for sequence in uops:
        tables["sequences"] += itertools.chain.from_iterable(sequence)
    for touched in runs:
        tables["runs"] += itertools.chain.from_iterable(touched)
    head = {
        "name": segment.name,
        "tensors": dict(segment.tensors),
        "is_by_need": segment.is_by_need,
        "shapes": list(shapes),
        "fields": list(fields),
        "instances": [
            (item.name, _MEMORIES.index(item.memory), item.rows, item.thread, item.copies)
            for item in instances
        ],
        "sequences": [(len(item), len(item[0]) if item else 0) for item in uops],
        "runs": [len(item) for item in runs],
        "lengths": [len(tables[name]) for name in _TABLES],
    }
    numbers = np.array(list(itertools.chain.from_iterable(tables.values())), dtype="<i8")
    return packed(head, numbers.tobytes())


def segment_from(data: bytes) -> Segment:
    """The segment that `segment_to_bytes` wrote. Raises ArtifactError for anything else."""
    with damage_refused(_WHAT):
        head, body = unpacked(data, _WHAT)
        numbers: list[int] = np.frombuffer(body, "<i8").tolist()
        if sum(head["lengths"]) != len(numbers):
            raise ArtifactError("a segment's tables must be as long as its file says")
        parts = iter(numbers)
        tables = {
            name: list(itertools.islice(parts, length))
            for name, length in zip(_TABLES, head["lengths"], strict=True)
        }
        instances = [
            Instance(name, _MEMORIES[memory], rows, tuple(thread), copies)
            for name, memory, rows, thread, copies in head["instances"]
        ]
        shapes = [(Opcode(opcode), tuple(names)) for opcode, names in head["shapes"]]
        uops = list(_sequences(tables["sequences"], head["sequences"]))
        runs = list(_runs(tables["runs"], head["runs"]))
        tensors: dict[str, int] = head["tensors"]
        return Segment(
            head["name"],
            tuple(
                _instructions(tables, shapes, instances, head["fields"], runs, list(tensors), uops)
            ),
            tensors,
            bool(head["is_by_need"]),
        )


def _number(known: dict[T, int], item: T) -> int:
    return known.setdefault(item, len(known))


def _sequences(numbers: Sequence[int], sizes: Sequence[Sequence[int]]) -> Iterator[UopSequence]:
    place = 0
    for count, width in sizes:
        yield tuple(
            tuple(numbers[begin : begin + width])
            for begin in range(place, place + count * width, width)
        )
        place += count * width


def _runs(numbers: Sequence[int], sizes: Sequence[int]) -> Iterator[Runs]:
    pairs = zip(*[iter(numbers)] * 2, strict=True)
    for count in sizes:
        touched = tuple(itertools.islice(pairs, count))
        if not touched:
            raise ValueError("an access touches a row")
        yield touched


def _instructions(
    tables: dict[str, list[int]],
    shapes: Sequence[tuple[Opcode, tuple[str, ...]]],
    instances: Sequence[Instance],
    fields: Sequence[str],
    runs: Sequence[Runs],
    tensors: Sequence[str],
    uops: Sequence[UopSequence],
) -> Iterator[SegmentInstruction]:
    values = iter(tables["values"])
    accesses = iter(zip(*[iter(tables["accesses"])] * 6, strict=True))
    columns = (tables[name] for name in ("shapes", "counts", "tensors", "uops"))
    for shape, count, tensor, sequence in zip(*columns, strict=True):
        opcode, names = shapes[shape]
        template = Instruction(opcode, dict(zip(names, values, strict=False)))
        rows = tuple(
            [
                RowAccess(
                    instances[instance],
                    fields[field],
                    runs[touched],
                    reads == 1,
                    writes == 1,
                    scale,
                )
                for instance, field, touched, reads, writes, scale in itertools.islice(
                    accesses, count
                )
            ]
        )
        yield SegmentInstruction(
            template,
            rows,
            None if tensor < 0 else tensors[tensor],
            None if sequence < 0 else uops[sequence],
        )
