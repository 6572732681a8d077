"""Splits a graph into alternating parts for host and accelerator, with the fewest launches."""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.target import ACCELERATOR, CPU, Target
from daedal.isa.errors import ModelError

__all__ = ["Part", "partition"]


@dataclass(frozen=True)
class Part:
    """A subgraph that either host or accelerator runs without interruption.

    Parameters
    ----------
    graph : reads results of earlier parts and computes those that later parts read. Outputs of the
        whole graph are outputs of the part that computes them.
    target : what runs it. A part for the accelerator becomes one program.
    """

    graph: Graph
    target: Target


def partition(graph: Graph) -> tuple[Part, ...]:
    """Cut a graph wherever data goes from the host to the accelerator or back. Exact.

    A node runs in the earliest part possible. So there are no more launches than the data flow
    requires, and independent operators share one.

    Before::

        x_q = quantize(x, s, z)
        y_q = q_conv2d(x_q, w, p) ...
        y = dequantize(y_q, t, o)

    After::

        host:        x_q = quantize(x, s, z)
        accelerator: y_q = q_conv2d(x_q, w, p) ...
        host:        y = dequantize(y_q, t, o)

    Raises
    ------
    ModelError
        If no operator can run on the accelerator.
    """
    if not any(runs_on(node.op, ACCELERATOR) for node in graph.nodes):
        raise ModelError(
            f"at least one layer must run on the accelerator, but {graph.name!r} has no integer "
            "operator between QuantizeLinear nodes; quantize its layers to int8 (QDQ)"
        )
    turns = _turns(graph)
    members: dict[int, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(turns[node.output], []).append(node)
    return tuple(
        Part(_part(graph, turns, turn, members[turn]), (CPU, ACCELERATOR)[turn % 2])
        for turn in sorted(members)
    )


def _turns(graph: Graph) -> Mapping[str, int]:
    """The turn in which each tensor is computed; the host has the even turns, the accelerator the
    odd ones."""
    turns = dict.fromkeys(graph.inputs, 0)
    for node in graph.nodes:
        earliest = max((turns[name] for name in node.inputs if name in turns), default=0)
        turns[node.output] = earliest + (earliest % 2 != runs_on(node.op, ACCELERATOR))
    return turns


def _part(graph: Graph, turns: Mapping[str, int], turn: int, nodes: list[Node]) -> Graph:
    """The graph of one turn."""
    entry = dict.fromkeys(
        name
        for node in nodes
        for name in node.inputs
        if name in turns and (turns[name] != turn or name in graph.inputs)
    )
    exits = [
        node.output
        for node in nodes
        if node.output in graph.outputs
        or any(turns[user.output] != turn for user in graph.users[node.output])
    ]
    return extract(graph, tuple(entry), exits)
