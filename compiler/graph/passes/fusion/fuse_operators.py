"""Fuses injective operators with the convolutions before them, by the classes of both."""

from collections.abc import Iterator

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Attrs, Graph, Node
from daedal.compiler.graph.ops.fused import fused_attrs, fused_operator
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["fuse_operators"]

_OTHER_SIDE = {"a": "b", "b": "a"}
"""What sums and products call their operands: exchanged where the second one is fused."""


def fuse_operators(graph: Graph) -> Graph:
    """Fuse an injective operator with a complex one whose result nothing else reads.
    Exact: the intermediate result is rounded as before, but never leaves the chip.

    The ALU works while the multipliers continue. If both operands of a sum are such results, the
    one with more products is fused, because it hides more of the ALU's time.

    Before::

        y = q_conv2d(x, w, p) ...
        z = q_add(s, y, q) multiplier_a=5 multiplier_b=3 ...

    After::

        z = q_conv2d_add(x, w, p, s, q) multiplier_a=3 multiplier_b=5 ...
    """
    joined = {}
    for node in graph.nodes:
        producer = _producer(graph, node)
        if producer is not None:
            joined[node.output] = producer
    gone = {producer.output for producer in joined.values()}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.output in gone:
            continue
        if node.output in joined:
            _add(builder, joined[node.output], node)
        else:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _producer(graph: Graph, node: Node) -> Node | None:
    """The node that `node` can be fused with, or None."""
    found = list(_candidates(graph, node))
    return max(found, key=lambda other: graph.types[other.inputs[1]].num_elements, default=None)


def _candidates(graph: Graph, node: Node) -> Iterator[Node]:
    for place, name in enumerate(node.inputs):
        producer = graph.producers.get(name)
        if producer is None or fused_operator(get_op(producer.op), get_op(node.op)) is None:
            continue
        if place > 0 and graph.types[node.inputs[0]].shape != graph.types[name].shape:
            # As the first operand it would be the one that is broadcast.
            continue
        if name not in graph.outputs and _times_read(graph, name) == 1:
            yield producer


def _times_read(graph: Graph, name: str) -> int:
    return sum(user.inputs.count(name) for user in graph.users[name])


def _add(builder: GraphBuilder, producer: Node, node: Node) -> None:
    """Append the fused operator."""
    operator = fused_operator(get_op(producer.op), get_op(node.op))
    assert operator is not None, f"{producer.op} and {node.op} are fused"
    others = [name for name in node.inputs if name != producer.output]
    tail = node.attrs if node.inputs[0] == producer.output else _exchanged(node.attrs)
    builder.add(
        operator.name,
        [*producer.inputs, *others],
        fused_attrs(producer.attrs, tail),
        output=node.output,
        name=node.name or producer.name,
    )


def _exchanged(attrs: Attrs) -> Attrs:
    """Attributes of a sum or a product with its operands swapped."""
    return {
        f"{name[:-1]}{_OTHER_SIDE[name[-1]]}" if name[-2:] in ("_a", "_b") else name: value
        for name, value in attrs.items()
    }
