"""Finds the nodes of the host's parts; only nodes over constants are in several of them.

Input: the imported graph, and what each part has to compute (`HostTask`). Output: for each part,
its graph and the names of its outputs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.foreign import is_random
from daedal.compiler.graph.paths import needed_nodes

__all__ = ["HostParts", "HostTask"]


@dataclass(frozen=True)
class HostTask:
    """Inputs of a host part, in addition to the results of earlier parts, and its required outputs,
    as names of the model's tensors."""

    known: frozenset[str]
    wanted: tuple[str, ...]


class HostParts:
    """The nodes of each host part: of the graph, and of those outside it, which follow.

    A node runs in the first part that needs it. Nodes that depend only on constants are repeated in
    every part that reads them.
    """

    def __init__(self, graph: Graph, tasks: Sequence[HostTask]) -> None:
        self._graph = graph
        self._tasks = tasks
        self._nodes = (*graph.nodes, *graph.outside.nodes)
        self._given = graph.constants.keys() | graph.outside.constants.keys()
        # The outputs of one node of ONNX are nodes of the graph that run together.
        together = dict[object, tuple[str, ...]]()
        for node in graph.nodes:
            if (proto := node.attrs.get("proto")) is not None:
                together[proto] = (*together.get(proto, ()), *node.outputs)
        reads = [(*node.inputs, *together.get(node.attrs.get("proto"), ())) for node in self._nodes]
        producers = {name: place for place, node in enumerate(self._nodes) for name in node.outputs}
        self._parts: list[list[int]] = []
        constant, owned = self._constant(), set[int]()
        for task in tasks:
            known, wanted = task.known, task.wanted
            needed = needed_nodes(producers, reads.__getitem__, known, wanted, self._given)
            self._parts.append(sorted(needed - owned))
            owned |= needed - constant

    @property
    def computed(self) -> frozenset[str]:
        """The tensors that some part computes."""
        numbers = set[int]().union(*self._parts)
        return frozenset(_made(self._nodes[number] for number in numbers))

    def outputs(self, index: int) -> tuple[str, ...]:
        """What a part computes for its task or for later parts."""
        later = set[str]()
        for number in range(index + 1, len(self._parts)):
            task, nodes = self._tasks[number], self._nodes_of(number)
            later |= {*_read(nodes), *task.wanted} - set(_made(nodes)) - task.known
        own = _made(self._nodes_of(index))
        given = {*own, *self._graph.outside.constants}
        names = [name for name in self._tasks[index].wanted if name in given]
        return tuple(dict.fromkeys([*names, *(name for name in own if name in later)]))

    def graph(self, index: int) -> Graph:
        """The graph of a part; what is read outside it is among its outputs."""
        source, nodes = self._graph, self._nodes_of(index)
        builder = GraphBuilder(source.name, source)
        known = self._given.union(_made(nodes))
        for name in dict.fromkeys(_read(nodes)):
            if name not in known:
                builder.input(name, source.types[name])
        inner = [node for node in nodes if node.outputs[0] in source.types]
        for node in inner:
            builder.copy_node(node)
        beyond = tuple(nodes[len(inner) :])
        made, read = set(_made(inner)), [*self.outputs(index), *_read(beyond)]
        graph = builder.finish(tuple(dict.fromkeys(name for name in read if name in made)))
        return replace(graph, outside=replace(source.outside, nodes=beyond))

    def _nodes_of(self, index: int) -> list[Node]:
        return [self._nodes[number] for number in self._parts[index]]

    def _constant(self) -> set[int]:
        """The nodes that depend on no input of the model."""
        known, found = set(self._given), set[int]()
        for number, node in enumerate(self._nodes):
            if known.issuperset(node.inputs) and not is_random(str(node.attrs.get("op_type", ""))):
                known.update(node.outputs)
                found.add(number)
        return found


def _read(nodes: Iterable[Node]) -> list[str]:
    return [name for node in nodes for name in node.inputs]


def _made(nodes: Iterable[Node]) -> list[str]:
    return [name for node in nodes for name in node.outputs]
