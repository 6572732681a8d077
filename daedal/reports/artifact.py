"""Reports on an artifact: as tables, in a few lines, and as plain data."""

import re
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.artifact.artifact import Artifact, Launch, Placement
from daedal.isa.table import BASES
from daedal.reports.costs import costs_json
from daedal.reports.host_code import code_json
from daedal.reports.tables import plain_table

__all__ = [
    "artifact_json",
    "cycles_line",
    "placement_json",
    "program_tables",
    "share_of_macs",
    "summary_lines",
    "target_json",
]

_FIGURE = re.compile(r"(?<![\w.'])\d+(?:,\d{3})*(?:\.\d+)?(?![\w'])")
"""A number by itself, not within a name."""
_NUM_NAMED = 3
"""Most nodes that are listed by name; for more, only their operators are listed."""


def artifact_json(artifact: Artifact) -> dict[str, Any]:
    """What `daedal compile` reports."""
    launches = [_launch_json(item) for item in artifact.launches]
    return {
        **target_json(artifact),
        "instructions": sum(item["instructions"] for item in launches),
        "tokens": sum(item["tokens"] for item in launches),
        "inputs": [{"name": item.name, "shape": list(item.shape)} for item in artifact.inputs],
        "outputs": [{"name": item.name, "shape": list(item.shape)} for item in artifact.outputs],
        "launches": launches,
        "code": [code_json(part) for part in artifact.host_parts],
        "host": [{"op": node.op, "name": node.name} for node in artifact.host_nodes],
        "placements": [placement_json(item) for item in artifact.placements],
        "share_of_macs": share_of_macs(artifact),
        "costs": costs_json(artifact),
    }


def target_json(artifact: Artifact) -> dict[str, Any]:
    """What the artifact is for; no variant if it is for processors alone."""
    variant = artifact.variant if artifact.launches else None
    return {
        "variant": None if variant is None else variant.name,
        "fingerprint": None if variant is None else variant.fingerprint,
    }


def _launch_json(launch: Launch) -> dict[str, Any]:
    program = launch.program
    return {
        "instructions": len(program.instructions),
        "tokens": sum(item.push.bit_count() for item in program.instructions),
        "region_bytes": dict(zip(BASES, program.region_bytes, strict=True)),
        "inputs": [{"name": item.name, "shape": list(item.shape)} for item in launch.inputs],
        "outputs": [{"name": item.name, "shape": list(item.shape)} for item in launch.outputs],
        "layers": [
            {"tag": x.tag, "name": x.name, "op": x.op, "macs": x.macs, "output": x.output}
            for x in launch.layers
        ],
    }


def placement_json(item: Placement) -> dict[str, Any]:
    """Where a node runs."""
    return {
        "node": item.node,
        "op": item.op,
        "output": item.output,
        "where": item.where,
        "why": item.why,
        "macs": item.macs,
        "part": item.part,
        "layer": item.layer,
    }


def share_of_macs(artifact: Artifact) -> float | None:
    """Part of the multiply-accumulates that runs on the accelerator; 1 where there are none, None
    where the number is not known of every node."""
    if _uncounted(artifact):
        return None
    every = _macs(artifact, "accelerator", "host", "gpu")
    return _macs(artifact, "accelerator") / every if every else 1.0


def _macs(artifact: Artifact, *places: str) -> int:
    return sum(item.macs or 0 for item in artifact.placements if item.where in places)


def _uncounted(artifact: Artifact) -> list[Placement]:
    """Nodes that run and whose number of multiply-accumulates is unknown."""
    return [item for item in artifact.placements if item.macs is None and item.where != "folded"]


def summary_lines(artifact: Artifact) -> list[str]:
    """How much of the model runs on the accelerator, in how many launches, and why not all."""
    if not artifact.launches:
        macs, uncounted = _macs(artifact, "host", "gpu"), _uncounted(artifact)
        more = f", and those of {_nodes(uncounted)}: how many they are is not known"
        where = "GPU" if artifact.has_gpu_code else "processor"
        return [f"{macs:,} multiply-accumulates on the {where}{more if uncounted else ''}"]
    layers, launches = len(artifact.layers), len(artifact.launches)
    where = (
        f"on the accelerator, {'one layer' if layers == 1 else f'{layers} layers'} in "
        f"{'one launch' if launches == 1 else f'{launches} launches'}"
    )
    share = share_of_macs(artifact)
    if share is None:
        lines = [
            f"{_macs(artifact, 'accelerator'):,} multiply-accumulates {where}",
            f"{_macs(artifact, 'host', 'gpu'):,} multiply-accumulates on the host, and those of "
            f"{_nodes(_uncounted(artifact))}: how many they are is not known",
        ]
    else:
        every = _macs(artifact, "accelerator", "host", "gpu")
        lines = [f"{100 * share:.1f} % of {every:,} multiply-accumulates {where}"]
    on_gpu = [item for item in artifact.placements if item.where == "gpu"]
    if on_gpu:
        lines.append(f"on the GPU: {_nodes(on_gpu)}")
    by_reason: dict[str, list[Placement]] = {}
    for item in artifact.placements:
        if item.where == "host":
            by_reason.setdefault(re.sub(r"\d[\d,.]*", "", item.why), []).append(item)
    for items in by_reason.values():
        lines.append(f"on the host: {_nodes(items)}: {_joined([item.why for item in items])}")
    return lines


def _joined(reasons: Sequence[str]) -> str:
    """Reasons that differ only in digits as one: the least and the largest of each figure, and the
    names of the first."""
    columns = zip(*(_FIGURE.findall(reason) for reason in reasons), strict=False)
    ranges = [sorted(set(column), key=_value) for column in columns]
    shown = iter(
        [found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}" for found in ranges]
    )
    text = _FIGURE.sub(lambda _: next(shown), reasons[0])
    same_names = len({_FIGURE.sub("", reason) for reason in reasons}) == 1
    return text if same_names else f"{text} (names of the first)"


def _value(figure: str) -> float:
    return float(figure.replace(",", ""))


def cycles_line(artifact: Artifact, cycles: int, memory: str) -> str:
    """What the accelerator takes for a run."""
    launches = len(artifact.launches)
    return (
        f"{'one launch takes' if launches == 1 else f'{launches} launches take'} {cycles:,} cycles "
        f"of the cycle model with memory {memory}"
    )


def _nodes(items: Sequence[Placement]) -> str:
    """A few nodes by name, more by operator."""
    if len(items) <= _NUM_NAMED:
        return ", ".join(f"{item.op} {item.node!r}" for item in items)
    operators = ", ".join(dict.fromkeys(item.op for item in items))
    return f"{len(items)} nodes ({operators})"


def program_tables(artifact: Artifact) -> list[Table]:
    """Layers of a compiled model, a table for each launch."""
    tables = []
    for number, launch in enumerate(artifact.launches):
        which = "in one launch" if len(artifact.launches) == 1 else f"launch {number}"
        heads = ("layer", "op", "output", "MACs")
        table = plain_table(f"On the accelerator, {which}", heads, 3)
        for layer in launch.layers:
            table.add_row(escape(layer.name), layer.op, escape(layer.output), f"{layer.macs:,}")
        tables.append(table)
    return tables
