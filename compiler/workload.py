"""`Workload`: what determines the code of a layer; tuning records have it as their key.

Two layers with equal workloads have the same configurations, and each takes the same cycles for
both. Scales, zero points, multipliers and bounds are not part of it: they change immediates, not
the code. Input: a node of the blocked graph. Output: a description as plain data, and its hash.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["Workload"]

_COUNTS = ("columns", "groups")
"""Integer attributes that are extents; all others are numbers of the quantization."""


@dataclass(frozen=True)
class Workload:
    """A layer's operator, geometry, shapes and layouts, as canonical JSON."""

    text: str

    @classmethod
    def of(cls, graph: Graph, node: Node) -> "Workload":
        """The workload of a node on the accelerator."""
        kinds = get_op(node.op).attrs
        attrs: dict[str, Any] = {
            name: value
            for name, value in node.attrs.items()
            if kinds[name] == "ints" or name in _COUNTS
        }
        if "pad_value" in node.attrs:
            # Products with zeros are left out.
            attrs["pads_with_zero"] = node.attrs["pad_value"] == 0
        tensors = [graph.types[name] for name in (*node.inputs, node.output)]
        description = {
            "op": node.op,
            "attrs": attrs,
            "tensors": [
                {"type": str(kind), "physical": list(kind.physical_shape)} for kind in tensors
            ],
            # An operand that is given twice is loaded once.
            "operands": [node.inputs.index(name) for name in node.inputs],
        }
        return cls(json.dumps(description, sort_keys=True, separators=(",", ":")))

    @property
    def key(self) -> str:
        """SHA-256 of the description, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> Mapping[str, Any]:
        """The description."""
        data: Mapping[str, Any] = json.loads(self.text)
        return data

    def __str__(self) -> str:
        data = self.to_json()
        types = [tensor["type"] for tensor in data["tensors"]]
        return f"{data['op']} {' '.join(types[:2])} -> {types[-1]}"
