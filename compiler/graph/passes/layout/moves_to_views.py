"""Makes moves of whole blocks free: tensors are stored where their readers expect them."""

import math

import numpy as np

from daedal.compiler.graph.aliases import Aliases, add_view, joined, shares_memory
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.permute import Q_PERMUTE, vector_order
from daedal.compiler.graph.ops.registry import get_op, ints
from daedal.compiler.graph.ops.views import run_of_blocks
from daedal.compiler.graph.passes.value_ranges import changes_nothing

__all__ = ["moves_to_views"]


def moves_to_views(graph: Graph) -> Graph:
    """Turn concats, slices, permutations and copies that keep all values and the order of bytes
    into views.

    Exact. An operand of a concat may be unable to share the result's memory: it is an input, or
    needs another place too. Such an operand is copied into the result, and the others remain views.
    A concat all of whose operands would be copied stays as it is.

    Parameters
    ----------
    graph : a blocked graph of accelerator operators only.

    Before::

        c = q_concat(a, b, p) channels=16,32 ...   # b is an input

    After::

        b.part = q_requantize(b, p.1) ...
        c = concat_view(a, b.part) channels=16,32
    """
    return _Rewrite(graph).run()


class _Rewrite:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._aliases = Aliases()

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for name in self._graph.inputs:
            self._aliases.add_input(name, self._size(name))
        for node in self._graph.nodes:
            if shares_memory(node):
                self._builder.copy_node(node)
                add_view(self._aliases, self._graph, node)
            elif not self._become_view(node):
                self._builder.copy_node(node)
                self._aliases.add_stored(node.output, self._size(node.output))
        return self._builder.finish(self._graph.outputs)

    def _become_view(self, node: Node) -> bool:
        """Add a view in place of `node` if possible, and return whether it was."""
        match node.op:
            case "q_concat":
                return self._concat(node)
            case "q_slice":
                return self._slice(node)
            case "q_requantize":
                return self._copy(node)
            case Q_PERMUTE.name:
                return self._permute(node)
        return False

    def _concat(self, node: Node) -> bool:
        *maps, params = node.inputs
        types = [self._graph.types[name] for name in maps]
        blocks = sum(kind.physical_shape[1] for kind in types)
        held = self._graph.types[node.output].physical_shape
        if held[0] > 1 or held[1] != blocks:
            return False
        rows = self._graph.constant(params)
        if not all(
            changes_nothing(self._graph, name, rows[n], node.attrs) for n, name in enumerate(maps)
        ):
            return False
        places = joined(self._graph, maps)
        kept = self._aliases.fitting(places)
        if not kept:
            return False
        parts = [
            name if n in kept else self._part(node, name, rows[n : n + 1])
            for n, name in enumerate(maps)
        ]
        attrs = {"channels": ints(node.attrs, "channels")}
        self._builder.add("concat_view", parts, attrs, output=node.output, name=node.name)
        runs = [run for _, run in places]
        self._aliases.add_joined(node.output, list(zip(parts, runs, strict=True)))
        return True

    def _part(self, node: Node, name: str, rows: Array) -> str:
        """A copy of `name`, with parameters that change nothing, for the concat `node`."""
        part = self._builder.fresh_name(f"{name}.part")
        params = self._builder.constant(self._builder.fresh_name(f"{part}.params"), rows)
        attrs = {key: node.attrs[key] for key in REQUANTIZE_ATTRS}
        self._builder.add("q_requantize", [name, params], attrs, output=part, name=node.name)
        self._builder.remember_same(name, part)
        self._aliases.add_stored(part, self._size(name))
        return part

    def _slice(self, node: Node) -> bool:
        x, params = node.inputs
        begins, ends = ints(node.attrs, "begins"), ints(node.attrs, "ends")
        run = None
        if set(ints(node.attrs, "steps")) == {1}:
            run = run_of_blocks(self._graph.types[x], begins, ends)
        if run is None or not self._can_lie_in(x, node):
            return False
        if not changes_nothing(self._graph, x, self._graph.constant(params), node.attrs):
            return False
        attrs = {"begins": begins, "ends": ends}
        self._builder.add("slice_view", [x], attrs, output=node.output, name=node.name)
        self._aliases.add_part(node.output, x, run[0])
        return True

    def _copy(self, node: Node) -> bool:
        x, params = node.inputs
        same = changes_nothing(self._graph, x, self._graph.constant(params), node.attrs)
        if not same or not self._can_lie_in(x, node):
            return False
        attrs = {"shape": self._graph.types[node.output].shape}
        self._builder.add("reshape_view", [x], attrs, output=node.output, name=node.name)
        self._aliases.add_part(node.output, x, 0)
        return True

    def _permute(self, node: Node) -> bool:
        """One that keeps the order of all vectors is a copy in another shape."""
        kind = self._graph.types[node.inputs[0]]
        assert isinstance(kind.layout, ActivationLayout)
        order = vector_order(kind.shape, node.attrs, kind.layout.block)
        in_order = order is not None and np.array_equal(order, np.arange(order.size))
        return in_order and self._copy(node)

    def _can_lie_in(self, x: str, node: Node) -> bool:
        """Whether the result of `node` may be a view of `x`. Views of inputs must not be outputs or
        operands of other views; constants have no views."""
        if self._aliases.is_open(x):
            return True
        views = any(get_op(user.op).is_view for user in self._graph.users[node.output])
        leaves = views or node.output in self._graph.outputs
        return not leaves and not self._graph.is_constant(x)

    def _size(self, name: str) -> int:
        return math.prod(self._graph.types[name].physical_shape)
