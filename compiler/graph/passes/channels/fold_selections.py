"""Folds selections of channels into the convolutions before or after them."""

import math

import numpy as np

from daedal.compiler.graph.dataflow import sole_producer
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.ops.append import has_states
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter
from daedal.compiler.graph.selection import selected_channels

__all__ = ["fold_selections"]


def fold_selections(graph: Graph, *, block_in: int, block_out: int) -> Graph:
    """Let convolutions write or read channels in the selected order. Exact.

    If only the selection reads the convolution before it, that convolution's outputs are reordered.
    Otherwise, if only dense convolutions read the selection, their inputs are reordered. Merging
    several groups, or reading channels that are not selected, may take more products. They are
    never more than those of the selection itself. In a decoder's step, which loads a block of
    weights for each product, readers take no more: selections of all layers share their weights,
    which stay on chip between tokens.

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
        return None if folded is graph else folded

    return to_fixpoint("fold_selections", graph, step, lambda graph: len(graph.nodes))


class _Fold:
    """One walk over the graph; a folded node may be a selection again."""

    def __init__(self, graph: Graph, block_in: int, block_out: int) -> None:
        self._graph = graph
        self._new = Rewriter(graph, once=True)
        self._block_in, self._block_out = block_in, block_out
        self._is_step = has_states(graph)
        self._selections = {
            node.output: channels
            for node in graph.nodes
            if (channels := selected_channels(graph, node)) is not None
        }
        self._sources: dict[str, tuple[str, Array]] = {}

    def run(self) -> Graph:
        return self._new.run({"q_conv2d": lambda _, node: self._fold(node)})

    def _fold(self, node: Node) -> None:
        name, source = node.output, node.inputs[0]
        if name in self._selections and self._folds_into_producer(name):
            self._add_conv(self._graph.producers[source], name)
        elif name in self._selections and self._folds_into_readers(name):
            channels = self._selections[name]
            if source in self._sources:
                source, order = self._sources[source]
                channels = order[channels]
            self._sources[name] = source, channels
        elif source in self._sources:
            self._add_conv(node, name)

    def _folds_into_producer(self, name: str) -> bool:
        """Whether the selection `name` can be folded into the outputs of its producer."""
        source = self._graph.producers[name].inputs[0]
        conv = sole_producer(self._graph, source, ("q_conv2d",))
        if conv is None or source in self._selections:
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
        if self._is_step and self._graph.types[name].shape[2:] == (1, 1):
            return more <= 0
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

    def _add_conv(self, conv: Node, output: str) -> None:
        """Add `conv` with reordered inputs and, if `output` is a selection, reordered outputs."""
        x, weights_name, params_name = conv.inputs
        weights, params = (self._graph.constant(name) for name in (weights_name, params_name))
        attrs = dict(conv.attrs)
        if x in self._sources:
            x, channels = self._sources[x]
            wide = np.zeros((len(weights), self._new.types[x].shape[1], *weights.shape[2:]))
            wide[:, channels] = weights
            weights = wide.astype(np.int8)
        if output != conv.output:
            order = self._selections[output]
            weights, params = _dense(weights, whole(attrs, "groups"))[order], params[order]
            attrs["groups"] = 1
        operands = [
            self._new.fresh_constant(f"{name}.selected", values)
            for name, values in ((weights_name, weights), (params_name, params))
        ]
        self._new.add(conv.op, [x, *operands], attrs, output=output, name=conv.name)


def _dense(weights: Array, groups: int) -> Array:
    """Weights (O, I / groups, KH, KW) with zeros between the groups: (O, I, KH, KW)."""
    outs, ins, *kernel = weights.shape
    dense = np.zeros((groups, outs // groups, groups, ins, *kernel), dtype=weights.dtype)
    every = np.arange(groups)
    dense[every, :, every] = weights.reshape(groups, outs // groups, ins, *kernel)
    return dense.reshape(outs, groups * ins, *kernel)
