"""What ``daedal inspect`` found, as tables and as plain data."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daedal.inspection import (
    HostReport,
    Inspection,
    LaunchReport,
    LayerReport,
    NodeReport,
    TargetReport,
)
from daedal.isa.table import BASES
from daedal.reports.artifact import placement_json, summary_lines, target_json
from daedal.reports.console import print_tables
from daedal.reports.costs import cost_lines, costs_json
from daedal.reports.gpu_kernels import kernels_json, kernels_note, kernels_table
from daedal.reports.host_code import code_json, code_lines
from daedal.reports.tables import plain_table
from daedal.runtime.profiler.svg import clip_text

__all__ = ["inspection_json", "print_inspection"]

_NAME_LENGTH = 40


def inspection_json(report: Inspection) -> dict[str, Any]:
    """Everything that `print_inspection` shows, and the nodes that need no work."""
    artifact = report.artifact
    return {
        **target_json(artifact),
        "memory": report.memory,
        "mhz": report.mhz,
        "inputs": [{"name": item.name, "shape": list(item.shape)} for item in artifact.inputs],
        "outputs": [{"name": item.name, "shape": list(item.shape)} for item in artifact.outputs],
        "seconds": report.seconds,
        "costs": costs_json(artifact),
        "parts": [_part_json(part) for part in report.parts],
        "kernels": kernels_json(report.kernels),
        "nodes": [
            {
                **placement_json(item.placement),
                "share_of_macs": item.share_of_macs,
                "share_of_time": item.share_of_time,
            }
            for item in report.nodes
        ],
    }


def _part_json(part: LaunchReport | HostReport | TargetReport) -> dict[str, Any]:
    if isinstance(part, TargetReport):
        steps = [{"op": node.op, "name": node.name} for node in part.part.nodes]
        return {"kind": "target", "target": part.part.target, "seconds": None, "steps": steps}
    return _launch_json(part) if isinstance(part, LaunchReport) else _host_json(part)


def _host_json(part: HostReport) -> dict[str, Any]:
    return {
        "kind": "host" if part.host.gpu is None else "gpu",
        "seconds": part.seconds,
        "steps": [{"op": node.op, "name": node.name} for node in part.host.nodes],
        "code": code_json(part.host),
    }


def _launch_json(part: LaunchReport) -> dict[str, Any]:
    program = part.launch.program
    return {
        "kind": "launch",
        "instructions": len(program.instructions),
        "tokens": part.num_tokens,
        "region_bytes": dict(zip(BASES, program.region_bytes, strict=True)),
        "workspace_needed_bytes": part.workspace_needed_bytes,
        "cycles": part.cycles,
        "seconds": part.seconds,
        "inputs": [{"name": x.name, "shape": list(x.shape)} for x in part.launch.inputs],
        "outputs": [{"name": x.name, "shape": list(x.shape)} for x in part.launch.outputs],
        "layers": [_layer_json(item) for item in part.layers],
    }


def _layer_json(item: LayerReport) -> dict[str, Any]:
    layer, profile = item.layer, item.profile
    return {
        "tag": layer.tag,
        "name": layer.name,
        "op": layer.op,
        "output": layer.output,
        "shape": None if layer.result is None else list(layer.result.spec.shape),
        "macs": layer.macs,
        "padding_macs": layer.padding_macs,
        "bytes_once": layer.bytes_once,
        "bytes_moved": None if profile is None else profile.bytes_moved,
        "instructions": item.num_instructions,
        "cycles": None if profile is None else profile.cycles,
    }


def print_inspection(console: Console, report: Inspection) -> None:
    """Parts, layers and nodes as tables, and what they come to."""
    artifact = report.artifact
    if artifact.launches:
        variant = artifact.variant
        console.print(f"variant {escape(variant.name)} ({variant.fingerprint})")
    else:
        console.print("for GPUs" if artifact.has_gpu_code else "for processors alone")
    for kind, values in (("input", artifact.inputs), ("output", artifact.outputs)):
        for item in values:
            console.print(escape(f"{kind} {item.name}: {_extents(item.shape)}"))
    tables = [_parts_table(report), _layers_table(report), _nodes_table(report)]
    for table in tables if artifact.launches else (tables[0], tables[2]):
        print_tables(console, table)
    if report.kernels:
        print_tables(console, kernels_table(report.kernels))
        console.print(escape(kernels_note(report.kernels)))
    if report.seconds:
        console.print(escape(_total_line(report, report.seconds)))
    for line in (*summary_lines(artifact), *code_lines(artifact), *cost_lines(artifact)):
        console.print(escape(line))
    cycles = (
        f"cycles: of the cycle model with memory {report.memory}; seconds: those cycles at "
        f"{report.mhz:g} MHz, and "
    )
    console.print(
        f"{cycles if artifact.launches else 'seconds: '}the host's as measured here, on zeros"
    )


def _total_line(report: Inspection, seconds: float) -> str:
    """What a run takes, and where."""
    launches = report.launches
    host = [part for part in report.parts if isinstance(part, HostReport) and part.host.gpu is None]
    launched = "one launch" if len(launches) == 1 else f"{len(launches)} launches"
    places = {
        f"in {launched}": [part.seconds for part in launches],
        "on the host": [part.seconds or 0 for part in host],
    }
    shares = ", ".join(f"{_time(sum(found))} {where}" for where, found in places.items() if found)
    return f"a run takes {_time(seconds)}, {1 / seconds:,.1f} a second: {shares}"


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one number, or a shape known only at run time"


def _parts_table(report: Inspection) -> Table:
    heads = ("part", "reads", "gives", "steps", "instructions", "constants", "workspace", "needed")
    table = plain_table("Parts, in order", (*heads, "cycles", "time", "share"), 3)
    for part in report.parts:
        share = _share(part.seconds, report.seconds)
        if isinstance(part, HostReport):
            steps = f"{len(part.host.nodes)}"
            where = "host" if part.host.gpu is None else "gpu"
            table.add_row(where, "", "", steps, "", "", "", "", "", _time(part.seconds), share)
            continue
        if isinstance(part, TargetReport):
            own = part.part
            table.add_row(
                own.target,
                _names(own.inputs),
                _names(own.outputs),
                f"{len(own.nodes)}",
                *[""] * 5,
                _time(None),
                share,
            )
            continue
        program = part.launch.program
        table.add_row(
            "launch",
            _names([item.name for item in part.launch.inputs]),
            _names([item.name for item in part.launch.outputs]),
            f"{len(part.layers)}",
            f"{len(program.instructions):,}",
            f"{program.region_bytes[0]:,} B",
            f"{program.region_bytes[-1]:,} B",
            f"{part.workspace_needed_bytes:,} B",
            f"{part.cycles:,}",
            _time(part.seconds),
            share,
        )
    return table


def _layers_table(report: Inspection) -> Table:
    heads = (
        "layer",
        "op",
        "result",
        "shape",
        "MACs",
        "with padding",
        "moved",
        "once",
        "instructions",
        "cycles",
    )
    table = plain_table("Layers on the accelerator", (*heads, "of launch"), 4)
    for part in report.launches:
        for item in part.layers:
            layer, profile = item.layer, item.profile
            table.add_row(
                escape(clip_text(layer.name, _NAME_LENGTH)),
                layer.op,
                escape(clip_text(layer.output, _NAME_LENGTH)),
                "" if layer.result is None else "x".join(map(str, layer.result.spec.shape)),
                f"{layer.macs:,}",
                f"{layer.padding_macs:,}",
                "" if profile is None else f"{profile.bytes_moved:,} B",
                f"{layer.bytes_once:,} B",
                f"{item.num_instructions:,}",
                "" if profile is None else f"{profile.cycles:,}",
                "" if profile is None else _share(profile.cycles, part.cycles),
            )
        table.add_section()
    return table


def _nodes_table(report: Inspection) -> Table:
    table = plain_table(
        "Nodes of the model", ("node", "operator", "where", "why, or the layer", "MACs", "time"), 4
    )
    shown = [item for item in report.nodes if item.placement.where != "folded"]
    for item in shown:
        table.add_row(*_node_row(item))
    if len(shown) < len(report.nodes):
        table.add_section()
        table.add_row(f"{len(report.nodes) - len(shown)} more", "", "folded", "no work is left")
    return table


def _node_row(item: NodeReport) -> list[str]:
    placement = item.placement
    return [
        escape(clip_text(placement.node, _NAME_LENGTH)),
        placement.op,
        placement.where,
        escape(placement.why or clip_text(placement.layer, _NAME_LENGTH)),
        _macs(item),
        "" if item.share_of_time is None else f"{100 * item.share_of_time:.1f} %",
    ]


def _macs(item: NodeReport) -> str:
    """A node's share, or its number where that of other nodes is not known."""
    if item.share_of_macs is not None:
        return f"{100 * item.share_of_macs:.1f} %"
    return "not known" if item.placement.macs is None else f"{item.placement.macs:,}"


def _names(given: Sequence[str]) -> str:
    """Two of the names; a tensor may be bound several times, in several layouts."""
    names = list(dict.fromkeys(given))
    shown = ", ".join(clip_text(name, _NAME_LENGTH) for name in names[:2])
    return escape(f"{shown} and {len(names) - 2} more" if len(names) > 2 else shown)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:,.3f} ms"


def _share(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.1f} %" if part is not None and whole else ""
