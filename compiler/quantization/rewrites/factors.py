"""Moves numbers that multiply tensors into the constants that these are computed from."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.dataflow import is_read_once
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.patterns import add_onnx, factor_of

__all__ = ["move_factors"]

_VIEWS = ("Expand", "matmul", "reshape", "transpose")
"""Operators whose result is a multiple if the first operand is."""


def move_factors(graph: Graph) -> Graph:
    """Multiply weights, biases and other constants by a number instead of what they give. Exact
    but for the rounding of the constants.

    Nothing else may read the tensors between.

    Before::

        q = dense(x, w, b) transposed=0
        h = reshape(q) shape=1,50,2,32
        y = mul(h, 0.5)

    After::

        q.scaled = dense(x, w.scaled, b.scaled) transposed=0
        y = reshape(q.scaled) shape=1,50,2,32
    """
    moves = _Moves(graph)
    for node in reversed(graph.nodes):
        moves.look_at(node)
    return moves.run() if moves.removed else graph


class _Moves:
    """What tensors are multiplied by, and their names after that."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._factors: dict[str, np.float32] = {}
        self._names: dict[str, str] = {}
        self.removed: set[str] = set()

    def look_at(self, node: Node) -> None:
        """Move the factor of a node before it, if there is one. Its readers were looked at."""
        factor = self._factors.get(node.output)
        found = factor_of(self._graph, node) if node.op == "mul" else None
        if found is not None and self._is_movable(node, found[0]):
            self.removed.add(node.output)
            self._names[found[0]] = self._names.get(node.output, node.output)
            self._factors[found[0]] = np.float32(found[1]) * (factor or np.float32(1))
        elif factor is not None:
            for name in self._multiplied(node):
                if not self._graph.is_constant(name):
                    self._factors[name] = factor
                    self._names[name] = self._builder.fresh_name(f"{name}.scaled")

    def run(self) -> Graph:
        """The graph with all factors moved."""
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            operands = [self._names.get(name, name) for name in node.inputs]
            if node.output in self.removed:
                continue
            if node.output in self._factors:
                self._add_multiple(node, operands)
            else:
                self._builder.copy_node(node, operands)
        return self._builder.finish(self._graph.outputs)

    def _is_movable(self, node: Node, x: str) -> bool:
        types = self._graph.types
        return types[x] == types[node.output] and self._takes_factor(x)

    def _takes_factor(self, name: str) -> bool:
        """Whether a multiple of the tensor can be computed instead of it."""
        node, readers = self._graph.producers.get(name), self._graph.users[name]
        if node is None or not is_read_once(self._graph, name):
            return False
        return readers[0].inputs.count(name) == 1 and bool(self._multiplied(node))

    def _multiplied(self, node: Node) -> Sequence[str]:
        """The operands that are multiplied instead of the result; none, if that is not possible."""
        first, *rest = node.inputs
        constants = [name for name in node.inputs if self._graph.is_constant(name)]
        match kind_of(node):
            case "conv2d" | "dense" if constants == rest:
                return rest
            case "mul" if constants:
                return constants[:1]
            case "mul":
                return [name for name in node.inputs if self._takes_factor(name)][:1]
            case "add":
                return node.inputs if all(map(self._takes_factor, node.inputs)) else ()
            case kind if kind in _VIEWS:
                return [first] if self._takes_factor(first) else ()
        return ()

    def _add_multiple(self, node: Node, operands: list[str]) -> None:
        """Add a node that gives a multiple; of its operands, the constants are as they were."""
        output, factor = self._names[node.output], self._factors[node.output]
        for place, name in enumerate(node.inputs):
            if self._graph.is_constant(name) and name in self._multiplied(node):
                values = self._graph.constant(name) * factor
                operands[place] = self._builder.fresh_constant(f"{name}.scaled", values)
        if node.op == "onnx":
            shape = self._graph.types[node.output].shape
            add_onnx(self._builder, kind_of(node), operands, shape, output=output, name=node.name)
        else:
            self._builder.add(node.op, operands, node.attrs, output=output, name=node.name)
