"""`workload_of`: what determines the code of a layer; configurations and records have it as key.

Two layers with equal workloads have the same configurations, and each takes the same cycles for
both. Scales, zero points, multipliers and bounds are not part of it: they change immediates, not
the code. Input: a node of the blocked graph. Output: its `Workload`.
"""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.tune.workload import Workload

__all__ = ["workload_of"]

_EXTENTS = ("columns", "groups")
"""Integer attributes that are extents; all others are numbers of the quantization."""


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
