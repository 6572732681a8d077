"""Lets every head of attention begin with a whole block of channels."""

import math
from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.dataflow import is_accelerated, is_read_once
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.integer_elementwise import UNARY
from daedal.compiler.graph.ops.registry import get_op, runs_on, whole
from daedal.compiler.graph.passes.attention.align_matmul import padded_map, with_padding
from daedal.compiler.graph.rewrite import Rewriter
from daedal.compiler.graph.selection import add_selection
from daedal.compiler.graph.views import VIEWS, add_moved, source_of, turned_axes
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.tensor import Box

__all__ = ["align_heads"]


def align_heads(graph: Graph, *, block: int) -> Graph:
    """Fill each head up to whole blocks of `block` channels, so that heads are views. Exact.

    Heads are images of a matrix product's maps, and groups of channels of the maps before and after
    it. The projection before it computes the channels that fill a head, as the zero point. The
    product computes more columns, which the projection after it multiplies by 0. Before another
    operator, a selection of channels leaves them out.

    Before (blocks of 16)::

        q = q_conv2d(x, w, p) ...                       # int8[1,64,50,1], 8 heads
        a = reshape(q) shape=8,8,50,1
        y = q_matmul(a, b, f, r) ...                    # b: int8[8,8,64,1]

    After::

        q.heads = q_conv2d(x, w.heads, p.heads) ...     # int8[1,128,50,1]
        a.heads = reshape(q.heads) shape=8,16,50,1
        y = q_matmul(a.heads, b.heads, f, r.blocks) ... # b.heads: int8[8,16,64,1]
    """
    return _Align(graph, block).run()


class _Align:
    def __init__(self, graph: Graph, block: int) -> None:
        self._graph = graph
        self._block = block
        self._new = Rewriter(graph, once=True)
        self._wide: dict[tuple[str, int], str] = {}
        self._joined: dict[str, tuple[str, Array] | None] = {}

    def run(self) -> Graph:
        rules = {
            **dict.fromkeys(MATMULS, lambda new, node: new.replace(node, self._operands(node))),
            **dict.fromkeys(VIEWS, lambda _, node: self._leave_out(node)),
            "q_conv2d": lambda _, node: self._spread_inputs(node),
        }
        return self._new.run(rules)

    def _operands(self, node: Node) -> list[str]:
        """Operands of a matrix product, which are views of whole blocks."""
        maps, others = node.inputs[:2], list(node.inputs[2:])
        if not any(self._splits(name) for name in maps):
            return list(node.inputs)
        count = -self._graph.types[maps[0]].shape[1] % self._block
        zeros = [whole(node.attrs, f"zero_point_{role}") for role in "ab"]
        filled = [self._filled(name, zero) for name, zero in zip(maps, zeros, strict=True)]
        added = count * zeros[0] * zeros[1]
        others[-1] = with_padding(self._graph, self._new, others[-1], added)
        return [*filled, *others]

    def _splits(self, name: str) -> bool:
        """Whether the images of the tensor are heads of an integer operator's map, and these fill
        no blocks."""
        root, places = source_of(self._graph, name)
        before, after = self._graph.types[root].shape, self._graph.types[name].shape
        if not self._is_split(root, before, after):
            return False
        return self._can_be_filled(places(), before)

    def _can_be_filled(self, places: Array, joined: tuple[int, ...]) -> bool:
        """Whether a map at `places` of a joined one has heads, and views give filled ones, too."""
        width = places.shape[1]
        depth = -(-width // self._block) * self._block
        heads = _are_heads(places, joined)
        return heads and turned_axes(_filled_heads(places, joined, depth)) is not None

    def _is_split(self, root: str, joined: tuple[int, ...], split: tuple[int, ...]) -> bool:
        """Whether shapes and the operator of `root` are such that these may be heads."""
        return (
            is_accelerated(self._graph, root)
            and len(joined) == len(split) == MAP_RANK
            and joined[0] == 1 < split[0]
            and joined[1] % split[1] == 0
            and split[1] % self._block > 0
        )

    def _filled(self, name: str, value: int) -> str:
        """The operand `name` with more channels that hold `value`."""
        if (name, value) not in self._wide:
            split = self._splits(name)
            self._wide[name, value] = (
                self._split(name, value) if split else self._padded(name, value)
            )
        return self._wide[name, value]

    def _padded(self, name: str, value: int) -> str:
        extra = -self._graph.types[name].shape[1] % self._block
        return padded_map(self._new, name, (extra, 0), value)

    def _split(self, name: str, value: int) -> str:
        """Fill the heads in the map that `name` views."""
        root, places_of = source_of(self._graph, name)
        before, width = self._graph.types[root].shape, self._graph.types[name].shape[1]
        heads = before[1] // width
        channels = self._channels(heads, width)
        wide = self._recomputed(root, channels, value)
        if wide is None:
            output = self._new.fresh_name(f"{root}.heads")
            wide = add_selection(self._new, root, channels, output, value=value)
        depth = len(channels) // heads
        shape = (heads, depth, *before[2:])
        self._new.remember_part(wide, root, shape, _first_channels(shape, width))
        output = self._new.fresh_name(f"{name}.heads")
        add_moved(self._new, wide, _filled_heads(places_of(), before, depth), output)
        return output

    def _channels(self, heads: int, width: int) -> Array:
        """The channel in each place of the filled heads, or -1."""
        places = np.full((heads, -(-width // self._block) * self._block), -1)
        places[:, :width] = np.arange(heads * width).reshape(heads, width)
        return places.reshape(-1)

    def _recomputed(self, root: str, places: Array, value: int) -> str | None:
        """The map `root` with its channels in `places`, and `value` between them, by the
        convolution that computes it. None if that cannot be."""
        chain = self._chain(root)
        conv = chain.pop()
        if not _is_dense(conv):
            return None
        start = _argument(self._graph, chain, value)
        low, high = whole(conv.attrs, "low"), whole(conv.attrs, "high")
        if start is None or not low <= start <= high:
            return None
        x, w, p = conv.inputs
        zero = whole(conv.attrs, "zero_point")
        weights = _spread(self._graph.constant(w), places, 0)
        params = _spread(self._graph.constant(p), places, np.array([start - zero, 1, 0]))
        operands = [
            x,
            self._new.fresh_constant(f"{w}.heads", weights),
            self._new.fresh_constant(f"{p}.heads", params),
        ]
        base = f"{conv.output}.heads"
        wide = self._new.add_fresh("q_conv2d", operands, conv.attrs, base=base, name=conv.name)
        return self._apply(chain, wide)

    def _chain(self, name: str) -> list[Node]:
        """The nodes from that of `name` back to the first one that is not unary; those before the
        first one have no other readers."""
        chain = [self._graph.producers[name]]
        while chain[-1].op in UNARY:
            source = chain[-1].inputs[0]
            if source not in self._graph.producers or not is_read_once(self._graph, source):
                break
            chain.append(self._graph.producers[source])
        return chain

    def _apply(self, chain: Sequence[Node], name: str) -> str:
        """Apply unary operators, the last one first."""
        for node in reversed(chain):
            base, operands = f"{node.output}.heads", [name, *node.inputs[1:]]
            name = self._new.add_fresh(node.op, operands, node.attrs, base=base, name=node.name)
        return name

    def _leave_out(self, view: Node) -> None:
        """Select the channels of filled heads where not only convolutions read them."""
        name = view.output
        if not all(_is_dense(user) for user in self._graph.users[name]):
            found = self._join(name)
            if found is not None:
                joined, channels = found
                taken = np.flatnonzero(channels >= 0)
                add_selection(self._new, joined, taken, name, view.name)

    def _spread_inputs(self, conv: Node) -> None:
        """Let a convolution read filled heads."""
        x, w, params = conv.inputs
        if not all(_is_dense(user) for user in self._graph.users[x]):
            return
        if x not in self._joined:
            self._joined[x] = self._join(x)
        found = self._joined[x]
        if found is not None:
            joined, places = found
            weights = _spread(self._graph.constant(w).swapaxes(0, 1), places, 0).swapaxes(0, 1)
            spread = self._new.fresh_constant(f"{w}.heads", weights)
            self._new.replace(conv, [joined, spread, params])

    def _join(self, name: str) -> tuple[str, Array] | None:
        """The map that `name` joins images to, with filled heads, and its channels, or -1, if a
        matrix product or unary operators behind one compute them."""
        source, places_of = source_of(self._graph, name)
        before, after = self._graph.types[source].shape, self._graph.types[name].shape
        if not self._is_split(source, after, before) or not self._is_read(name):
            return None
        chain = self._chain(source)
        product = chain.pop()
        if product.op not in MATMULS:
            return None
        places: Array = np.argsort(places_of().reshape(-1)).reshape(before)
        if not self._can_be_filled(places, after):
            return None
        channels = self._channels(after[1] // before[1], before[1])
        depth = len(channels) * before[1] // after[1]
        wide = self._apply(chain, self._with_columns(product, depth))
        joined = self._new.fresh_name(f"{name}.heads")
        moved: Array = np.argsort(_filled_heads(places, after, depth).reshape(-1))
        add_moved(self._new, wide, moved.reshape(1, len(channels), *after[2:]), joined)
        return joined, channels

    def _is_read(self, name: str) -> bool:
        """Whether only integer operators read the tensor."""
        users = self._graph.users[name]
        accelerated = all(runs_on(user.op, ACCELERATOR) for user in users)
        return bool(users) and accelerated and name not in self._graph.outputs

    def _with_columns(self, product: Node, columns: int) -> str:
        """Add a matrix product again, with more columns."""
        a, b, *constants = self._operands(product)
        _, _, height, width = self._new.types[b].shape
        rows = max(0, -(-columns // width) - height)
        if rows:
            b = padded_map(self._new, b, (0, rows), 0)
        attrs = {**product.attrs, "columns": columns}
        base, operands = f"{product.output}.heads", [a, b, *constants]
        output = self._new.add_fresh(product.op, operands, attrs, base=base, name=product.name)
        first = self._graph.types[product.output].shape[1]
        shape = self._new.types[output].shape
        self._new.remember_part(output, product.output, shape, _first_channels(shape, first))
        return output


def _are_heads(places: Array, joined: tuple[int, ...]) -> bool:
    """Whether each pixel of a map (images, width, ...), which lies in one of the shape `joined` at
    the flat indices `places`, is a head of one pixel there."""
    width = places.shape[1]
    channel, pixel = np.divmod(places, math.prod(joined[2:]))
    lanes = channel[:, :1] + np.arange(width).reshape(1, -1, 1, 1)
    return bool(
        (channel[:, 0] % width == 0).all()
        and (channel == lanes).all()
        and (pixel == pixel[:, :1]).all()
    )


def _filled_heads(places: Array, joined: tuple[int, ...], depth: int) -> Array:
    """Where a map (images, depth, ...) lies in a joined one, if heads have `depth` channels."""
    pixels = math.prod(joined[2:])
    channel, pixel = np.divmod(places[:, :1], pixels)
    first = channel // places.shape[1] * depth
    filled: Array = (first + np.arange(depth).reshape(1, -1, 1, 1)) * pixels + pixel
    return filled


def _first_channels(shape: Sequence[int], count: int) -> Box:
    """The first channels of each image."""
    return tuple((0, count if axis == 1 else extent) for axis, extent in enumerate(shape))


def _is_dense(node: Node) -> bool:
    return node.op == "q_conv2d" and whole(node.attrs, "groups") == 1


def _argument(graph: Graph, chain: Sequence[Node], value: int) -> int | None:
    """What unary operators, the last one first, turn into `value`; None if nothing."""
    values: Array = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, -1, 1)
    found = values
    for node in reversed(chain):
        arrays = [found, *(graph.constant(name) for name in node.inputs[1:])]
        types = [graph.types[name] for name in node.inputs]
        found = get_op(node.op).evaluate(arrays, types, node.attrs)
    matches = values[found == value]
    return int(matches[0]) if matches.size else None


def _spread(rows: Array, places: Array, fill: Array | int) -> Array:
    """The rows in `places`, and `fill` where these are -1."""
    spread = np.empty((len(places), *rows.shape[1:]), dtype=rows.dtype)
    spread[:] = fill
    spread[places >= 0] = rows
    return spread
