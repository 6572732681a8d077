"""What of the parts of host and GPU is compiled: a few lines for each part, and plain data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from daedal.artifact.artifact import Artifact, HostPart
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.host_code import HostCode

__all__ = ["code_json", "code_lines"]

_NUM_NAMED = 3
"""Most kernels of equal structure that are listed by what they compute."""

_NUM_PARTS = 6
"""Most parts whose numbers a line lists."""


def code_lines(artifact: Artifact) -> list[str]:
    """For each part that computes something: how many of its nodes are compiled and for which
    levels, and by operator and reason how many are interpreted.

    Parts that are compiled whole, for the same levels, have one line.
    """
    lines: list[str] = []
    whole: dict[tuple[str, ...], dict[int, int]] = {}
    for number, part in enumerate(artifact.parts):
        if not isinstance(part, HostPart) or not part.model:
            continue
        where, found = "the host" if part.gpu is None else "the GPU", code_json(part)
        if found["interpreted"] or found.get("on_processor"):
            lines += _part_lines(f"part {number}, on {where}", found)
        else:
            nodes = whole.setdefault((where, *_targets(found)), {})
            nodes[number] = sum(found["compiled"].values())
    return [_whole_line(*key, nodes=nodes) for key, nodes in whole.items()] + lines


def _whole_line(where: str, *targets: str, nodes: Mapping[int, int]) -> str:
    """The line of parts, each with its number of nodes, of which none is interpreted."""
    what = f"part {min(nodes)}, on {where}" if len(nodes) == 1 else f"{len(nodes)} parts on {where}"
    if 1 < len(nodes) <= _NUM_PARTS:
        what += f" ({', '.join(map(str, nodes))})"
    return _compiled_line(what, sum(nodes.values()), targets, 0)


def code_json(part: HostPart) -> dict[str, Any]:
    """Nodes of the part's ONNX model by what becomes of them, and the code's size by level and by
    architecture of GPUs.

    A node that needs no code of its own, for it is constant or only gives a tensor another shape,
    counts as compiled. A part with code for GPUs counts as that code has it.
    """
    operators = Counter(_operators(part.model))
    codes = part.codes if part.gpu is None else (part.gpu.host,)
    if not codes:
        interpreted = [
            {"op": op, "reason": "the part is not compiled", "nodes": count}
            for op, count in sorted(operators.items())
        ]
        return {"compiled": {}, "interpreted": interpreted, "levels": {}}
    code = codes[0]  # all have the same nodes
    reasons = Counter((item.op, item.reason) for item in code.interpreted)
    left = Counter(item.op for item in code.interpreted)
    return {
        "compiled": dict(sorted((operators - left).items())),
        "interpreted": [
            {"op": op, "reason": reason, "nodes": count}
            for (op, reason), count in sorted(reasons.items())
        ],
        "levels": _sizes(part.objects),
        "calls": len(code.calls),
        "constant_bytes": code.constant_bytes,
        "memory_bytes": code.memory_bytes,
        **({} if part.gpu is None else _gpu_json(part.gpu)),
    }


def _gpu_json(code: GpuCode) -> dict[str, Any]:
    return {
        "architectures": _sizes(code.images),
        "kernels": len(code.kernels),
        "on_processor": [
            {"names": _names(code.host, item.symbol), "reason": item.reason}
            for item in code.on_processor
        ],
    }


def _names(code: HostCode, symbol: str) -> list[str]:
    """What the calls of a function compute, by the model's names."""
    return [name for call in code.calls if call.symbol == symbol for name in call.computes]


def _sizes(files: Mapping[str, Sequence[bytes]]) -> dict[str, int]:
    return {name: sum(map(len, files[name])) for name in sorted(files)}


def _part_lines(what: str, found: dict[str, Any]) -> list[str]:
    compiled = sum(found["compiled"].values())
    interpreted = sum(item["nodes"] for item in found["interpreted"])
    lines = [_compiled_line(what, compiled, _targets(found), interpreted)]
    for item in found["interpreted"]:
        lines.append(f"interpreted: {item['op']} ({_nodes(item['nodes'])}): {item['reason']}")
    for item in found.get("on_processor", ()):
        names, others = item["names"][:_NUM_NAMED], len(item["names"][_NUM_NAMED:])
        more = f" and {others} more" if others else ""
        kernels = f"the kernel{'s' if len(item['names']) > 1 else ''} of {', '.join(names)}{more}"
        lines.append(f"on the processor: {kernels}: {item['reason']}")
    return lines


def _targets(found: Mapping[str, Any]) -> list[str]:
    return [*found.get("architectures", ()), *found["levels"]]


def _compiled_line(what: str, compiled: int, targets: Sequence[str], interpreted: int) -> str:
    levels = f" for {', '.join(targets)}" if targets else ""
    return f"{what}: {_nodes(compiled)} compiled{levels}, {interpreted} interpreted"


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count:,} nodes"


def _operators(serialized: bytes) -> list[str]:
    return [node.op_type for node in ModelProto.FromString(serialized).graph.node]
