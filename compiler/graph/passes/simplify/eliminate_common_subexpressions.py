"""Common subexpression elimination, for nodes and for equal constants."""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.graph.same_elements import is_host_view
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["eliminate_common_subexpressions"]


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """Replace duplicate nodes and equal constants by the first of them. Exact.

    Constants are equal if their types and bytes are equal. Only nodes of the accelerator, and views
    that the driver makes for it, are merged, because the host's parts are cut out of the model by
    tensor name. For the same reason, a node is kept if its result is an output of the graph or is
    read by the host.

    Before::

        const p: int64[1,3]
        const q: int64[1,3]                 # the same numbers
        y = q_requantize(x, p) ...
        z = q_requantize(x, q) ...
        a = q_add(y, z, r) ...

    After::

        const p: int64[1,3]
        y = q_requantize(x, p) ...
        a = q_add(y, y, r) ...
    """
    first = _equal_constants(graph)
    known: dict[object, str] = {}

    def merge(new: Rewriter, node: Node) -> None:
        inputs = tuple(first.get(name, name) for name in node.inputs)
        kind = (node.op, inputs, tuple(sorted(node.attrs.items())))
        same = known.setdefault(kind, node.output) if _mergeable(graph, node) else node.output
        if same == node.output:
            new.replace(node, inputs)
        else:
            new.substitute(node.output, same)

    return walk(graph, dict.fromkeys((node.op for node in graph.nodes), merge))


def _equal_constants(graph: Graph) -> dict[str, str]:
    """The first equal constant, for every constant."""
    found: dict[object, str] = {}
    return {
        name: found.setdefault((graph.types[name], array.tobytes()), name)
        for name, array in graph.constants.items()
    }


def _mergeable(graph: Graph, node: Node) -> bool:
    """Whether only the accelerator computes and reads its result, or it is a view for that."""
    if node.output in graph.outputs or not (_is_accelerated(node) or is_host_view(node)):
        return False
    view = is_host_view(node)
    return all(
        _is_accelerated(item) or (view and is_host_view(item)) for item in graph.users[node.output]
    )


def _is_accelerated(node: Node) -> bool:
    return runs_on(node.op, ACCELERATOR)
