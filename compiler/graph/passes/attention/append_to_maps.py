"""Lets new rows be stored in states as the matrix products of attention read them."""

import math

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.attention_heads import KEYS, AttentionHeads
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.append import has_states
from daedal.compiler.graph.ops.integer import IDENTITY
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.passes.attention.align_matmul import with_padding
from daedal.compiler.graph.passes.layout.move_transposes import move_transposes
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.passes.simplify.simplify_reshapes import simplify_reshapes
from daedal.compiler.graph.passes.simplify.simplify_transposes import simplify_transposes
from daedal.compiler.graph.selection import add_selection, add_transposed
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.views import add_moved, is_in_order, source_of

__all__ = ["append_to_maps"]


def append_to_maps(graph: Graph, *, block: int) -> Graph:
    """Give every state the shape of the map that a matrix product makes of it. Exact.

    A state has no form outside the device, so it is stored as the product reads it. Heads narrower
    than `block` share one. The queries of all of them are rows of one product. A query of keys has
    its zero point in the channels of the other heads; of the products with values, each query takes
    those of its own head.

    Before::

        all = append(keys, new) axis=2 begin=256        # int8[1,4,272,8], new: int8[1,4,1,8]
        k = reshape(transpose(all))                     # int8[4,8,272,1]
        s = q_matmul(q, k, f, p) ...                    # q: int8[8,8,1,1], s: int8[8,272,1,1]

    After::

        all = q_append(keys, reshape(new), ...) axis=2 begin=256    # int8[2,16,272,1]
        q.rows = images_to_pixels(reshape(q_conv2d(q, ...)))        # int8[2,16,4,1]
        s = reshape(transpose(q_matmul(q.rows, all, f, p) ...))     # of int8[2,272,4,1]

    Raises ModelError as `AttentionHeads.of`, and for attention of several tokens.
    """
    if not has_states(graph):
        return graph
    for step in (
        lambda given: _Rewrite(given, block).run(),
        eliminate_dead_code,
        simplify_transposes,
        simplify_reshapes,
        move_transposes,
    ):
        graph = step(graph)
    return graph


class _Rewrite:
    def __init__(self, graph: Graph, block: int) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._heads = {
            node.output: AttentionHeads.of(graph, node, block)
            for node in graph.nodes
            if node.op == "append"
        }
        self._products = {
            heads.product.output: (name, heads) for name, heads in self._heads.items()
        }

    def run(self) -> Graph:
        states = {
            node.inputs[0]: self._heads[node.output]
            for node in self._graph.nodes
            if node.op == "append"
        }
        for name in self._graph.inputs:
            kind = self._graph.types[name]
            if name in states:
                kind = TensorType(states[name].shape, kind.dtype)
            self._builder.input(name, kind)
        for node in self._graph.nodes:
            if node.op == "append":
                self._append(node, self._heads[node.output])
            elif node.output in self._products:
                state, heads = self._products[node.output]
                multiply = self._scores if heads.axis == KEYS else self._mixed
                multiply(node, state, heads)
            elif not self._views_state(node):
                self._builder.copy_node(node)
        return self._builder.finish(self._graph.outputs)

    def _views_state(self, node: Node) -> bool:
        """Whether the node is a view of a state in its old shape."""
        return any(source_of(self._graph, name)[0] in self._heads for name in node.inputs)

    def _append(self, node: Node, heads: AttentionHeads) -> None:
        state, new = node.inputs
        column = self._reshaped(new, (1, heads.new.size, 1, 1))
        rows = self._pixels(column, heads) if heads.axis == KEYS else self._turned(column, heads)
        params = self._builder.fresh_constant(f"{node.output}.params", IDENTITY)
        attrs = {"axis": heads.axis, "begin": whole(node.attrs, "begin")}
        operands = [state, rows, params]
        self._builder.add("q_append", operands, attrs, output=node.output, name=node.name)

    def _pixels(self, column: str, heads: AttentionHeads) -> str:
        """The new pixel of every image."""
        places = heads.new_places
        if not is_in_order(places):
            column = self._selected(column, places, 0)
        return self._reshaped(column, (*places.shape, 1, 1))

    def _turned(self, column: str, heads: AttentionHeads) -> str:
        """The new channel of every pixel: each is a row of the identity times the channels."""
        channels = np.arange(heads.new.size).reshape(1, -1, 1)
        identity = channels == heads.new_places[:, None]
        output = add_transposed(self._builder, column, identity.astype(np.int8), column)
        if is_in_order(heads.new_places):
            self._builder.remember_same(output, column)
        return output

    def _scores(self, node: Node, state: str, heads: AttentionHeads) -> None:
        """The product of queries and keys."""
        a, _, *others = node.inputs
        zeros = [whole(node.attrs, f"zero_point_{role}") for role in "ab"]
        root, places = source_of(self._graph, a)
        count = self._graph.types[root].num_elements
        if self._graph.types[root].shape[2:] != (1, 1):
            raise ModelError(
                f"attention over a state must be that of a single token, and {node} is not; "
                "leave the states out"
            )
        images, width, *_ = self._graph.types[a].shape
        elements = places().reshape(images, width, -1).transpose(0, 2, 1).reshape(-1, width)
        channels = np.full((len(elements), heads.lanes), -1)
        np.put_along_axis(channels, heads.own_lanes, elements, axis=1)
        column = self._selected(self._reshaped(root, (1, count, 1, 1)), channels, zeros[0])
        queries = self._reshaped(column, (*channels.shape, 1, 1))
        if heads.in_pixels:
            attrs, base = {"pixels": heads.query_shape[1]}, f"{a}.rows"
            queries = self._builder.add_fresh("images_to_pixels", [queries], attrs, base=base)
        missing = (heads.lanes - width) * math.prod(zeros)
        others[-1] = with_padding(self._graph, self._builder, others[-1], missing)
        product = self._product(node, [queries, state, *others], heads.rows)
        shape = self._graph.types[node.output].shape
        back = np.argsort(heads.regrouped(shape).reshape(-1)).astype(np.int32).reshape(shape)
        assert add_moved(self._builder, product, back, node.output), "it is a transpose"

    def _mixed(self, node: Node, state: str, heads: AttentionHeads) -> None:
        """The product of probabilities and values."""
        a, _, *others = node.inputs
        shape = self._graph.types[node.output].shape
        queries = self._builder.fresh_name(f"{a}.rows")
        order = heads.regrouped(self._graph.types[a].shape)
        assert add_moved(self._builder, a, order, queries), "it is a transpose"
        product = self._product(node, [queries, state, *others], heads.lanes)
        if heads.in_pixels:
            base = f"{product}.images"
            product = self._builder.add_fresh("pixels_to_images", [product], base=base)
        count = heads.heads * heads.queries
        column = self._reshaped(product, (1, count * heads.lanes, 1, 1))
        lanes = np.arange(count)[:, None] * heads.lanes + heads.own_lanes
        images, width, *_ = shape
        chosen = lanes.reshape(images, -1, width).transpose(0, 2, 1).reshape(-1)
        output = self._builder.fresh_name(f"{product}.own")
        own = add_selection(self._builder, column, chosen, output, output)
        self._builder.add("reshape", [own], {"shape": shape}, output=node.output)

    def _product(self, node: Node, operands: list[str], columns: int) -> str:
        attrs, base = {**node.attrs, "columns": columns}, f"{node.output}.groups"
        return self._builder.add_fresh(node.op, operands, attrs, base=base, name=node.name)

    def _selected(self, x: str, channels: Array, value: int) -> str:
        """The channels of a map of one pixel that are listed, and `value` for -1."""
        output = self._builder.fresh_name(f"{x}.selected")
        return add_selection(self._builder, x, channels.reshape(-1), output, value=value)

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        return self._builder.add_fresh("reshape", [name], {"shape": shape}, base=f"{name}.view")
