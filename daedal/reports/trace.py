"""What ``daedal trace`` found, for people and as plain data."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daedal.artifact.artifact import Artifact
from daedal.sim.trace.difference import Difference, Race
from daedal.tracing import TraceReport

__all__ = ["print_trace", "trace_json"]


def trace_json(found: TraceReport, artifact: Artifact, seed: int) -> dict[str, Any]:
    """What a trace found, as plain data."""
    difference, layer, place = found.difference, found.layer, found.place
    num_launches = len(artifact.launches)
    report: dict[str, Any] = {
        "seed": seed,
        "compared": _compared(found, num_launches),
        "difference": None,
    }
    if difference is None:
        return report
    report["difference"] = {
        "kind": difference.kind.value,
        "run": (len(found.traces) - 1) // num_launches,
        "launch": found.launch,
        "instruction": difference.instruction,
        "unit": difference.unit.name,
        "sentence": difference.sentence,
        "cycle": difference.cycle,
        "memory": difference.memory.value if difference.memory is not None else None,
        "row": difference.row,
        "elements": difference.elements,
        "expected": difference.expected,
        "found": difference.found,
        "races": [
            {
                "writer": race.writer,
                "memory": race.memory.value if race.memory is not None else None,
                "rows": race.rows,
                "num_rows": race.num_rows,
                "started_cycle": race.started_cycle,
                "written_cycle": race.written_cycle,
            }
            for race in difference.races
        ],
        "overtaken_by": difference.overtaken_by,
        "layer": {"tag": layer.tag, "name": layer.name, "op": layer.op, "output": layer.output}
        if layer is not None
        else None,
        "place": {
            "region": place.region,
            "offset_bytes": place.offset_bytes,
            "tensor": place.tensor,
            "element": place.element,
            "instruction": place.instruction,
        }
        if place is not None
        else None,
        "disassembly": [{"instruction": number, "text": text} for number, text in found.lines],
    }
    return report


def print_trace(console: Console, found: TraceReport, artifact: Artifact) -> None:
    """What a trace found, for people."""
    difference, compared = found.difference, _compared(found, len(artifact.launches))
    amount = (
        f"{compared['instructions']:,} instructions, {compared['scratchpad_writes']:,} writes into "
        f"scratchpads and {compared['memory_words']:,} words of memory"
    )
    if difference is None:
        console.print(f"no difference: {amount} are the same, over {compared['cycles']:,} cycles")
        return
    number, launches = difference.instruction, artifact.launches
    which = f" of launch {found.launch}" if len(launches) > 1 else ""
    console.print(
        f"instruction {number} of {len(launches[found.launch].program.instructions)}{which} "
        f"({difference.unit.name}) {escape(difference.sentence)}"
    )
    if found.layer is not None:
        layer = found.layer
        console.print(f"layer: {escape(layer.name)} ({layer.op}), output {escape(layer.output)}")
    if found.place is not None:
        console.print(f"{_relation(found)}: {escape(str(found.place))}")
    for race in difference.races:
        console.print(_race(race))
    if difference.overtaken_by:
        numbers = ", ".join(map(str, difference.overtaken_by))
        console.print(f"overtaken by instruction {numbers}, which had to wait for it")
    if difference.expected:
        console.print(_values(difference))
    console.print("program:")
    for line, text in found.lines:
        console.print(f"{'>' if line == number else ' '} {line:5}  {escape(text)}")
    console.print(f"before it: {amount} were compared")


def _compared(found: TraceReport, num_launches: int) -> dict[str, int]:
    """How much was found equal, over all runs."""
    return {
        "runs": -(-len(found.traces) // num_launches),
        "instructions": sum(item.num_instructions for item in found.traces),
        "scratchpad_writes": sum(item.num_writes for item in found.traces),
        "memory_words": sum(item.num_beats for item in found.traces),
        "cycles": sum(item.cycles for item in found.traces),
    }


def _relation(found: TraceReport) -> str:
    place, difference = found.place, found.difference
    assert place is not None, "there is a place to tell of"
    if place.instruction is None:
        return "memory"
    if difference is not None and place.instruction == difference.instruction:
        return "loaded from"
    return f"stored by instruction {place.instruction} to"


def _race(race: Race) -> str:
    what = f"{race.memory.value} rows" if race.memory is not None else "memory words"
    rows = ", ".join(map(str, race.rows)) + (", ..." if race.num_rows > len(race.rows) else "")
    when = "never done" if race.written_cycle is None else f"done in cycle {race.written_cycle}"
    return (
        f"it started in cycle {race.started_cycle} and reads {what} {rows} that instruction "
        f"{race.writer} writes, which was {when}"
    )


def _values(difference: Difference) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for head in ("element", "expected", "found", ""):
        table.add_column(head, justify="right")
    rows = zip(difference.elements, difference.expected, difference.found, strict=True)
    for element, want, got in rows:
        table.add_row(str(element), str(want), str(got), "<" if want != got else "")
    return table
