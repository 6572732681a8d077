"""Joins an addition with the convolution before it, whose result then never leaves the chip."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import ActivationLayout, WeightLayout
from daedal.compiler.graph.ops.convolution_add import CONV_PREFIX
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS

__all__ = ["fuse_residual_add"]


def fuse_residual_add(graph: Graph) -> Graph:
    """Make one operator of a `q_add` and a `q_conv2d` that nothing else reads. Exact.

    The ALU adds while the multipliers work on. Where both operands are such convolutions, the one
    with more products is taken: more time to hide in.

    Before::

        y = q_conv2d(x, w, p) ...
        z = q_add(y, s, q) multiplier_a=3 multiplier_b=5 ...

    After::

        z = q_conv2d_add(x, w, p, s, q) multiplier_conv=3 multiplier_skip=5 ...
    """
    joined = {}
    for node in graph.nodes:
        conv = _producer(graph, node) if node.op == "q_add" else None
        if conv is not None:
            joined[node.output] = conv
    gone = {conv.output for conv in joined.values()}
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
    """The convolution that `node`, an addition, can be joined with."""
    shape = graph.types[node.output].shape
    found = [
        graph.producers[name]
        for name in dict.fromkeys(node.inputs[:2])
        if name in graph.producers and _fits(graph, graph.producers[name])
    ]
    found = [conv for conv in found if graph.types[_other(node, conv)].shape == shape]
    return max(found, key=lambda conv: graph.types[conv.inputs[1]].num_elements, default=None)


def _fits(graph: Graph, conv: Node) -> bool:
    """Whether it is a dense convolution in one group that only the addition reads, once."""
    if conv.op != "q_conv2d" or conv.output in graph.outputs:
        return False
    layouts = [graph.types[name].layout for name in conv.inputs[:2]]
    dense = isinstance(layouts[0], ActivationLayout) and type(layouts[1]) is WeightLayout
    readers = [
        user for user in graph.users[conv.output] for name in user.inputs if name == conv.output
    ]
    return dense and conv.attrs["groups"] == 1 and len(readers) == 1


def _other(add: Node, conv: Node) -> str:
    a, b, _ = add.inputs
    return b if a == conv.output else a


def _add(builder: GraphBuilder, conv: Node, add: Node) -> None:
    """Append the joined operator."""
    x, w, conv_params = conv.inputs
    first, second = add.attrs["multiplier_a"], add.attrs["multiplier_b"]
    if add.inputs[0] != conv.output:
        first, second = second, first
    attrs = {
        **{name: conv.attrs[name] for name in conv.attrs if name not in REQUANTIZE_ATTRS},
        **{CONV_PREFIX + name: conv.attrs[name] for name in REQUANTIZE_ATTRS},
        "multiplier_conv": first,
        "multiplier_skip": second,
        **{name: add.attrs[name] for name in REQUANTIZE_ATTRS},
    }
    operands = [x, w, conv_params, _other(add, conv), add.inputs[2]]
    builder.add("q_conv2d_add", operands, attrs, output=add.output, name=add.name or conv.name)
