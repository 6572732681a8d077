"""What of the host's parts is compiled: a few lines for each part, and plain data."""

from collections import Counter
from typing import Any

from onnx import ModelProto

from daedal.artifact.artifact import Artifact, HostPart

__all__ = ["code_json", "code_lines"]


def code_lines(artifact: Artifact) -> list[str]:
    """For each part that computes something: how many of its nodes are compiled and for which
    levels, and by operator and reason how many are interpreted."""
    lines = []
    for number, part in enumerate(artifact.parts):
        if isinstance(part, HostPart) and part.model:
            lines += _part_lines(f"part {number}, on the host", code_json(part))
    return lines


def code_json(part: HostPart) -> dict[str, Any]:
    """Nodes of the part's ONNX model by what becomes of them, and the code's size by level.

    A node that needs no code of its own, for it is constant or only gives a tensor another shape,
    counts as compiled.
    """
    operators = Counter(_operators(part.model))
    if part.code is None:
        interpreted = [
            {"op": op, "reason": "the part is not compiled", "nodes": count}
            for op, count in sorted(operators.items())
        ]
        return {"compiled": {}, "interpreted": interpreted, "levels": {}}
    reasons = Counter((item.op, item.reason) for item in part.code.interpreted)
    left = Counter(item.op for item in part.code.interpreted)
    return {
        "compiled": dict(sorted((operators - left).items())),
        "interpreted": [
            {"op": op, "reason": reason, "nodes": count}
            for (op, reason), count in sorted(reasons.items())
        ],
        "levels": {
            level: sum(map(len, objects)) for level, objects in sorted(part.code.objects.items())
        },
        "calls": len(part.code.calls),
        "constant_bytes": len(part.code.constants),
        "memory_bytes": part.code.memory_bytes,
    }


def _part_lines(what: str, found: dict[str, Any]) -> list[str]:
    compiled = sum(found["compiled"].values())
    interpreted = sum(item["nodes"] for item in found["interpreted"])
    levels = f" for {', '.join(found['levels'])}" if found["levels"] else ""
    lines = [f"{what}: {_nodes(compiled)} compiled{levels}, {interpreted} interpreted"]
    for item in found["interpreted"]:
        lines.append(f"interpreted: {item['op']} ({_nodes(item['nodes'])}): {item['reason']}")
    return lines


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count:,} nodes"


def _operators(serialized: bytes) -> list[str]:
    return [node.op_type for node in ModelProto.FromString(serialized).graph.node]
