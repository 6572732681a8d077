"""Folds selections of channels into the convolutions before or after them."""

import math

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.selection import selected_channels

__all__ = ["fold_selections"]


def fold_selections(graph: Graph, *, block_in: int, block_out: int) -> Graph:
    """Let convolutions write or read channels in the selected order. Exact.

    If only the selection reads the convolution before it, that convolution's outputs are reordered.
    Otherwise, if only dense convolutions read the selection, their inputs are reordered. Merging
    several groups, or reading channels that are not selected, may take more products. They are
    never more than those of the selection itself.

    Parameters
    ----------
    block_in, block_out : shape of the variant's multiplier array.

    Before::

        x = q_conv2d(a, w, p) groups=4 ...
        s = q_conv2d(x, s.select, s.params) ...         # a selection
        y = q_conv2d(s, v, q) ...

    After::

        s = q_conv2d(a, w.selected, p.selected) groups=1 ...
        y = q_conv2d(s, v, q) ...
    """

    def step(graph: Graph) -> Graph | None:
        folded = _Fold(graph, block_in, block_out).run()
        return None if len(folded.nodes) == len(graph.nodes) else folded

    return to_fixpoint("fold_selections", graph, step, lambda graph: len(graph.nodes))


class _Fold:
    """One walk over the graph; a folded node may be a selection again."""

    def __init__(self, graph: Graph, block_in: int, block_out: int) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._block_in, self._block_out = block_in, block_out
        self._selections = {
            node.output: channels
            for node in graph.nodes
            if (channels := selected_channels(graph, node)) is not None
        }
        self._sources: dict[str, tuple[str, Array]] = {}

    def run(self) -> Graph:
        self._builder.copy_inputs()
        results = {
            self._graph.producers[name].inputs[0]: name
            for name in self._selections
            if self._folds_into_producer(name)
        }
        for node in self._graph.nodes:
            name = node.output
            if name in results.values():
                continue
            if name in self._selections and self._folds_into_readers(name):
                source, channels = node.inputs[0], self._selections[name]
                if source in self._sources:
                    source, order = self._sources[source]
                    channels = order[channels]
                self._sources[name] = source, channels
            elif name in results or (node.inputs and node.inputs[0] in self._sources):
                self._add_conv(node, results.get(name))
            else:
                self._builder.copy_node(node)
        return self._builder.finish(self._graph.outputs)

    def _folds_into_producer(self, name: str) -> bool:
        """Whether the selection `name` can be folded into the outputs of its producer."""
        source = self._graph.producers[name].inputs[0]
        conv = self._graph.producers.get(source)
        if conv is None or conv.op != "q_conv2d" or source in self._selections:
            return False
        if source in self._graph.outputs or len(self._graph.users[source]) > 1:
            return False
        shape = self._graph.types[conv.inputs[0]].shape
        now = self._products(conv)
        then = self._dense_products(conv, shape[1], len(self._selections[name]))
        return then - now <= self._products(self._graph.producers[name])

    def _folds_into_readers(self, name: str) -> bool:
        """Whether the selection `name` can be folded into the inputs of all its readers."""
        channels = self._selections[name]
        readers = self._graph.users[name]
        if name in self._graph.outputs or len(set(channels)) < len(channels):
            return False
        if any(node.op != "q_conv2d" or whole(node.attrs, "groups") > 1 for node in readers):
            return False
        own = self._graph.producers[name]
        count = self._graph.types[own.inputs[0]].shape[1]
        more = sum(
            self._dense_products(node, count, self._graph.types[node.output].shape[1])
            - self._products(node)
            for node in readers
        )
        return more <= self._products(own)

    def _products(self, conv: Node) -> int:
        """Block products that a convolution takes."""
        channels = self._graph.types[conv.inputs[0]].shape[1]
        count = self._graph.types[conv.output].shape[1]
        groups = whole(conv.attrs, "groups")
        dense = self._dense_products(conv, channels, count)
        if groups == 1:
            return dense
        if groups == channels == count:
            return dense // -(-channels // self._block_in)
        layout = GroupedWeightLayout(self._block_out, self._block_in, groups, (count, channels))
        return dense // layout.parts

    def _dense_products(self, conv: Node, ins: int, outs: int) -> int:
        """Block products that `conv` would take with `ins` and `outs` channels in one group."""
        _, _, *kernel = self._graph.types[conv.inputs[1]].shape
        images, _, *extents = self._graph.types[conv.output].shape
        blocks = -(-ins // self._block_in) * -(-outs // self._block_out)
        return blocks * images * math.prod(extents) * math.prod(kernel)

    def _add_conv(self, conv: Node, wanted: str | None) -> None:
        """Add `conv` with reordered inputs and, for the selection `wanted`, reordered outputs."""
        x, weights_name, params_name = conv.inputs
        weights, params = (self._graph.constant(name) for name in (weights_name, params_name))
        attrs = dict(conv.attrs)
        if x in self._sources:
            x, channels = self._sources[x]
            wide = np.zeros((len(weights), self._builder.types[x].shape[1], *weights.shape[2:]))
            wide[:, channels] = weights
            weights = wide.astype(np.int8)
        if wanted is not None:
            order = self._selections[wanted]
            weights, params = _dense(weights, whole(attrs, "groups"))[order], params[order]
            attrs["groups"] = 1
        operands = [
            self._builder.constant(self._builder.fresh_name(f"{name}.selected"), values)
            for name, values in ((weights_name, weights), (params_name, params))
        ]
        self._builder.add(
            conv.op, [x, *operands], attrs, output=wanted or conv.output, name=conv.name
        )


def _dense(weights: Array, groups: int) -> Array:
    """Weights (O, I / groups, KH, KW) with zeros between the groups: (O, I, KH, KW)."""
    outs, ins, *kernel = weights.shape
    dense = np.zeros((groups, outs // groups, groups, ins, *kernel), dtype=weights.dtype)
    every = np.arange(groups)
    dense[every, :, every] = weights.reshape(groups, outs // groups, ins, *kernel)
    return dense.reshape(outs, groups * ins, *kernel)
