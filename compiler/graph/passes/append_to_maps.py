"""Lets new rows be stored in states as matrix products read them."""

import math

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.passes.align_matmul import with_padding
from daedal.compiler.graph.passes.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.selection import PIXELWISE
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.views import source_of
from daedal.isa.errors import ModelError

__all__ = ["append_to_maps"]


def append_to_maps(graph: Graph, *, block: int) -> Graph:
    """Give every state the shape of the map that a matrix product makes of it. Exact.

    A state has no form outside the device, so it is stored as the product reads it: heads are
    images, and channels and pixels fill whole blocks of `block`. What fills them is unused: the
    other operand has its zero point there, or the product leaves the columns out. A selection of
    channels brings the new rows in that form; where they are channels of the state, a product with
    rows of the identity turns them.

    Before::

        all = append(state, new) axis=2 begin=256       # int8[1,4,272,8], new: int8[1,4,1,8]
        b = reshape(transpose(all))                     # int8[4,8,272,1]
        y = q_matmul(a, b, f, p) ...                    # a: int8[8,8,1,1]

    After::

        new.rows = q_conv2d(reshape(new), ...) ...      # int8[1,64,1,1]
        all = q_append(state, reshape(new.rows), ...) axis=2 begin=256     # int8[4,16,272,1]
        y = q_matmul(a.filled, all, f, p) ...

    Raises ModelError for a state that no matrix product reads as its second operand, or several
    do.
    """
    if not any(node.op == "append" for node in graph.nodes):
        return graph
    return eliminate_dead_code(_Rewrite(graph, block).run())


class _Rewrite:
    def __init__(self, graph: Graph, block: int) -> None:
        self._graph = graph
        self._block = block
        self._builder = GraphBuilder(graph.name, graph)
        self._forms = {
            node.output: _Form.of(graph, node, block)
            for node in graph.nodes
            if node.op == "append"
        }
        self._products = {form.product.output: form for form in self._forms.values()}

    def run(self) -> Graph:
        types = {form.state: form.type for form in self._forms.values()}
        for name in self._graph.inputs:
            self._builder.input(name, types.get(name, self._graph.types[name]))
        for node in self._graph.nodes:
            if node.op == "append":
                self._append(node, self._forms[node.output])
            elif node.output in self._products:
                self._product(node, self._products[node.output])
            elif not self._reads_append(node):
                self._builder.copy_node(node)
        return self._builder.finish(self._graph.outputs)

    def _reads_append(self, node: Node) -> bool:
        """Whether the node is a view of a state in its old form."""
        return any(source_of(self._graph, name)[0] in self._forms for name in node.inputs)

    def _append(self, node: Node, form: "_Form") -> None:
        _, new = node.inputs
        count = math.prod(self._graph.types[new].shape)
        flat = self._fresh(f"{new}.column")
        self._builder.add("reshape", [new], {"shape": (1, count, 1, 1)}, output=flat)
        if form.axis == 1:
            rows = form.turned(self._builder, flat)
        else:
            rows = self._fresh(f"{new}.rows")
            filled = _select(self._builder, flat, form.places.reshape(-1), 0)
            self._builder.add("reshape", [filled], {"shape": form.places.shape}, output=rows)
        params = self._builder.constant(self._fresh(f"{node.output}.params"), IDENTITY)
        attrs = {"axis": form.axis, "begin": whole(node.attrs, "begin")}
        operands = [form.state, rows, params]
        self._builder.add("q_append", operands, attrs, output=node.output, name=node.name)

    def _product(self, node: Node, form: "_Form") -> None:
        a, _, factor, params = node.inputs
        images, channels, *pixels = self._graph.types[a].shape
        missing = form.type.shape[1] - channels
        if missing:
            # Channels that the state does not have: a has its zero point there.
            zeros = [whole(node.attrs, f"zero_point_{role}") for role in "ab"]
            places = np.full((images, form.type.shape[1]), -1)
            places[:, :channels] = np.arange(images * channels).reshape(images, channels)
            flat = self._fresh(f"{a}.column")
            shape = (1, images * channels, *pixels)
            self._builder.add("reshape", [a], {"shape": shape}, output=flat)
            wide = _select(self._builder, flat, places.reshape(-1), zeros[0])
            a = self._fresh(f"{a}.filled")
            shape = (images, form.type.shape[1], *pixels)
            self._builder.add("reshape", [wide], {"shape": shape}, output=a)
            params = with_padding(self._graph, self._builder, params, missing * math.prod(zeros))
        operands = [a, form.name, factor, params]
        self._builder.copy_node(node, operands)

    def _fresh(self, base: str) -> str:
        return self._builder.fresh_name(base)


class _Form:
    """The form of a state: how the product reads `name`, an append.

    `places` are the elements of the new rows, -1 for those that fill blocks, in the map's order.
    """

    def __init__(self, node: Node, product: Node, type_: TensorType, axis: int, places: Array):
        self.name, self.state = node.output, node.inputs[0]
        self.product, self.type, self.axis = product, type_, axis
        self.places = places

    @classmethod
    def of(cls, graph: Graph, node: Node, block: int) -> "_Form":
        product, view = _reader(graph, node)
        _, new = (graph.types[name].shape for name in node.inputs)
        axis, begin = (whole(node.attrs, name) for name in ("axis", "begin"))
        shape = graph.types[view].shape
        _, places = source_of(graph, view)
        coordinates = list(np.unravel_index(places(), graph.types[node.output].shape))
        along = coordinates[axis]
        found = [
            index
            for index in (1, 2)
            if shape[index] == graph.types[node.output].shape[axis]
            and np.array_equal(along, _counted(shape, index))
        ]
        if not found or begin % block:
            raise ModelError(
                "a state must be read as matrices whose rows or columns are its rows, and begin "
                f"whole blocks of {block}; {node} does not, so leave this state out"
            )
        (kept,) = found[:1]
        region = [slice(None)] * len(shape)
        region[kept] = slice(begin, begin + new[axis])
        coordinates[axis] = along - begin
        rows = np.ravel_multi_index([item[tuple(region)] for item in coordinates], new)
        margins = [(0, 0), (0, -rows.shape[1] % block), (0, -rows.shape[2] % block), (0, 0)]
        # Of the axis along which the state grows, only the new part is computed.
        margins[kept] = (0, 0)
        rows = np.pad(rows, margins, constant_values=-1)
        whole_shape = [rows.shape[0], *(-(-extent // block) * block for extent in shape[1:3]), 1]
        type_ = TensorType(tuple(whole_shape), graph.types[node.output].dtype)
        return cls(node, product, type_, kept, rows)

    def turned(self, builder: GraphBuilder, flat: str) -> str:
        """The new channel of every pixel: each is a row of the identity times the channels."""
        count = builder.types[flat].shape[1]
        images, _, height, _ = self.places.shape
        chosen = self.places.reshape(images, 1, height, 1)
        identity = np.arange(count).reshape(1, -1, 1, 1) == chosen
        attrs: dict[str, AttrValue] = {
            "zero_point_a": 0,
            "zero_point_b": 0,
            "columns": 1,
            **UNCHANGED,
        }
        operands = [
            builder.constant(builder.fresh_name(f"{flat}.identity"), identity.astype(np.int8)),
            flat,
            builder.constant(builder.fresh_name(f"{flat}.factor"), np.zeros(1, dtype=np.int8)),
            builder.constant(builder.fresh_name(f"{flat}.params"), IDENTITY),
        ]
        return builder.add("q_matmul", operands, attrs, output=builder.fresh_name(f"{flat}.turned"))


def _select(builder: GraphBuilder, x: str, channels: Array, value: int) -> str:
    """The channels of a map that are listed, and `value` for -1."""
    matrix = np.zeros((len(channels), builder.types[x].shape[1], 1, 1), dtype=np.int8)
    used = channels >= 0
    matrix[used, channels[used]] = 1
    rows = np.repeat(IDENTITY, len(channels), axis=0)
    rows[~used, 0] = value
    output = builder.fresh_name(f"{x}.selected")
    operands = [
        x,
        builder.constant(builder.fresh_name(f"{output}.select"), matrix),
        builder.constant(builder.fresh_name(f"{output}.params"), rows),
    ]
    return builder.add("q_conv2d", operands, {**PIXELWISE, **UNCHANGED}, output=output)


def _reader(graph: Graph, node: Node) -> tuple[Node, str]:
    """The product that reads a state through views, and its second operand."""
    found = [
        user
        for user in graph.nodes
        if user.op == "q_matmul" and source_of(graph, user.inputs[1])[0] == node.output
    ]
    first = {source_of(graph, user.inputs[0])[0] for user in graph.nodes if user.op == "q_matmul"}
    if len(found) != 1 or node.output in first or graph.types[found[0].inputs[1]].rank != MAP_RANK:
        raise ModelError(
            "a state must be the second operand of one matrix product on the accelerator, and "
            f"{node.inputs[0]!r} is that of {len(found)}; leave it out of the states"
        )
    return found[0], found[0].inputs[1]


def _counted(shape: tuple[int, ...], axis: int) -> Array:
    """The index along `axis` of every element."""
    extents = [1] * len(shape)
    extents[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis]).reshape(extents), shape)
