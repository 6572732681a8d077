"""`LayerCode`: the segment of each layer; identical layers are scheduled once.

Networks repeat their layers. Schedule and code depend only on the operator, its attributes, and the
types of operands and result. A layer that differs from an earlier one only in names reuses its
segment, renamed.
"""

from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.segment import Segment, joined, renamed
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator.lowering import LoweredNode, lower_node
from daedal.isa.variant import Variant

__all__ = ["LayerCode"]


class LayerCode:
    """Lowers and emits nodes for `variant`, of all launches of a network."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._known: dict[object, tuple[list[LoweredNode], Segment]] = {}

    def of(self, graph: Graph, node: Node) -> tuple[list[LoweredNode], Segment]:
        """The lowered form of `node` (or of the first identical node), and its segment.

        Raises ScheduleError as `lower_node` does.
        """
        kind = _kind(graph, node)
        if kind not in self._known:
            lowered = lower_node(graph, node, self._variant)
            parts = [
                emit_segment(item.schedule.func, self._variant, item.tensors, views=item.views)
                for item in lowered
            ]
            self._known[kind] = lowered, joined(parts, node.output)
        lowered, segment = self._known[kind]
        first = lowered[0].node
        if first is node:
            return lowered, segment
        names = dict(zip((*first.inputs, first.output), (*node.inputs, node.output), strict=True))
        return lowered, renamed(segment, node.output, names)


def _kind(graph: Graph, node: Node) -> object:
    """A key that is equal for nodes with the same code."""
    return (
        node.op,
        tuple(sorted(node.attrs.items())),
        tuple(graph.types[name] for name in (*node.inputs, node.output)),
        tuple(node.inputs.index(name) for name in node.inputs),
    )
