"""Tables of what was compiled, run and found, for people; the data is the same as with --json."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from daedal.isa.artifact import Artifact
from daedal.isa.registers import CycleClass
from daedal.isa.table import BASES, Unit
from daedal.runtime.layers import LayerProfile

__all__ = [
    "artifact_json",
    "host_table",
    "layers_table",
    "plain_table",
    "profile_table",
    "program_table",
]


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


def layers_table(layers: Sequence[LayerProfile]) -> Table:
    """Cycles per layer, and where the units spent them.

    "of peak" is the share of the multiplications that the array could do in the layer's cycles.
    """
    heads = ("layer", "op", "MACs", "cycles", "of peak", "read", "written", "GEMM", "ALU", "LOAD")
    table = plain_table("Layers", heads, num_left=2)
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
    cycles = sum(item.cycles for item in layers)
    share = sum(item.share * item.cycles for item in layers) / max(1, cycles)
    table.add_row(
        "all",
        "",
        f"{sum(item.layer.macs for item in layers):,}",
        f"{cycles:,}",
        f"{100 * share:.1f} %",
        f"{sum(item.bytes_read for item in layers):,} B",
        f"{sum(item.bytes_written for item in layers):,} B",
    )
    return table


def profile_table(profile: dict[str, Any]) -> Table:
    """Cycles of each unit by class, in percent of the run; `profile` is `Profile.to_json()`."""
    kinds = [kind.name.lower() for kind in CycleClass]
    heads = ("unit", *(kind.replace("_", " ") for kind in kinds), "work")
    table = plain_table(f"Units over {profile['cycles']:,} cycles", heads, num_left=1)
    for unit, counters in profile["units"].items():
        shares = [f"{100 * counters[kind] / max(1, profile['cycles']):.1f} %" for kind in kinds]
        table.add_row(unit, *shares, f"{counters['work']:,}")
    return table


def plain_table(title: str, heads: Sequence[str], num_left: int) -> Table:
    """A table without lines between columns; the first `num_left` hold text, the rest numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < num_left else "right", no_wrap=True)
    return table
