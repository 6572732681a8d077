"""Splits a graph into parts of one target each; the parts form a graph, too."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from daedal.common.errors import ModelError
from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.targets.names import ACCELERATOR, CPU, GPU
from daedal.compiler.targets.target import Target, targets_of

__all__ = ["Part", "assign_targets", "partition"]

_Place = tuple[int, str]
"""The level of a part, and its target's name: parts of one level do not depend on each other."""


@dataclass(frozen=True)
class Part:
    """A subgraph that one target runs without interruption.

    Parameters
    ----------
    name : unique: the target's name and a number.
    target : name of the target that runs it.
    needs : names of the parts whose results it reads, in the order in which they run.
    graph : reads results of earlier parts and computes those that later parts read. Outputs of the
        whole graph are outputs of the part that computes them.
    """

    name: str
    target: str
    needs: tuple[str, ...]
    graph: Graph


def partition(graph: Graph, on_gpu: Collection[str] = ()) -> tuple[Part, ...]:
    """Cut a graph wherever data goes from one target to another. Exact.

    A node runs in the earliest part possible. So there are no more parts than the data flow
    requires, and independent operators share one. A part comes after all that it needs. Of the
    CPU's nodes, those that compute the tensors `on_gpu` are a GPU's.

    Before::

        x_q = quantize(x, s, z)
        y_q = q_conv2d(x_q, w, p) ...
        y = dequantize(y_q, t, o)

    After::

        cpu0:                             x_q = quantize(x, s, z)
        accelerator0, which needs cpu0:   y_q = q_conv2d(x_q, w, p) ...
        cpu1, which needs accelerator0:   y = dequantize(y_q, t, o)

    Raises
    ------
    ModelError
        If no operator can run on the accelerator.
    """
    if not any(runs_on(node.op, ACCELERATOR) for node in graph.nodes):
        raise ModelError(
            f"at least one layer must run on the accelerator, but {graph.name!r} {_why(graph)}; "
            "quantize its layers to int8 (QDQ), or compile it with --target cpu"
        )
    places = _places(graph, on_gpu)
    members: dict[_Place, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(places[node.output], []).append(node)
    order = sorted(members, key=lambda place: place[0])
    names = _names(order)
    numbers = {place: number for number, place in enumerate(order)}
    return tuple(
        Part(
            name=names[place],
            target=place[1],
            needs=tuple(
                names[other]
                for other in sorted(_needs(graph, members[place], places), key=numbers.__getitem__)
            ),
            graph=_part(graph, places, place, members[place]),
        )
        for place in order
    )


def _why(graph: Graph) -> str:
    """Why nothing of the graph runs on the accelerator."""
    for node in graph.nodes:
        if node.note:
            return f"has none that it can run: {node.name or node.output!r}: {node.note}"
    return "has no integer operator between QuantizeLinear nodes"


def assign_targets(graph: Graph) -> Mapping[str, str]:
    """The target's name for each tensor of `graph` that is not constant: of the node that computes
    it.

    A node that several targets run goes where it ends first, together with the transfer of those of
    its operands that other targets have. Where that is equal, its operator's order counts. The CPU
    has the inputs.
    """
    found = dict.fromkeys(graph.inputs, CPU)
    for node in graph.nodes:
        first, *others = targets_of(graph, node)
        best = first
        if others:
            seconds = [_seconds(graph, node, target, found) for target in (first, *others)]
            best = (first, *others)[seconds.index(min(seconds))]
        found[node.output] = best.name
    return found


def _seconds(graph: Graph, node: Node, target: Target, found: Mapping[str, str]) -> float:
    """Estimated time of `node` on `target`, which fetches what other targets have."""
    names = {name for name in node.inputs if found.get(name, target.name) != target.name}
    size = sum(graph.types[name].size_bytes for name in names)
    return target.seconds(graph, node) + target.crossing_seconds(size)


def _places(graph: Graph, on_gpu: Collection[str]) -> Mapping[str, _Place]:
    """The part that computes each tensor. The CPU has the inputs at level 0."""
    targets = {**assign_targets(graph), **dict.fromkeys(on_gpu, GPU)}
    places: dict[str, _Place] = dict.fromkeys(graph.inputs, (0, CPU))
    for node in graph.nodes:
        target = targets[node.output]
        operands = [places[name] for name in node.inputs if name in places]
        levels = [level + (other != target) for level, other in operands]
        places[node.output] = max(levels, default=int(target != CPU)), target
    return places


def _names(order: list[_Place]) -> Mapping[_Place, str]:
    """A name for each part: the parts of a target are numbered in order."""
    names: dict[_Place, str] = {}
    counts: Counter[str] = Counter()
    for place in order:
        names[place] = f"{place[1]}{counts[place[1]]}"
        counts[place[1]] += 1
    return names


def _needs(graph: Graph, nodes: list[Node], places: Mapping[str, _Place]) -> set[_Place]:
    """The other parts that compute operands of `nodes`."""
    made = {name for node in nodes for name in node.inputs if name in graph.producers}
    return {places[name] for name in made} - {places[nodes[0].output]}


def _part(graph: Graph, places: Mapping[str, _Place], place: _Place, nodes: list[Node]) -> Graph:
    """The graph of one part."""
    entry = dict.fromkeys(
        name
        for node in nodes
        for name in node.inputs
        if name in places and (places[name] != place or name in graph.inputs)
    )
    exits = [
        node.output
        for node in nodes
        if node.output in graph.outputs
        or any(places[user.output] != place for user in graph.users[node.output])
    ]
    return extract(graph, tuple(entry), exits)
