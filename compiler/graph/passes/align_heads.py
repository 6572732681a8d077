"""Lets every head of attention begin with a whole block of channels."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.integer_elementwise import UNARY
from daedal.compiler.graph.ops.registry import get_op, runs_on, whole
from daedal.compiler.graph.passes.align_matmul import padded_map, with_padding
from daedal.compiler.graph.passes.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.selection import PIXELWISE, add_selection
from daedal.compiler.target import ACCELERATOR
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
    return eliminate_dead_code(_Align(graph, block).run())


class _Align:
    def __init__(self, graph: Graph, block: int) -> None:
        self._graph = graph
        self._block = block
        self._builder = GraphBuilder(graph.name, graph)
        self._wide: dict[tuple[str, int], str] = {}
        self._joined: dict[str, tuple[str, Array]] = {}

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            if node.op in MATMULS:
                self._builder.copy_node(node, self._operands(node))
            elif node.inputs and node.inputs[0] in self._joined:
                self._builder.copy_node(node, self._spread_inputs(node))
            elif not (node.op == "reshape" and self._join(node)):
                self._builder.copy_node(node)
        return self._builder.finish(self._graph.outputs)

    def _operands(self, node: Node) -> list[str]:
        """Operands of a matrix product, which are views of whole blocks."""
        maps, others = node.inputs[:2], list(node.inputs[2:])
        if not any(self._splits(name) for name in maps):
            return list(node.inputs)
        count = -self._graph.types[maps[0]].shape[1] % self._block
        zeros = [whole(node.attrs, f"zero_point_{role}") for role in "ab"]
        filled = [self._filled(name, zero) for name, zero in zip(maps, zeros, strict=True)]
        if zeros[0] * zeros[1]:
            added = count * zeros[0] * zeros[1]
            others[-1] = with_padding(self._graph, self._builder, others[-1], added)
        return [*filled, *others]

    def _splits(self, name: str) -> bool:
        """Whether the tensor views groups of channels of an integer operator's map as images, and
        the groups fill no blocks."""
        producer = self._graph.producers.get(name)
        if producer is None or producer.op != "reshape":
            return False
        before, after = (self._graph.types[x] for x in (producer.inputs[0], name))
        source = self._graph.producers.get(producer.inputs[0])
        return (
            source is not None
            and runs_on(source.op, ACCELERATOR)
            and before.rank == after.rank == 4
            and before.shape[0] == 1 < after.shape[0]
            and before.shape[1] == after.shape[0] * after.shape[1]
            and after.shape[1] % self._block > 0
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
        return padded_map(self._graph, self._builder, name, (extra, 0), value)

    def _split(self, name: str, value: int) -> str:
        """Fill the groups in the map that `name` views."""
        root = self._graph.producers[name].inputs[0]
        heads, width, *_ = self._graph.types[name].shape
        places = self._places(heads, width)
        wide = self._recomputed(root, places, value) or self._selected(root, places, value)
        shape = (heads, len(places) // heads, *self._graph.types[name].shape[2:])
        self._builder.remember_part(wide, root, shape, _first_channels(shape, width))
        output = self._builder.fresh_name(f"{name}.heads")
        return self._builder.add("reshape", [wide], {"shape": shape}, output=output)

    def _places(self, heads: int, width: int) -> Array:
        """The channel in each place of the filled groups, or -1."""
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
        operands = [x, self._constant(f"{w}.heads", weights), self._constant(f"{p}.heads", params)]
        output = self._builder.fresh_name(f"{conv.output}.heads")
        wide = self._builder.add("q_conv2d", operands, conv.attrs, output=output, name=conv.name)
        return self._apply(chain, wide)

    def _chain(self, name: str) -> list[Node]:
        """The nodes from that of `name` back to the first one that is not unary; those before the
        first one have no other readers."""
        chain = [self._graph.producers[name]]
        while chain[-1].op in UNARY:
            producer = self._graph.producers.get(chain[-1].inputs[0])
            if producer is None or not self._has_one_reader(producer.output):
                break
            chain.append(producer)
        return chain

    def _has_one_reader(self, name: str) -> bool:
        return len(self._graph.users[name]) == 1 and name not in self._graph.outputs

    def _apply(self, chain: Sequence[Node], name: str) -> str:
        """Apply unary operators, the last one first."""
        for node in reversed(chain):
            output = self._builder.fresh_name(f"{node.output}.heads")
            operands = [name, *node.inputs[1:]]
            name = self._builder.add(node.op, operands, node.attrs, output=output, name=node.name)
        return name

    def _selected(self, root: str, places: Array, value: int) -> str:
        """The map `root` with its channels in `places`, and `value` between them, by a 1x1
        convolution with zeros and ones."""
        matrix = np.zeros((len(places), self._graph.types[root].shape[1], 1, 1), dtype=np.int8)
        used = places >= 0
        matrix[used, places[used]] = 1
        rows = np.repeat(IDENTITY, len(places), axis=0)
        rows[~used, 0] = value
        output = self._builder.fresh_name(f"{root}.heads")
        operands = [
            root,
            self._constant(f"{output}.select", matrix),
            self._constant(f"{output}.params", rows),
        ]
        attrs = {**PIXELWISE, **UNCHANGED}
        return self._builder.add("q_conv2d", operands, attrs, output=output)

    def _join(self, node: Node) -> bool:
        """Replace a reshape that joins images to groups of channels, if a matrix product or unary
        operators behind one compute them."""
        source = node.inputs[0]
        before, after = self._graph.types[source].shape, self._graph.types[node.output].shape
        if len(before) != len(after) or len(before) != 4 or before[1] % self._block == 0:
            return False
        if not after[0] == 1 < before[0] or after[1] != before[0] * before[1]:
            return False
        if source not in self._graph.producers or not self._is_read(node.output):
            return False
        chain = self._chain(source)
        product = chain.pop()
        if product.op not in MATMULS:
            return False
        places = self._places(before[0], before[1])
        wide = self._apply(chain, self._with_columns(product, len(places) // before[0]))
        joined = self._builder.fresh_name(f"{node.output}.heads")
        shape = (1, len(places), *after[2:])
        self._builder.add("reshape", [wide], {"shape": shape}, output=joined)
        if all(_is_dense(user) for user in self._graph.users[node.output]):
            self._joined[node.output] = joined, places
        else:
            taken = np.flatnonzero(places >= 0)
            add_selection(self._builder, joined, taken, node.output, node.name)
        return True

    def _spread_inputs(self, conv: Node) -> list[str]:
        """Operands of a convolution that reads filled heads."""
        x, w, params = conv.inputs
        joined, places = self._joined[x]
        weights = _spread(self._graph.constant(w).swapaxes(0, 1), places, 0).swapaxes(0, 1)
        return [joined, self._constant(f"{w}.heads", weights), params]

    def _is_read(self, name: str) -> bool:
        """Whether only integer operators read the tensor."""
        users = self._graph.users[name]
        accelerated = all(runs_on(user.op, ACCELERATOR) for user in users)
        return bool(users) and accelerated and name not in self._graph.outputs

    def _with_columns(self, product: Node, columns: int) -> str:
        """Add a matrix product again, with more columns."""
        a, b, *constants = self._operands(product)
        _, _, height, width = self._builder.types[b].shape
        rows = max(0, -(-columns // width) - height)
        if rows:
            b = padded_map(self._graph, self._builder, b, (0, rows), 0)
        attrs = {**product.attrs, "columns": columns}
        output = self._builder.fresh_name(f"{product.output}.heads")
        self._builder.add(product.op, [a, b, *constants], attrs, output=output, name=product.name)
        first = self._graph.types[product.output].shape[1]
        shape = self._builder.types[output].shape
        self._builder.remember_part(output, product.output, shape, _first_channels(shape, first))
        return output

    def _constant(self, name: str, values: Array) -> str:
        return self._builder.constant(self._builder.fresh_name(name), values)


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
