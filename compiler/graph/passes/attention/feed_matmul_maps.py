"""Lets integer matrix products read maps directly, since only the order of the pixels matters."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.attention import MATMULS, masks_of

__all__ = ["feed_matmul_maps"]


def feed_matmul_maps(graph: Graph) -> Graph:
    """Skip reshapes that only join the pixels of a map before a `q_matmul`. Exact.

    The result has the rows and columns of the first operand, so a reshape is added after it.
    `simplify_reshapes` drops that one where the result is read as a map again.

    Before::

        b = reshape(a) shape=1,64,49,1      # a: int8[1,64,7,7]
        y = q_matmul(b, c, f, p) ...        # int8[1,32,49,1]

    After::

        y.map = q_matmul(a, c, f, p) ...    # int8[1,32,7,7]
        y = reshape(y.map) shape=1,32,49,1
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    maps: dict[str, str] = {}
    for node in graph.nodes:
        if node.op not in MATMULS:
            builder.copy_node(node)
            continue
        a, b, *constants = node.inputs
        source, other = (
            maps.get(found, found) for found in (_map_behind(graph, a), _map_behind(graph, b))
        )
        if source == a or any(graph.types[name].shape[2:] != (1, 1) for name in masks_of(node)):
            builder.copy_node(node, [a, other, *constants])
            continue
        maps[node.output] = name = builder.fresh_name(f"{node.output}.map")
        builder.add(node.op, [source, other, *constants], node.attrs, output=name, name=node.name)
        shape = graph.types[node.output].shape
        builder.add("reshape", [name], {"shape": shape}, output=node.output)
    return builder.finish(graph.outputs)


def _map_behind(graph: Graph, name: str) -> str:
    """The map that `name` reshapes, if it has the same images and channels; else `name`."""
    producer = graph.producers.get(name)
    while producer is not None and producer.op == "reshape":
        source = producer.inputs[0]
        before = graph.types[source].shape
        if len(before) == 4 and before[:2] == graph.types[name].shape[:2]:
            return source
        producer = graph.producers.get(source)
    return name
