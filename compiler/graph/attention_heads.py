"""How the heads of attention over a state share blocks of channels."""

import math
from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.views import source_of

__all__ = ["KEYS", "VALUES", "AttentionHeads"]

KEYS, VALUES = 2, 1
"""The axis of the rows in the map of a state: they are pixels of keys, and channels of values."""


@dataclass(frozen=True)
class AttentionHeads:
    """The heads of a state that a matrix product reads.

    *Queries* are the rows of the product's first operand: the pixels of all its images, in order.
    Heads that together fill a block form a *group*.

    Attributes
    ----------
    product : reads the state as its second operand.
    axis : of the state's rows in its map: `KEYS` or `VALUES`.
    rows : of the state.
    heads, width : of the state, and channels of each.
    queries : for each head.
    together : heads in a group.
    lanes : channels of a group, in whole blocks.
    in_pixels : whether the queries of a group are the pixels of an image; else each is an image.
    new : (heads, width): the element of the new rows.
    """

    product: Node
    axis: int
    rows: int
    heads: int
    width: int
    queries: int
    together: int
    lanes: int
    in_pixels: bool
    new: Array

    @classmethod
    def of(cls, graph: Graph, node: Node, block: int) -> "AttentionHeads":
        """Those of the state that `node` appends to.

        Raises ModelError for a state that no product, or several, read as their second operand, or
        that is read in another order.
        """
        product = _reader(graph, node)
        view = product.inputs[1]
        shape, whole_shape = graph.types[view].shape, graph.types[node.output].shape
        grown, begin = whole(node.attrs, "axis"), whole(node.attrs, "begin")
        places = source_of(graph, view)[1]()
        coordinates: list[Array] = list(np.unravel_index(places, whole_shape))
        axes = [axis for axis in (KEYS, VALUES) if _counts(coordinates[grown], axis)]
        if not axes or shape[-1] != 1 or begin % block or whole_shape[grown] % block:
            raise ModelError(
                "a state must be read as matrices whose rows or columns are its rows, in whole "
                f"blocks of {block}, and {node} is not; leave it out of the states"
            )
        (axis, *_) = axes
        coordinates[grown] = coordinates[grown] - begin
        new = [item.take(begin, axis)[..., 0] for item in coordinates]
        heads, width = new[0].shape
        images, _, *extents = graph.types[product.inputs[0]].shape
        fits = block % width == 0 and heads % (block // width) == 0
        together = block // width if fits else 1
        lanes = -(-together * width // block) * block
        return cls(
            product=product,
            axis=axis,
            rows=shape[axis],
            heads=heads,
            width=width,
            queries=images * math.prod(extents) // heads,
            together=together,
            lanes=lanes,
            in_pixels=lanes == block,
            new=np.ravel_multi_index(new, graph.types[node.inputs[1]].shape),
        )

    @property
    def groups(self) -> int:
        """Images of the state."""
        return self.heads // self.together

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the state's map."""
        if self.axis == KEYS:
            return (self.groups, self.lanes, self.rows, 1)
        return (self.groups, self.rows, self.lanes, 1)

    @property
    def new_places(self) -> Array:
        """(groups, lanes): the element of the new rows in each lane, or -1."""
        places = np.full((self.groups, self.lanes), -1)
        places[:, : self.together * self.width] = self.new.reshape(self.groups, -1)
        return places

    @property
    def query_shape(self) -> tuple[int, int]:
        """Images and pixels of the queries in the new product."""
        count = self.together * self.queries
        return (self.groups, count) if self.in_pixels else (self.groups * count, 1)

    @property
    def own_lanes(self) -> Array:
        """(all queries, width): the lanes of each query's head."""
        heads = np.arange(self.heads * self.queries) // self.queries
        return (heads % self.together * self.width)[:, None] + np.arange(self.width)

    def regrouped(self, shape: tuple[int, ...]) -> Array:
        """For the queries as in `query_shape` with the channels of a map of `shape`, the element of
        that map."""
        images, channels, *_ = shape
        start: Array = np.arange(math.prod(shape), dtype=np.int32)
        rows = start.reshape(images, channels, -1).transpose(0, 2, 1)
        outer, pixels = self.query_shape
        return rows.reshape(outer, pixels, channels).transpose(0, 2, 1)[..., None]


def _reader(graph: Graph, node: Node) -> Node:
    """The product that reads a state through views."""
    products = [user for user in graph.nodes if user.op in MATMULS]
    found = [user for user in products if source_of(graph, user.inputs[1])[0] == node.output]
    first = {source_of(graph, user.inputs[0])[0] for user in products}
    if len(found) != 1 or node.output in first or graph.types[found[0].inputs[1]].rank != MAP_RANK:
        raise ModelError(
            "a state must be the second operand of one matrix product on the accelerator, and "
            f"{node.inputs[0]!r} is that of {len(found)}; choose a variant that computes "
            "attention, such as 'attention', or leave it out of the states"
        )
    return found[0]


def _counts(indices: Array, axis: int) -> bool:
    """Whether the indices count up along `axis`, and only there."""
    extents = [1] * indices.ndim
    extents[axis] = indices.shape[axis]
    counted = np.arange(indices.shape[axis]).reshape(extents)
    return np.array_equal(indices, np.broadcast_to(counted, indices.shape))
