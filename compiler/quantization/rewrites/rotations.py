"""Rotary embedding of heads, and products with the matrices that exchange their channels.

A rotation is ``heads * cosines + turned * sines``. Models write the turned heads as halves,
``concat(-second half, first half)``, or as pairs, ``reshape(concat(-odd channels, even ones))``;
some rotate only the first channels of each head. Here they are a product with 0, 1 and -1.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, is_read_once
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.rewrites.patterns import both_orders, producer, slice_along

__all__ = [
    "Rotation",
    "exchange_of",
    "multiply_turned",
    "rotate_heads_first",
    "rotation_of",
    "widen_rotations",
]

_HEADS_FIRST = (0, 2, 1, 3)
"""Brings (batch, tokens, heads, width) into the order of attention."""
_CHANNELS_BEFORE = (0, 1, 3, 2)
"""Turns the keys of each head."""


class Rotation(NamedTuple):
    """A rotation of `heads` by the factors `cosines` and `sines`, names of tensors; `exchange` is
    the matrix (width, width) that gives the turned ones."""

    heads: str
    exchange: Array
    cosines: str
    sines: str


def multiply_turned(graph: Graph) -> Graph:
    """Write channels in another order, some negated, as a product. Exact.

    Before, halves of heads; or pairs::

        y = concat(neg(slice(q) ...), slice(q) ...) axis=3                      # float32[1,2,50,8]
        y = reshape(concat(reshape(neg(slice(q))), reshape(slice(q))) axis=4)

    After::

        y = dense(q, y.exchange) transposed=0                                   # [8,8]
    """
    return walk(graph, {"concat": _multiply_turned, "reshape": _multiply_turned})


def _multiply_turned(graph: Rewriter, node: Node) -> None:
    if node.op == "reshape" and producer(graph, node.inputs[0], "concat") is None:
        return
    found = _places(graph, node.output, graph.types[node.output].rank - 1)
    if found is None:
        return
    heads, places = found
    width = graph.types[heads].shape[-1]
    numbers = np.abs(places)
    if (places > 0).all() or not np.array_equal(np.sort(numbers), np.arange(1, width + 1)):
        return
    matrix = np.zeros((width, width), np.float32)
    matrix[numbers - 1, np.arange(width)] = np.sign(places)
    name = graph.fresh_constant(f"{node.output}.exchange", matrix)
    attrs = {"transposed": 0}
    graph.add("dense", [heads, name], attrs, output=node.output, name=node.name)


def _places(graph: Dataflow, name: str, outer: int) -> tuple[str, Array] | None:
    """The tensor of which slices along its last axis are joined to `name`, and for each element
    behind the first `outer` axes its channel there, counted from 1, negative for a negated one."""
    node = producer(graph, name, "concat", "Neg", "reshape", "slice")
    if node is None:
        return None
    source, kind = graph.types[node.inputs[0]], graph.types[name]
    if source.shape[:outer] != kind.shape[:outer]:
        return None
    if node.op == "slice":
        begins, ends, steps = (ints(node.attrs, key)[-1] for key in ("begins", "ends", "steps"))
        channels = np.arange(1, source.shape[-1] + 1)
        is_whole = source.rank == outer + 1
        return (node.inputs[0], channels[begins:ends:steps]) if is_whole else None
    parts = [_places(graph, item, outer) for item in node.inputs]
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or len({root for root, _ in known}) != 1:
        return None
    (root, places), *_ = known
    if node.op == "concat":
        axis = whole(node.attrs, "axis") - outer
        return (root, np.concatenate([item for _, item in known], axis)) if axis >= 0 else None
    return root, places.reshape(kind.shape[outer:]) if node.op == "reshape" else -places


def exchange_of(graph: Dataflow, node: Node | None) -> Array | None:
    """The matrix of a product that gives channels in another order, some negated; else None."""
    if node is None or node.op != "dense" or len(node.inputs) != 2 or node.attrs["transposed"]:
        return None
    if not graph.is_constant(node.inputs[1]):
        return None
    matrix = graph.constant(node.inputs[1])
    if matrix.shape[0] != matrix.shape[1]:
        return None
    size = np.abs(matrix)
    is_exchange = (
        (size == size.round()).all() and (size.sum(0) == 1).all() and (size.sum(1) == 1).all()
    )
    return matrix if is_exchange else None


def rotation_of(graph: Dataflow, node: Node) -> Rotation | None:
    """The rotation that the `add` of two `mul` computes, or None."""
    for names in both_orders(node):
        plain, turned = (producer(graph, name, "mul") for name in names)
        if plain is None or turned is None:
            return None
        for (heads, cosines), (other, sines) in product(both_orders(plain), both_orders(turned)):
            before = producer(graph, other, "dense")
            exchange = exchange_of(graph, before)
            if before is not None and exchange is not None and before.inputs[0] == heads:
                return Rotation(heads, exchange, cosines, sines)
    return None


def widen_rotations(graph: Graph) -> Graph:
    """Rotate whole heads where a model rotates some channels of each, as blocks of channels want.

    Before, for 8 of 32 channels::

        a = slice(q) ... ends=1,2,50,8                  # q: float32[1,2,50,32]
        b = slice(q) begins=0,0,0,8 ...
        y = concat(add(mul(a, cos), mul(dense(a, m), sin)), b) axis=3

    After; tables and matrix are filled up with 1 and 0::

        y = add(mul(q, y.cosines), mul(dense(q, y.exchange), y.sines))
    """
    return walk(graph, {"concat": _widen})


def _widen(graph: Rewriter, node: Node) -> None:
    total, rest = producer(graph, node.inputs[0], "add"), producer(graph, node.inputs[-1], "slice")
    if len(node.inputs) != 2 or total is None or rest is None:
        return
    rotation, kind = rotation_of(graph, total), graph.types[node.output]
    part = None if rotation is None else producer(graph, rotation.heads, "slice")
    if rotation is None or part is None or part.inputs[0] != rest.inputs[0]:
        return
    axis, width, end = kind.rank - 1, kind.shape[-1], len(rotation.exchange)
    bounds = [slice_along(graph, item) for item in (part, rest)]
    if bounds != [(axis, 0, end), (axis, end, width)]:
        return
    if not graph.is_constant(rotation.cosines) or not graph.is_constant(rotation.sines):
        return
    output, (heads,) = node.output, part.inputs
    matrix = np.eye(width, dtype=np.float32)
    matrix[:end, :end] = rotation.exchange
    name = graph.fresh_constant(f"{output}.exchange", matrix)
    turned = graph.add_fresh("dense", [heads, name], {"transposed": 0}, base=f"{output}.turned")
    products = []
    for role, x, table, filler in (
        ("cosines", heads, rotation.cosines, 1),
        ("sines", turned, rotation.sines, 0),
    ):
        factors = _filled(graph.constant(table), end, width, filler)
        name = graph.fresh_constant(f"{output}.{role}", factors)
        products.append(graph.add_fresh("mul", [x, name], base=f"{name}.product"))
    graph.add("add", products, output=output, name=node.name)


def _filled(table: Array, rotated: int, width: int, filler: int) -> Array:
    """A table of rotations (..., rotated) or (..., 1) for heads of `width`."""
    columns = np.broadcast_to(table, (*table.shape[:-1], rotated))
    margin = [*((0, 0) for _ in table.shape[1:]), (0, width - rotated)]
    return np.pad(columns, margin, constant_values=filler)


def rotate_heads_first(graph: Graph) -> Graph:
    """Rotate heads (batch, heads, tokens, width), not (batch, tokens, heads, width). Exact.

    Attention reads the former, so what projections give is brought into that order at once.

    Before::

        r = add(mul(q, cos), mul(dense(q, m), sin))     # q: float32[1,50,2,32], cos: [1,50,1,32]
        y = transpose(r) order=0,2,1,3

    After::

        t = transpose(q) order=0,2,1,3
        y = add(mul(t, cos.turned), mul(dense(t, m), sin.turned))
    """
    return walk(graph, {"transpose": _rotate_heads_first})


def _rotate_heads_first(graph: Rewriter, node: Node) -> None:
    total, order = producer(graph, node.inputs[0], "add"), ints(node.attrs, "order")
    keys = tuple(_HEADS_FIRST[axis] for axis in _CHANNELS_BEFORE)
    if total is None or order not in (_HEADS_FIRST, keys) or not is_read_once(graph, total.output):
        return
    rotation = rotation_of(graph, total)
    if rotation is None:
        return
    attrs, output = {"order": _HEADS_FIRST}, node.output
    heads = graph.add_fresh("transpose", [rotation.heads], attrs, base=f"{output}.heads")
    name = graph.fresh_constant(f"{output}.exchange", rotation.exchange)
    turned = graph.add_fresh("dense", [heads, name], {"transposed": 0}, base=f"{output}.turned")
    products = []
    for x, table in ((heads, rotation.cosines), (turned, rotation.sines)):
        kind = graph.types[table]
        if kind.rank < len(order):
            shape = (*(1,) * (len(order) - kind.rank), *kind.shape)
            table = graph.add_fresh("reshape", [table], {"shape": shape}, base=f"{table}.rows")
        table = graph.add_fresh("transpose", [table], attrs, base=f"{table}.turned")
        products.append(graph.add_fresh("mul", [x, table], base=f"{table}.product"))
    if order == _HEADS_FIRST:
        graph.add("add", products, output=output, name=node.name)
        return
    rotated = graph.add_fresh("add", products, base=f"{output}.rotated")
    graph.add("transpose", [rotated], {"order": _CHANNELS_BEFORE}, output=output, name=node.name)
