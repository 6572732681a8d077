"""Pads the operands of matrix products to whole blocks."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import whole

__all__ = ["align_matmul"]


def align_matmul(graph: Graph, *, block: int) -> Graph:
    """Let integer matrix products sum over whole blocks and read whole weight rows. Exact.

    Both operands are padded with channels that hold their zero points, so they add nothing to the
    sums. The second one is also padded with rows of pixels; the result's columns from these are
    dropped.

    Before (blocks of 16)::

        y = q_matmul(a, b, f, p) columns=49 ...         # a, b: int8[1,24,7,7]

    After::

        a.blocks = q_pad(a, ...) pads=0,0,0,0,0,8,0,0 ...        # int8[1,32,7,7]
        b.blocks = q_pad(b, ...) pads=0,0,0,0,0,8,9,0 ...        # int8[1,32,16,7]
        y = q_matmul(a.blocks, b.blocks, f, p.blocks) columns=49 ...
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.op == "q_matmul":
            _align(graph, builder, node, block)
        else:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _align(graph: Graph, builder: GraphBuilder, node: Node, block: int) -> None:
    a, b, factor, params = node.inputs
    _, depth, height, width = graph.types[b].shape
    channels = -depth % block
    rows = next(extra for extra in range(block) if (height + extra) * width % block == 0)
    zero_points = tuple(whole(node.attrs, f"zero_point_{name}") for name in "ab")
    if channels:
        a = _padded(builder, a, (channels, 0), zero_points[0])
        values = graph.constant(params).copy()
        values[:, 0] += channels * zero_points[0] * zero_points[1]
        params = builder.constant(builder.fresh_name(f"{params}.blocks"), values)
    if channels or rows:
        b = _padded(builder, b, (channels, rows), zero_points[1])
    builder.copy_node(node, [a, b, factor, params])


def _padded(builder: GraphBuilder, name: str, extra: tuple[int, int], value: int) -> str:
    """A map padded with more channels and more rows at its end."""
    output = builder.fresh_name(f"{name}.blocks")
    same = builder.constant(builder.fresh_name(f"{output}.identity"), IDENTITY)
    attrs: dict[str, AttrValue] = {
        "pads": (0, 0, 0, 0, 0, *extra, 0),
        "pad_value": value,
        **UNCHANGED,
    }
    return builder.add("q_pad", [name, same], attrs, output=output)
