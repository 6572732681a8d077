"""Cuts a part out of a graph, between named tensors."""

from collections.abc import Sequence

from daedal.common.errors import ModelError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph

__all__ = ["extract"]


def extract(graph: Graph, from_tensors: Sequence[str], to_tensors: Sequence[str]) -> Graph:
    """The graph that computes `to_tensors` from `from_tensors`.

    An empty `from_tensors` means the inputs of the graph, an empty `to_tensors` its outputs.
    Unused `from_tensors` are left out.

    Raises
    ------
    ModelError
        For an unknown tensor, and for an output that needs a graph input beyond `from_tensors`.
    """
    starts = tuple(from_tensors) or graph.inputs
    ends = tuple(to_tensors) or graph.outputs
    for name in (*starts, *ends):
        if name not in graph.types or graph.is_constant(name):
            raise ModelError(
                f"a cut must name tensors that the graph computes, not {name!r}; "
                f"some it has: {', '.join(_suggest(graph))}"
            )
    needed = _needed(graph, set(starts), ends)
    builder = GraphBuilder(graph.name, graph)
    for name in dict.fromkeys(starts):
        if name in needed:
            builder.input(name, graph.types[name])
    computed = [name for name in needed.difference(starts) if name in graph.producers]
    for name in sorted(computed, key=graph.positions.__getitem__):
        builder.copy_node(graph.producers[name])
    return builder.finish(tuple(dict.fromkeys(ends)))


def _needed(graph: Graph, starts: set[str], ends: Sequence[str]) -> set[str]:
    """Tensors on the paths backwards from `ends` to `starts`, both included."""
    found, stack = set(ends), list(ends)
    while stack:
        name = stack.pop()
        if name in starts or graph.is_constant(name):
            continue
        if name in graph.inputs:
            raise ModelError(
                f"a cut must have every input it needs, but {ends[0]!r} also needs {name!r}; "
                f"add {name!r} to the tensors it starts from"
            )
        fresh = [item for item in graph.producers[name].inputs if item not in found]
        found.update(fresh)
        stack.extend(fresh)
    return found


def _suggest(graph: Graph) -> tuple[str, ...]:
    """A few tensor names for an error message: the first and the last ones computed."""
    names = [node.output for node in graph.nodes]
    return tuple(names if len(names) <= 6 else [*names[:3], *names[-3:]])
