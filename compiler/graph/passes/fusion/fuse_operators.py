"""Fuses elementwise operators with the convolutions before them."""

from collections.abc import Iterator

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Attrs, Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS, FUSED, fused_attrs
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["fuse_operators"]

_OTHER_SIDE = {"a": "b", "b": "a"}
"""What sums and products call their operands: exchanged where the second one is fused."""


def fuse_operators(graph: Graph) -> Graph:
    """Fuse an elementwise operator with a convolution whose result nothing else reads
    (`daedal.compiler.graph.ops.fused`). Exact: the intermediate result is rounded as before, but
    never leaves the chip.

    The ALU works while the multipliers continue. If both operands of a sum are such results, the
    one with more products is fused, because it hides more of the ALU's time.

    Before::

        y = q_conv2d(x, w, p) ...
        z = q_add(s, y, q) multiplier_a=5 multiplier_b=3 ...

    After::

        z = q_conv2d_add(x, w, p, s, q) multiplier_a=3 multiplier_b=5 ...
    """
    return rewrite(graph, dict.fromkeys((tail for _, tail in FUSED), _fuse))


def _fuse(graph: Rewriter, node: Node) -> None:
    found = _candidates(graph, node)
    producer = max(found, key=lambda head: graph.types[head.inputs[1]].num_elements, default=None)
    if producer is None:
        return
    others = [name for name in node.inputs if name != producer.output]
    tail = node.attrs if node.inputs[0] == producer.output else _exchanged(node.attrs)
    graph.add(
        FUSED[producer.op, node.op].name,
        [*producer.inputs, *others],
        fused_attrs(producer.attrs, tail),
        output=node.output,
        name=node.name or producer.name,
    )


def _candidates(graph: Dataflow, node: Node) -> Iterator[Node]:
    """The nodes that `node` can be fused with."""
    for place, name in enumerate(node.inputs):
        producer = sole_producer(graph, name, CONVOLUTIONS)
        if producer is None or (producer.op, node.op) not in FUSED or node.inputs.count(name) > 1:
            continue
        # As the first operand it must not be the one that is broadcast.
        if place == 0 or graph.types[node.inputs[0]].shape == graph.types[name].shape:
            yield producer


def _exchanged(attrs: Attrs) -> Attrs:
    """Attributes of a sum or a product with its operands swapped."""
    return {
        f"{name[:-1]}{_OTHER_SIDE[name[-1]]}" if name[-2:] in ("_a", "_b") else name: value
        for name, value in attrs.items()
    }
