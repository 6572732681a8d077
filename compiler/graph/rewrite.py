"""Applies local rules to a graph until none of them changes anything.

A rule looks at one node and what is around it. It may add nodes in the node's place, the last of
which usually defines the node's result anew, or let the readers of the result read another tensor.
`Rewriter` keeps types, producers and users up to date with every change, so a rule costs what it
touches rather than the size of the graph.

Models: `PatternRewriter` and the greedy driver of MLIR.
"""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import Array, Attrs, Graph, Node
from daedal.compiler.graph.types import TensorType

__all__ = ["MAX_REWRITES", "Rewriter", "Rule", "rewrite", "walk"]

MAX_REWRITES = 100
"""How often rules may change a graph, for each of its nodes. Passes need a few."""

Rule = Callable[["Rewriter", Node], object]
"""Looks at a node, and changes the graph or not."""

Place = tuple[int, ...]
"""Where a node stands: places are compared in order. What replaces the node at ``(5, 2)`` stands at
``(5, 2, 0)``, ``(5, 2, 1)`` and so on."""


def rewrite(graph: Graph, rules: Mapping[str, Rule], max_rewrites: int = MAX_REWRITES) -> Graph:
    """The graph that rules leave unchanged; `graph` itself, if they change nothing.

    The nodes are looked at in order. A node is looked at again after a change of its operands, of
    what computes or reads them, or of its readers. Nodes whose result nothing reads any more are
    removed. Results keep their names and types.

    Each change must be right by itself, so it is always right to stop. That happens, with a warning
    that names the rule, after `max_rewrites` changes for each node of the graph.

    Parameters
    ----------
    rules : by the operators of the nodes that they look at.

    Warns
    -----
    RuntimeWarning
        The rules do not end.
    """
    return Rewriter(graph).run(rules, max_rewrites)


def walk(graph: Graph, rules: Mapping[str, Rule]) -> Graph:
    """As `rewrite`, but the rules look at each node of `graph` once and not at new ones. For rules
    that would change their own results again."""
    return Rewriter(graph, once=True).run(rules)


class Rewriter(GraphEditor):
    """A graph that rules change. It can be read as a `Dataflow`.

    A rule adds nodes with `add`, which stand in the place of the node that the rule looks at. One
    with the same output replaces it; the others must have new names.
    """

    def __init__(self, graph: Graph, *, once: bool = False) -> None:
        super().__init__(graph)
        self._graph, self._once = graph, once
        self.outputs = graph.outputs
        self.types = dict(graph.types)
        self.producers = dict(graph.producers)
        self.users = dict(graph.users)
        self._constants = {name: np.asarray(array) for name, array in graph.constants.items()}
        self._places: dict[str, Place] = {
            name: (number,) for name, number in graph.positions.items()
        }
        self._rules: Mapping[str, Rule] = {}
        self._queue: list[tuple[Place, str]] = []
        self._queued: set[str] = set()
        # The result and the place of the node that a rule looks at, and what the rule did.
        self._name, self._place = "", Place()
        self._num_added = self._num_changes = 0
        self._touched: list[str] = []

    def run(self, rules: Mapping[str, Rule], max_rewrites: int = MAX_REWRITES) -> Graph:
        """See `rewrite`."""
        self._rules = rules
        for each in self._graph.nodes:
            self._enqueue(each)
        limit = max_rewrites * len(self._graph.nodes)
        while self._queue:
            _, name = heappop(self._queue)
            self._queued.discard(name)
            node = self.producers.get(name)
            if node is None:
                continue
            self._apply(rules[node.op], node)
            if self._num_changes > limit:
                _warn(rules[node.op], node.op, limit)
                break
        return self._finish() if self._num_changes else self._graph

    def _apply(self, rule: Rule, node: Node) -> None:
        """Apply a rule to a node. If it changes nothing, what it has added is taken back."""
        self._name, self._place = node.output, self._places[node.output]
        self._num_added, before, mark = 0, self._num_changes, self.mark()
        rule(self, node)
        if self._num_changes > before:
            self._sweep()
        else:
            self.rewind(mark)
            self._touched.clear()

    def constant(self, name: str) -> Array:
        """Value of a constant, in the physical shape of its type."""
        return self._constants[name]

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is a constant."""
        return name in self._constants

    def replace(
        self, node: Node, inputs: Sequence[str], attrs: Attrs | None = None, *, op: str = ""
    ) -> None:
        """Replace the node by one with these operands, attributes and operator, if one of them is
        another. Attributes and operator that are not given stay."""
        op, attrs = op or node.op, node.attrs if attrs is None else attrs
        if (op, tuple(inputs), attrs) != (node.op, node.inputs, node.attrs):
            self.add(op, inputs, attrs, output=node.output, name=node.name, note=node.note)

    def substitute(self, name: str, other: str) -> None:
        """Let the nodes that read `name` read `other`, which has the same type and values."""
        assert name not in self.outputs and self.types[name] == self.types[other]
        for reader in self.users[name]:
            place = self._places[reader.output]
            assert self._places.get(other, Place()) < place, f"{reader} stands before {other!r}"
            self._detach(reader)
            inputs = tuple(other if item == name else item for item in reader.inputs)
            self._attach(replace(reader, inputs=inputs), place)
        self._touched += [name, other]
        self._num_changes += 1

    def _define(self, name: str, type_: TensorType) -> None:
        if name != self._name:
            super()._define(name, type_)
            self.users[name] = ()
        else:
            known = self.types[name]
            assert type_ == known, f"{name!r} is {known}, and its replacement {type_}"

    def _adopt(self, name: str) -> None:
        assert name in self.types, f"tensor {name!r} is read before it is defined"
        assert name != self._name, f"the replacement of {name!r} reads it"

    def _append(self, node: Node) -> None:
        if node.output == self._name:
            self._detach(self.producers[node.output])
            self._num_changes += 1
        self._attach(node, (*self._place, self._num_added))
        self._num_added += 1

    def _attach(self, node: Node, place: Place) -> None:
        """Put a node, whose result is defined, in a place."""
        self.producers[node.output] = node
        self._places[node.output] = place
        for name in dict.fromkeys(node.inputs):
            assert self._places.get(name, Place()) < place, f"{node} stands before {name!r}"
            readers = self.users[name]
            first = bisect_left(readers, place, key=lambda item: self._places[item.output])
            self.users[name] = (*readers[:first], node, *readers[first:])
        self._touched.append(node.output)

    def _detach(self, node: Node) -> None:
        """Take a node away from its operands."""
        for name in dict.fromkeys(node.inputs):
            self.users[name] = tuple(item for item in self.users[name] if item is not node)
        self._touched += node.inputs

    def _forget(self, name: str) -> None:
        node = self.producers.get(name)
        if node is not None:
            self._detach(node)
            del self.producers[name], self._places[name]
        del self.users[name]

    def _sweep(self) -> None:
        """Remove nodes that are no longer read, and look again at what is around changes."""
        while self._touched:
            name = self._touched.pop()
            node = self.producers.get(name)
            if node is None:
                continue
            if self.users[name] or name in self.outputs:
                for item in () if self._once else (node, *self.users[name]):
                    self._enqueue(item)
            else:
                self._forget(name)
                del self.types[name]
                if name not in self._taken:  # It may be in `views`.
                    self._taken |= {name}

    def _enqueue(self, node: Node) -> None:
        if node.op in self._rules and node.output not in self._queued:
            self._queued.add(node.output)
            heappush(self._queue, (self._places[node.output], node.output))

    def _finish(self) -> Graph:
        nodes = tuple(
            self.producers[name] for name in sorted(self._places, key=self._places.__getitem__)
        )
        order = [*self._graph.inputs]
        for node in nodes:
            order += [name for name in node.inputs if name in self._constants]
            order.append(node.output)
        order = list(dict.fromkeys((*order, *self.outputs)))
        return Graph(
            self._graph.name,
            self._graph.inputs,
            self.outputs,
            nodes,
            {name: self._constants[name] for name in order if name in self._constants},
            {name: self.types[name] for name in order},
            self._taken,
            self._views(),
            self._graph.outside,
        )


def _warn(rule: Rule, op: str, limit: int) -> None:
    warnings.warn(
        f"the rule for {op} of pass {rule.__module__.rpartition('.')[2]} stopped after more than "
        f"{limit} changes; the result is right but may be slower than needed, please report the "
        "model",
        RuntimeWarning,
        stacklevel=4,
    )
