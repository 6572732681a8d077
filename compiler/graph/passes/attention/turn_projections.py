"""Computes a projection turned where a matrix product wants its pixels as channels."""

import math

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.integer_elementwise import UNARY
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.graph.selection import is_pixelwise
from daedal.compiler.graph.views import add_moved, view_source

__all__ = ["turn_projections"]


def turn_projections(graph: Graph, *, block: int) -> Graph:
    """Exchange the operands of a 1x1 convolution instead of transposing its result. Exact.

    The weights of an output channel become a pixel of the first operand of a `q_matmul`, and the
    map's pixels the weights. Each pixel has the parameters that its channel had, so the integers
    are the same. The pixels of each head are filled up to whole blocks of `block` with weights of
    0; only the matrix product that reads the result may see them, as columns that it leaves out.
    Each image of several has the weights again, and so has each window, if pixels are tokens of
    several windows, one after the other.

    Before::

        v = q_conv2d(x, w, p) ...                       # int8[1,64,50,1], 4 heads
        t = reshape(transpose(reshape(v)))              # int8[4,50,16,1]
        y = q_matmul(a, t, f, q) columns=16 ...

    After::

        const w.turned: int8[4,64,16,1]                 # x: int8[1,64,50,1]
        t = q_matmul(w.turned, x, f0, p.turned) columns=50 ...
        y = q_matmul(a, t, f, q) columns=16 ...
    """
    turned: dict[str, str] = {}

    def turn(new: Rewriter, node: Node) -> None:
        a, b, *others = node.inputs
        if b not in turned:
            turned[b] = _Turn(graph, new, b, block).run() or b
        new.replace(node, [a, turned[b], *others])

    return walk(graph, dict.fromkeys(MATMULS, turn))


class _Turn:
    """The tensor `name`, computed from the operands of the convolution behind it."""

    def __init__(self, graph: Graph, new: Rewriter, name: str, block: int) -> None:
        self._graph = graph
        self._new = new
        self._name = name
        self._block = block
        self._heads, self._tokens, *pixels = graph.types[name].shape
        self._width = math.prod(pixels)

    def run(self) -> str | None:
        """The new name, or None if no convolution can be turned."""
        root = self._root()
        chain: list[Node] = []
        while root is not None and root.op in UNARY:
            chain.append(root)
            root = self._graph.producers.get(root.inputs[0])
        if root is None or not is_pixelwise(self._graph, root):
            return None
        result = self._product(root)
        for node in reversed(chain):
            base, operands = f"{self._name}.turned", [result, *node.inputs[1:]]
            result = self._new.add_fresh(node.op, operands, node.attrs, base=base, name=node.name)
        shape = self._new.types[result].shape
        box = ((0, self._heads), (0, self._tokens), (0, self._width), (0, 1))
        self._new.remember_part(result, self._name, shape, box)
        return result

    def _root(self) -> Node | None:
        """What computes the map that the tensor is with heads, pixels and channels as axes."""
        found = view_source(self._graph, self._name)
        if found is None:
            return None
        root, places = found
        images, channels, *_ = self._graph.types[root].shape
        windows = self._windows(images * channels)
        if windows is None or (images > 1 and windows > 1):
            return None
        start: Array = np.arange(places.size, dtype=places.dtype)
        heads = start.reshape(self._heads // windows, self._width, windows, self._tokens)
        turned = heads.transpose(2, 0, 3, 1).reshape(-1)
        return self._graph.producers[root] if np.array_equal(places.reshape(-1), turned) else None

    def _windows(self, channels: int) -> int | None:
        """Windows in an image, of which all images have so many channels."""
        windows, rest = divmod(self._heads * self._width, channels)
        return None if rest or self._heads % windows else windows

    def _product(self, conv: Node) -> str:
        x, w, p = conv.inputs
        images = self._graph.types[x].shape[0]
        windows = self._heads * self._width // (images * len(self._graph.constant(w)))
        if windows > 1:
            x = self._window_images(x, windows)
        weights, params = (
            np.tile(self._graph.constant(name), (images * windows, *[1] * (rank - 1)))
            for name, rank in ((w, MAP_RANK), (p, 2))
        )
        count = -(-self._width // self._block) * self._block
        rows = np.zeros((self._heads, count, weights.shape[1]), dtype=weights.dtype)
        rows[:, : self._width] = weights.reshape(self._heads, self._width, -1)
        table = np.zeros((self._heads, count, 3), dtype=params.dtype)
        table[:, : self._width] = params.reshape(self._heads, self._width, 3)
        operands = [
            self._new.fresh_constant(f"{w}.turned", rows.transpose(0, 2, 1)[..., None]),
            x,
            self._new.fresh_constant(f"{self._name}.factor", np.zeros(1, dtype=np.int8)),
            self._new.fresh_constant(f"{p}.turned", table.reshape(-1, 3)),
        ]
        attrs: dict[str, AttrValue] = {
            "zero_point_a": 0,
            "zero_point_b": 0,
            "columns": self._tokens,
            **{name: conv.attrs[name] for name in REQUANTIZE_ATTRS},
        }
        base = f"{self._name}.turned"
        return self._new.add_fresh("q_matmul", operands, attrs, base=base, name=conv.name)

    def _window_images(self, x: str, windows: int) -> str:
        """The map `x` with each window as an image."""
        channels = self._new.types[x].shape[1]
        places: Array = np.arange(self._new.types[x].num_elements)
        turned = places.reshape(channels, windows, self._tokens).transpose(1, 0, 2)
        output = self._new.fresh_name(f"{self._name}.windows")
        add_moved(self._new, x, turned[..., None], output)
        return output
