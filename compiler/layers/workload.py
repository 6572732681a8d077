"""`workload_of` and `layer_kinds`: what determines the code of a layer.

Configurations and records have it as key. Two layers with equal workloads have the same
configurations, and each takes the same cycles for both. Scales, zero points, multipliers and bounds
are not part of it: they change immediates, not the code, except for values that need other
instructions. Input: a node of the blocked graph. Output: its `Workload`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONV_PREFIX
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.integer_pooling import Q_MAX_POOL
from daedal.compiler.graph.ops.registry import get_op, whole
from daedal.compiler.ops.accelerator.lowering import keeps_values
from daedal.compiler.tune.workload import Workload

__all__ = ["LayerKind", "layer_kinds", "workload_of"]

_EXTENTS = ("columns", "groups")
"""Integer attributes that are extents; all others are numbers of the quantization."""

_IMMEDIATES = frozenset(
    ("pad_value", *REQUANTIZE_ATTRS, *(CONV_PREFIX + name for name in REQUANTIZE_ATTRS))
)
"""Integer attributes of which no value needs other instructions."""

_STRUCTURAL = (0, 1, -128)
"""Values that need other instructions than others do: nothing is added or multiplied, and a zero
point of -128 is subtracted in two products (`daedal.compiler.graph.ops.matmul.correction`)."""


def workload_of(graph: Graph, node: Node) -> Workload:
    """The workload of a node on the accelerator."""
    kinds = get_op(node.op).attrs
    attributes = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in node.attrs.items()
        if kinds[name] == "ints" or name in _EXTENTS
    }
    if "pad_value" in node.attrs:
        # Products with zeros are left out.
        attributes["pads_with_zero"] = node.attrs["pad_value"] == 0
    attributes |= _structure(graph, node)
    # An operand that is given twice is loaded once.
    operands = [str(node.inputs.index(name)) for name in node.inputs]
    names = [f"operand {number}" for number in range(len(operands))]
    kinds_of = dict(zip((*names, "result"), (*node.inputs, node.output), strict=True))
    types = {role: graph.types[name] for role, name in kinds_of.items()}
    return Workload.of(
        node.op,
        attributes={**attributes, "operands": operands},
        shapes={role: kind.physical_shape for role, kind in types.items()},
        layouts={role: str(kind) for role, kind in types.items()},
    )


def _structure(graph: Graph, node: Node) -> dict[str, Any]:
    """What the numbers of the quantization say of the instructions."""
    found: dict[str, Any] = {
        name: value if value in _STRUCTURAL else "number"
        for name, value in node.attrs.items()
        if get_op(node.op).attrs[name] == "int" and name not in {*_EXTENTS, *_IMMEDIATES}
    }
    if "multiplier_positive" in node.attrs:
        positive, negative = (whole(node.attrs, f"multiplier_{sign}") for sign in _SIGNS)
        found["larger_multiplier"] = np.sign(positive - negative).item()
    if node.op == Q_MAX_POOL.name:
        found["keeps_values"] = keeps_values(graph, node)
    return found


_SIGNS = ("positive", "negative")


@dataclass(frozen=True)
class LayerKind:
    """The first layer of a workload, and how many layers have it.

    Attributes
    ----------
    key : of the workload.
    """

    key: str
    graph: Graph
    node: Node
    count: int


def layer_kinds(graphs: Iterable[Graph]) -> list[LayerKind]:
    """The kinds of layers in blocked graphs, without views, in the order of their first layers."""
    found: dict[str, list[tuple[Graph, Node]]] = {}
    for graph in graphs:
        for node in graph.nodes:
            if not get_op(node.op).is_view:
                found.setdefault(workload_of(graph, node).key, []).append((graph, node))
    return [LayerKind(key, *layers[0], len(layers)) for key, layers in found.items()]
