"""Splits a projection to queries, keys and values into one for each."""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.passes.value_ranges import changes_nothing
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import is_pixelwise

__all__ = ["split_projections"]


def split_projections(graph: Graph) -> Graph:
    """Compute slices of a 1x1 convolution's channels by convolutions of their own. Exact.

    This is done where a matrix product reads a slice, whose pixels are then padded, or whose rows
    and columns are exchanged, without the others.

    Before::

        x = q_conv2d(a, w, p) ...                       # int8[1,192,50,1]
        q = q_slice(x, i) begins=0,0,0,0 ends=1,64,50,1 ...
        k = q_slice(x, i) begins=0,64,0,0 ends=1,128,50,1 ...

    After::

        q = q_conv2d(a, w.q, p.q) ...                   # int8[1,64,50,1]
        k = q_conv2d(a, w.k, p.k) ...
    """
    parts = {name: node for node in graph.nodes for name in _slices(graph, node)}

    def split(graph: Rewriter, node: Node) -> None:
        if node.output in parts:
            _split(graph, parts[node.output], node)

    return rewrite(graph, {"q_slice": split})


def _slices(graph: Graph, node: Node) -> list[str]:
    """The slices of channels that replace the result of `node`, if they do."""
    if not is_pixelwise(graph, node) or node.output in graph.outputs:
        return []
    users = graph.users[node.output]
    if not all(_selects_channels(graph, user) for user in users):
        return []
    count = sum(graph.types[user.output].shape[1] for user in users)
    if count > graph.types[node.output].shape[1]:
        return []
    fed = any(_feeds_product(graph, user.output) for user in users)
    return [user.output for user in users] if fed else []


def _selects_channels(graph: Graph, node: Node) -> bool:
    if node.op != "q_slice":
        return False
    begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
    shape = graph.types[node.inputs[0]].shape
    return begins[2:] == (0, 0) and ends[2:] == shape[2:] and steps[2:] == (1, 1)


def _feeds_product(graph: Graph, name: str) -> bool:
    """Whether a matrix product reads the tensor through views."""
    return any(
        user.op in MATMULS
        or (user.op in ("reshape", "transpose") and _feeds_product(graph, user.output))
        for user in graph.users[name]
    )


def _split(graph: Rewriter, conv: Node, node: Node) -> None:
    """Replace the slice `node` of the result of `conv` by a convolution."""
    x, *constants = conv.inputs
    rows = slice(*(ints(node.attrs, name)[1] for name in ("begins", "ends", "steps")))
    operands = [
        x,
        *(graph.fresh_constant(f"{name}.part", graph.constant(name)[rows]) for name in constants),
    ]
    params = graph.constant(node.inputs[1])
    if changes_nothing(graph, conv.output, params, node.attrs):
        graph.add(conv.op, operands, conv.attrs, output=node.output, name=conv.name)
        return
    base = f"{node.output}.part"
    part = graph.add_fresh(conv.op, operands, conv.attrs, base=base, name=conv.name)
    attrs = {name: node.attrs[name] for name in REQUANTIZE_ATTRS}
    graph.replace(node, [part, node.inputs[1]], attrs, op="q_requantize")
