"""`LinkedCode` as bytes, and back: what `daedal.compiler.layers.segment_store` keeps on disk.

The file holds JSON (places, the report, and how long the rest is), the fields of all instructions
as 64-bit integers, and the micro-op tables, compressed (`codegen.packed_file`). The names of fields
are written once for all instructions that have the same ones.
"""

from typing import Any

import numpy as np

from daedal.common.errors import ArtifactError
from daedal.compiler.codegen.packed_file import damage_refused, packed, unpacked
from daedal.compiler.link.linked_code import LinkedCode, LinkReport
from daedal.compiler.link.placement.memory_plan import MemoryPlan, Place
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode

__all__ = ["linked_from", "linked_to_bytes"]

_WHAT = "a linked program"
_MEMORIES = tuple(Memory)
_COUNTS = (
    "num_instructions",
    "num_tokens",
    "num_hazards",
    "workspace_bound_bytes",
)


def linked_to_bytes(code: LinkedCode) -> bytes:
    """The bytes of `code`; `linked_from` reads them."""
    known: dict[tuple[int, tuple[str, ...]], int] = {}
    shapes: list[int] = []
    values: list[int] = []
    for item in code.instructions:
        shape = int(item.opcode), tuple(item.values)
        shapes.append(known.setdefault(shape, len(known)))
        values += item.values.values()
    head = {
        "shapes": list(known),
        "lengths": [len(shapes), len(values)],
        "tables": {name: len(table) for name, table in code.tables.items()},
        "places": [
            (name, place.base, place.offset_bytes, place.size_bytes)
            for name, place in code.plan.places.items()
        ],
        "region_bytes": code.plan.region_bytes,
        "counts": [getattr(code.report, name) for name in _COUNTS],
        "setup": code.setup,
        "unread": sorted(code.unread.items()),
        "rows": [(_MEMORIES.index(pad), rows) for pad, rows in code.report.high_water_rows.items()],
    }
    numbers = np.array(shapes + values, dtype="<i8").tobytes()
    return packed(head, b"".join((numbers, *code.tables.values())))


def linked_from(data: bytes) -> LinkedCode:
    """The code that `linked_to_bytes` wrote. Raises ArtifactError for anything else."""
    with damage_refused(_WHAT):
        head, body = unpacked(data, _WHAT)
        end = 8 * sum(head["lengths"])
        if end + sum(head["tables"].values()) != len(body):
            raise ArtifactError("a linked program's parts must be as long as its file says")
        numbers: list[int] = np.frombuffer(body[:end], "<i8").tolist()
        tables = {}
        for name, size in head["tables"].items():
            tables[name] = body[end : end + size]
            end += size
        first, second, third, fourth = map(int, head["region_bytes"])
        places = {
            str(name): Place(int(base), int(offset), int(size))
            for name, base, offset, size in head["places"]
        }
        report = _report(head, (first, second, third, fourth))
        plan = MemoryPlan(places, report.region_bytes, report.workspace_bound_bytes)
        setup = int(head["setup"])
        unread = {int(number): int(planes) for number, planes in head["unread"]}
        return LinkedCode(_instructions(head, numbers), tables, plan, report, setup, unread)


def _instructions(head: dict[str, Any], numbers: list[int]) -> tuple[Instruction, ...]:
    forms = [(Opcode(opcode), tuple(map(str, names))) for opcode, names in head["shapes"]]
    count = head["lengths"][0]
    shapes = [forms[shape] for shape in numbers[:count]]
    if sum(len(names) for _, names in shapes) != head["lengths"][1]:
        raise ValueError("an instruction has too few or too many fields")
    values = iter(numbers[count:])
    return tuple(
        [Instruction(code, dict(zip(names, values, strict=False))) for code, names in shapes]
    )


def _report(head: dict[str, Any], region_bytes: tuple[int, int, int, int]) -> LinkReport:
    counts = {name: int(count) for name, count in zip(_COUNTS, head["counts"], strict=True)}
    rows = {_MEMORIES[pad]: int(number) for pad, number in head["rows"]}
    return LinkReport(high_water_rows=rows, region_bytes=region_bytes, **counts)
