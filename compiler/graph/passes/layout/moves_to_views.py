"""Makes moves of whole blocks free: tensors are stored where their readers expect them."""

import math
from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.aliases import Aliases, add_view, columns, joined, shares_memory
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Attrs, Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.integer import IDENTITY, REQUANTIZE_ATTRS, UNCHANGED
from daedal.compiler.graph.ops.permute import Q_PERMUTE, vector_order
from daedal.compiler.graph.ops.registry import get_op, ints
from daedal.compiler.graph.ops.views import COLUMNS_VIEW, ROWS_VIEW, run_of_blocks
from daedal.compiler.graph.passes.value_ranges import changes_nothing

__all__ = ["moves_to_views"]

_DENSE = (*MATMULS, Q_PERMUTE.name)
"""Operators that store or load several rows of a map as one, as if it were a single row."""


def moves_to_views(graph: Graph, *, block_out: int = 0) -> Graph:
    """Turn concats, slices, permutations and copies that keep all values and the order of bytes
    into views.

    Exact. An operand of a concat may be unable to share the result's memory: it is an input, or
    needs another place too. Such an operand is copied into the result, and the others remain views.
    A concat all of whose operands would be copied stays as it is. Rows and columns that are joined
    are views already; what cannot lie in them is copied.

    Parameters
    ----------
    graph : a blocked graph of accelerator operators only.
    block_out : lanes of parameters; 0: as many as a block of channels has.

    Before::

        c = q_concat(a, b, p) channels=16,32 ...   # b is an input

    After::

        b.part = q_requantize(b, p.1) ...
        c = concat_view(a, b.part) channels=16,32
    """
    return _Rewrite(graph, block_out).run()


class _Rewrite:
    def __init__(self, graph: Graph, block_out: int) -> None:
        self._graph = graph
        self._block_out = block_out
        self._builder = GraphBuilder(graph.name, graph)
        self._aliases = Aliases()

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for name in self._graph.inputs:
            self._aliases.add_input(name, self._size(name))
        for node in self._graph.nodes:
            if node.op == ROWS_VIEW.name:
                self._join_rows(node)
            elif node.op == COLUMNS_VIEW.name:
                self._join_columns(node)
            elif shares_memory(node):
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
                copied = self._copy(node)
                if copied:
                    self._builder.remember_same(node.inputs[0], node.output)
                return copied
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
            name if n in kept else self._part(node, name, rows[n : n + 1], node.attrs)
            for n, name in enumerate(maps)
        ]
        attrs = {"channels": ints(node.attrs, "channels")}
        self._builder.add("concat_view", parts, attrs, output=node.output, name=node.name)
        runs = [run for _, run in places]
        self._aliases.add_joined(node.output, list(zip(parts, runs, strict=True)))
        return True

    def _join_rows(self, node: Node) -> None:
        """A view that always is one; what cannot lie in it is copied."""
        blocks = self._graph.types[node.output].physical_shape[1]
        if blocks == 1:
            self._add_rows(node, node.inputs, node.output)
            return
        channels = self._graph.types[node.output].shape[1]
        layout = self._layout_of(node.output)
        groups = [
            (begin, min(begin + layout.block, channels))
            for begin in range(0, channels, layout.block)
        ]
        joined_groups = []
        for begin, end in groups:
            parts = [self._channels(node, name, begin, end) for name in node.inputs]
            rows = self._builder.fresh_name(f"{node.output}.rows")
            self._add_rows(node, parts, rows)
            joined_groups.append(rows)
        attrs = {"channels": tuple(end - begin for begin, end in groups)}
        self._builder.add("concat_view", joined_groups, attrs, output=node.output, name=node.name)
        self._aliases.add_joined(node.output, joined(self._builder, joined_groups))

    def _add_rows(self, node: Node, names: Sequence[str], output: str) -> None:
        """Add the rows of maps of one block of channels."""
        places = joined(self._builder, names)
        kept = self._aliases.fitting(places)
        parts = [
            name if n in kept else self._part(node, name, self._identity(name), UNCHANGED)
            for n, name in enumerate(names)
        ]
        self._builder.add(node.op, parts, output=output, name=node.name)
        runs = [run for _, run in places]
        self._aliases.add_joined(output, list(zip(parts, runs, strict=True)))

    def _join_columns(self, node: Node) -> None:
        """A view that always is one; what cannot be stored at the stride of its rows is copied."""
        parts: list[str] = []
        for name in node.inputs:
            kept = name not in parts and self._can_be_columns(name)
            parts.append(name if kept else self._part(node, name, self._identity(name), UNCHANGED))
        self._builder.add(node.op, parts, output=node.output, name=node.name)
        places = columns(self._builder, parts)
        self._aliases.add_columns(node.output, self._size(node.output), places)

    def _can_be_columns(self, name: str) -> bool:
        """Whether the rows of a tensor can lie apart: for what stores it, and for all readers."""
        producer = self._graph.producers.get(name)
        if producer is None or name in self._graph.outputs or not self._aliases.is_alone(name):
            return False
        readers = (user for user in self._graph.users[name] if user.op != COLUMNS_VIEW.name)
        touching = (producer, *readers)
        return not any(shares_memory(other) or other.op in _DENSE for other in touching)

    def _channels(self, node: Node, name: str, begin: int, end: int) -> str:
        """A copy of a block of channels."""
        kind = self._graph.types[name]
        assert kind.shape[0] == 1
        attrs = {"begins": (0, begin, 0, 0), "ends": (1, end, *kind.shape[2:])}
        view = self._builder.add_fresh("slice_view", [name], attrs, base=f"{name}.channels")
        box = tuple(zip(attrs["begins"], attrs["ends"], strict=True))
        self._builder.remember_part(name, view, kind.shape, box)
        run = run_of_blocks(kind, attrs["begins"], attrs["ends"])
        assert run is not None, "a block of channels is one run"
        self._aliases.add_part(view, name, run[0])
        return self._part(node, view, self._identity(name), UNCHANGED)

    def _identity(self, name: str) -> Array:
        """Parameters that change nothing."""
        lanes = self._block_out or self._layout_of(name).block
        return np.repeat(IDENTITY[:, None], lanes, axis=1)

    def _layout_of(self, name: str) -> ActivationLayout:
        layout = self._graph.types[name].layout
        assert isinstance(layout, ActivationLayout)
        return layout

    def _part(self, node: Node, name: str, rows: Array, finish: Attrs) -> str:
        """A copy of `name`, with parameters that change nothing, for the concat `node`."""
        part = self._builder.fresh_name(f"{name}.part")
        params = self._builder.fresh_constant(f"{part}.params", rows)
        attrs = {key: finish[key] for key in REQUANTIZE_ATTRS}
        self._builder.add("q_requantize", [name, params], attrs, output=part, name=node.name)
        self._builder.remember_same(name, part)
        self._aliases.add_stored(part, math.prod(self._builder.types[name].physical_shape))
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
        if not (in_order and self._copy(node)):
            return False
        split, turned = ints(node.attrs, "split"), ints(node.attrs, "order")
        self._builder.remember_moved(node.inputs[0], node.output, split, turned)
        return True

    def _can_lie_in(self, x: str, node: Node) -> bool:
        """Whether the result of `node` may be a view of `x`. Views of inputs must not be outputs or
        operands of other views; constants, and columns of other tensors, have no views."""
        if not self._aliases.is_dense(x):
            return False
        if self._aliases.is_open(x):
            return True
        views = any(get_op(user.op).is_view for user in self._graph.users[node.output])
        leaves = views or node.output in self._graph.outputs
        return not leaves and not self._graph.is_constant(x)

    def _size(self, name: str) -> int:
        return math.prod(self._graph.types[name].physical_shape)
