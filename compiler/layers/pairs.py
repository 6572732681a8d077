"""Pairs of layers whose tiles are chosen together: a convolution and a depthwise one, in any order.

Input: a graph after all passes, and a node. Output: the `Pair` that it is in.
"""

from typing import NamedTuple

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import DepthwiseLayout
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.ops.space import Config

__all__ = ["Pair", "PairTiles", "pair_of"]


class Pair(NamedTuple):
    """Two layers, of which the second one reads the result of the first."""

    first: Node
    second: Node


class PairTiles(NamedTuple):
    """The tiles of a pair, and by how many cycles both layers are faster with them than with their
    usual ones, estimated."""

    first: Config
    second: Config
    gain: float

    def of(self, pair: Pair, node: Node) -> Config:
        """The tile of `node`, which is one of the pair."""
        return self.first if node.output == pair.first.output else self.second


def pair_of(graph: Graph, node: Node, *, depthwise_first: bool = False) -> Pair | None:
    """The pair of which `node` is the first or the second layer; None if there is none.

    Of its layers, which follow each other, one is depthwise: the second one, or with
    `depthwise_first` the first. Nothing else reads what is between them.
    """
    order = (depthwise_first, not depthwise_first)
    for first in (node, graph.producers.get(node.inputs[0])):
        users = () if first is None else graph.users[first.output]
        if first is None or len(users) != 1:
            continue
        pair = Pair(first, users[0])
        adjacent = graph.positions[pair.second.output] == graph.positions[first.output] + 1
        if not adjacent or pair.second.inputs[0] != first.output:
            continue
        if tuple(_is_depthwise(graph, layer) for layer in pair) == order:
            return pair
    return None


def _is_depthwise(graph: Graph, node: Node) -> bool | None:
    """None for a node that is no convolution."""
    if node.op not in CONVOLUTIONS:
        return None
    return isinstance(graph.types[node.inputs[1]].layout, DepthwiseLayout)
