"""Lets elementwise operators on a single token work on the channels that its layers compute."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["join_columns"]


def join_columns(graph: Graph) -> Graph:
    """Move reshapes of maps of one pixel behind elementwise operators. Exact.

    `simplify_reshapes` joins those that follow each other.

    The elements of a single token are channels of one pixel. Split into heads they would be
    channels, rows and columns, which lie elsewhere in memory.

    Before::

        h = reshape(q) shape=1,8,1,8            # q: int8[1,64,1,1]
        y = q_mul(h, c, p) ...                  # c: int8[1,8,1,8], of the host

    After::

        c.column = reshape(c) shape=1,64,1,1
        y.column = q_mul(q, c.column, p) ...
        y = reshape(y.column) shape=1,8,1,8
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    columns: dict[str, str] = {}
    for node in graph.nodes:
        if node.op not in ELEMENTWISE or not _join(graph, builder, node, columns):
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _join(graph: Graph, builder: GraphBuilder, node: Node, columns: dict[str, str]) -> bool:
    """Add the operator on columns, or return False."""
    kind = graph.types[node.output]
    parameters = 1 if table_of(node.op, node.inputs) is None else 2
    data = node.inputs[:-parameters]
    shape = (1, kind.num_elements, 1, 1)
    if kind.shape == shape or any(graph.types[name].shape != kind.shape for name in data):
        return False
    found = [_column(graph, name, shape, columns) for name in data]
    if not any(found):
        return False
    operands = []
    for name, column in zip(data, found, strict=True):
        if column is None:
            column = builder.fresh_name(f"{name}.column")
            builder.add("reshape", [name], {"shape": shape}, output=column)
        operands.append(column)
    output = columns[node.output] = builder.fresh_name(f"{node.output}.column")
    operands += node.inputs[-parameters:]
    builder.add(node.op, operands, node.attrs, output=output, name=node.name)
    builder.add("reshape", [output], {"shape": kind.shape}, output=node.output)
    return True


def _column(graph: Graph, name: str, shape: tuple[int, ...], columns: dict[str, str]) -> str | None:
    """The map of one pixel that `name` reshapes, computed on the accelerator; else None."""
    while name not in columns:
        producer = graph.producers.get(name)
        if producer is None:
            return None
        kind = graph.types[name]
        if runs_on(producer.op, ACCELERATOR):
            return name if kind.rank == MAP_RANK and kind.shape == shape else None
        if producer.op != "reshape":
            return None
        name = producer.inputs[0]
    return columns[name]
