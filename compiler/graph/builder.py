"""Builds graphs node by node, inferring the type of every output as it is added."""

from collections.abc import Collection, Sequence

import numpy as np

from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import Array, Graph, Node, Outside
from daedal.compiler.graph.types import TensorType

__all__ = ["GraphBuilder"]


class GraphBuilder(GraphEditor):
    """Collects inputs, constants and nodes; `finish` gives the graph.

    Passes rebuild a graph by walking the old one in order: `copy_inputs`, then `add` or
    `copy_node`. Constants of the old graph come along when a node first reads them.

    Parameters
    ----------
    source : the old graph.
    taken : names that `fresh_name` must not give, in addition to those of `source`.
    """

    def __init__(self, name: str, source: Graph | None = None, taken: Collection[str] = ()) -> None:
        super().__init__(source, taken)
        self._name = name
        self._inputs: list[str] = []
        self._nodes: list[Node] = []

    def copy_inputs(self) -> None:
        """Declare every input of the source graph."""
        assert self._source is not None
        for name in self._source.inputs:
            self.input(name, self._source.types[name])

    def copy_node(self, node: Node, inputs: Sequence[str] | None = None) -> str:
        """Add a node of the source graph again, reading `inputs` instead where given."""
        operands = node.inputs if inputs is None else tuple(inputs)
        if self._is_unchanged(node, operands):
            assert self._source is not None
            self._define(node.output, self._source.types[node.output])
            self._nodes.append(node)
            return node.output
        return self.add(
            node.op, operands, node.attrs, output=node.output, name=node.name, note=node.note
        )

    def _is_unchanged(self, node: Node, operands: tuple[str, ...]) -> bool:
        """Whether `node` is one of the source and its operands are the same: so is its result."""
        source = self._source
        if (
            source is None
            or operands != node.inputs
            or source.producers.get(node.output) is not node
        ):
            return False
        for name in operands:
            self._adopt(name)
        return all(self.types[name] == source.types[name] for name in operands)

    def input(self, name: str, type_: TensorType) -> str:
        """Declare a graph input."""
        self._define(name, type_)
        self._inputs.append(name)
        return name

    def constant(self, name: str, array: Array, type_: TensorType | None = None) -> str:
        """Define a constant; without `type_` it is plain and has the dtype of its array."""
        return self._define_constant(name, array, type_)

    def is_defined(self, name: str) -> bool:
        """Whether a tensor of that name exists already."""
        return name in self.types

    def value(self, name: str) -> Array | None:
        """The array of a constant, or None for any other tensor."""
        return self._constants.get(name)

    def producer(self, name: str) -> Node | None:
        """The node that computes a tensor, if one does."""
        return next((node for node in reversed(self._nodes) if name in node.outputs), None)

    def is_computed(self, name: str) -> bool:
        """Whether a tensor depends on an input of the graph."""
        needed = {name}
        for node in reversed(self._nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        return not needed.isdisjoint(self._inputs)

    def finish(self, outputs: Sequence[str]) -> Graph:
        """The graph with these outputs; constants that no node reads are left out."""
        for name in outputs:
            self._adopt(name)
        used = {name for node in self._nodes for name in node.inputs} | set(outputs)
        constants = {name: array for name, array in self._constants.items() if name in used}
        dropped = self._constants.keys() - constants.keys()
        types = {name: type_ for name, type_ in self.types.items() if name not in dropped}
        return Graph(
            self._name,
            tuple(self._inputs),
            tuple(outputs),
            tuple(self._nodes),
            constants,
            types,
            self._taken,
            self._views(),
            self._source.outside if self._source else Outside(),
        )

    def _append(self, node: Node) -> None:
        self._nodes.append(node)

    def _forget(self, name: str) -> None:
        if self._nodes and self._nodes[-1].output == name:
            self._nodes.pop()

    def _adopt(self, name: str) -> None:
        """Take a constant over from the source graph on first use."""
        if name in self.types:
            return
        assert self._source is not None and name in self._source.constants, (
            f"tensor {name!r} is read before it is defined"
        )
        self._constants[name] = np.asarray(self._source.constants[name])
        self.types[name] = self._source.types[name]
