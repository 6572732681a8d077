"""Lets elementwise operators on a single token work on the channels that its layers compute."""

from daedal.compiler.graph.dataflow import Dataflow, first_behind, is_accelerated
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.rewrite import Rewriter, rewrite

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
    return rewrite(graph, dict.fromkeys(ELEMENTWISE, _join))


def _join(graph: Rewriter, node: Node) -> None:
    kind = graph.types[node.output]
    shape = (1, kind.num_elements, 1, 1)
    parameters = 1 if table_of(node.op, node.inputs) is None else 2
    data, others = node.inputs[:-parameters], node.inputs[-parameters:]
    if kind.shape == shape or any(graph.types[name].shape != kind.shape for name in data):
        return
    found = [_column(graph, name, shape) for name in data]
    if not any(found):
        return
    columns = [
        column or graph.add_fresh("reshape", [name], {"shape": shape}, base=f"{name}.column")
        for name, column in zip(data, found, strict=True)
    ]
    base = f"{node.output}.column"
    output = graph.add_fresh(node.op, (*columns, *others), node.attrs, base=base, name=node.name)
    graph.add("reshape", [output], {"shape": kind.shape}, output=node.output)


def _column(graph: Dataflow, name: str, shape: tuple[int, ...]) -> str | None:
    """The map of one pixel that `name` reshapes, computed on the accelerator; else None."""
    name = first_behind(graph, name, ("reshape",))
    return name if is_accelerated(graph, name) and graph.types[name].shape == shape else None
