"""What was compiled, as tables and as plain data."""

from typing import Any

from rich.table import Table

from daedal.isa.artifact import Artifact
from daedal.isa.table import BASES
from daedal.reports.tables import plain_table

__all__ = ["artifact_json", "host_table", "program_table"]


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
        "host": [{"op": n.op, "name": n.name} for n in artifact.host_nodes],
    }


def program_table(artifact: Artifact) -> Table:
    """Layers of a compiled model."""
    table = plain_table("On the accelerator, in one launch", ("layer", "op", "output", "MACs"), 3)
    for layer in artifact.layers:
        table.add_row(layer.name, layer.op, layer.output, f"{layer.macs:,}")
    return table


def host_table(artifact: Artifact) -> Table:
    """What the host runs around the launch."""
    table = plain_table("On the host", ("op", "node"), 2)
    for node in artifact.host_nodes:
        table.add_row(node.op, node.name)
    return table
