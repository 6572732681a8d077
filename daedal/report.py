"""Tables of what was compiled, run and found, for people; the data is the same as with --json."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from daedal.isa.artifact import Artifact
from daedal.isa.registers import CycleClass
from daedal.isa.table import BASES, Unit
from daedal.runtime.layers import LayerProfile

__all__ = ["artifact_json", "host_table", "layers_table", "profile_table", "program_table"]


def artifact_json(artifact: Artifact) -> dict[str, Any]:
    """What `daedal compile` reports."""
    program = artifact.program
    return {
        "variant": program.variant.name,
        "fingerprint": program.variant.fingerprint,
        "instructions": len(program.instructions),
        "tokens": sum(item.push.bit_count() for item in program.instructions),
        "region_bytes": dict(zip(BASES, program.region_bytes, strict=True)),
        "inputs": [{"name": b.name, "shape": list(b.shape)} for b in artifact.inputs],
        "outputs": [{"name": b.name, "shape": list(b.shape)} for b in artifact.outputs],
        "layers": [
            {"tag": x.tag, "name": x.name, "op": x.op, "macs": x.macs, "output": x.output}
            for x in artifact.layers
        ],
        "host": [{"op": n.op, "name": n.name, "when": n.when} for n in artifact.host_nodes],
    }


def program_table(artifact: Artifact) -> Table:
    """Layers of a compiled model."""
    table = Table(title="On the accelerator, in one launch", title_justify="left")
    for head in ("layer", "op", "MACs", "output"):
        table.add_column(head, justify="right" if head == "MACs" else "left")
    for layer in artifact.layers:
        table.add_row(layer.name, layer.op, f"{layer.macs:,}", layer.output)
    return table


def host_table(artifact: Artifact) -> Table:
    """What the host runs around the launch."""
    table = Table(title="On the host", title_justify="left")
    for head in ("when", "op", "node"):
        table.add_column(head)
    for node in artifact.host_nodes:
        table.add_row(node.when, node.op, node.name)
    return table


def layers_table(layers: Sequence[LayerProfile]) -> Table:
    """Cycles per layer, and where the units spent them."""
    total = sum(item.cycles for item in layers)
    table = Table(title="Layers", title_justify="left")
    heads = ("layer", "op", "MACs", "cycles", "of peak", "read", "written", "GEMM", "ALU", "LOAD")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < 2 else "right", no_wrap=number < 2)
    for item in layers:
        busy = [
            f"{100 * item.units[unit].classes[CycleClass.BUSY] / max(1, item.cycles):.0f} %"
            for unit in (Unit.GEMM, Unit.ALU, Unit.LOAD)
        ]
        table.add_row(
            item.layer.name,
            item.layer.op,
            f"{item.layer.macs:,}",
            f"{item.cycles:,}",
            f"{100 * item.share:.1f} %",
            f"{item.bytes_read:,} B",
            f"{item.bytes_written:,} B",
            *busy,
        )
    table.add_section()
    macs = sum(item.layer.macs for item in layers)
    table.add_row("all", "", f"{macs:,}", f"{total:,}", *[""] * 6)
    return table


def profile_table(profile: dict[str, Any]) -> Table:
    """Cycles of each unit by class, in percent of the run; `profile` is `Profile.to_json()`."""
    table = Table(title=f"Units over {profile['cycles']:,} cycles", title_justify="left")
    table.add_column("unit")
    kinds = [kind.name.lower() for kind in CycleClass]
    for kind in kinds:
        table.add_column(kind.replace("_", " "), justify="right")
    table.add_column("work", justify="right")
    for unit, counters in profile["units"].items():
        shares = [f"{100 * counters[kind] / max(1, profile['cycles']):.1f}" for kind in kinds]
        table.add_row(unit, *shares, f"{counters['work']:,}")
    return table
