"""Lets operators between layers work on maps as these layers have them."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from daedal.compiler.graph.dataflow import is_accelerated
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.integer_rows import ROW_OPERATORS
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.ops.registry import ints, runs_on
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.passes.simplify.simplify_reshapes import simplify_reshapes
from daedal.compiler.graph.passes.simplify.simplify_transposes import simplify_transposes
from daedal.compiler.graph.rewrite import Rewriter, Rule
from daedal.compiler.graph.views import (
    VIEWS,
    add_moved,
    is_in_order,
    map_behind,
    source_of,
    view_ends,
)
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["move_transposes"]

_BY_PIXELS = (Q_CHANNEL_REQUANTIZE.name, *ROW_OPERATORS)
"""Operators whose channels differ and whose pixels do not."""
_IN_ANY_ORDER = frozenset({*ELEMENTWISE, "q_slice", "q_pad"})
_WIDE = 1 << 10
"""What a transpose of 16 bits costs, in transposes of 8 bits: products turn only these."""


def move_transposes(graph: Graph) -> Graph:
    """Move transposes behind elementwise operators, slices and row operators, or before. Exact.

    Behind: where an operand is a transposed map of an integer operator, the operator works on that
    map, and its result is transposed. Row operators need the channels of a pixel together. Before:
    where only the host supplies the operands, and all readers are integer operators that read the
    result in one other order, or follow it as elementwise ones, the operands are brought into that
    order. Transposes that meet cancel
    each other.

    Before::

        t = transpose(reshape(x)) order=0,2,1           # x: int8[1,64,50,1]
        r = reshape(t) shape=1,50,64,1
        y = q_requantize(r, p) ...

    After::

        y.map = q_requantize(x, p) ...
        y = reshape(transpose(reshape(y.map)))
    """
    return to_fixpoint("move_transposes", eliminate_dead_code(graph), _step, _out_of_order)


def _step(graph: Graph) -> Graph | None:
    moved = _Move(graph).run()
    return None if moved is graph else simplify_reshapes(simplify_transposes(moved))


def _out_of_order(graph: Graph) -> tuple[int, ...]:
    """For each integer operator, the first one first, what it costs that operands are maps of
    others in another order.

    Moving a transpose behind an operator takes it from this one and may give it to later ones;
    moving it before one that only the host feeds takes it from the readers and gives it to none.
    """
    counts = []
    for node in graph.nodes:
        if runs_on(node.op, ACCELERATOR):
            found = [map_behind(graph, name) for name in node.inputs]
            maps = [item for item in found if item is not None]
            counts.append(sum(_cost(graph, root, places()) for root, places in maps))
    return tuple(counts)


def _cost(graph: Graph, root: str, places: Array) -> int:
    """What it costs to bring the elements `places` of a map into their order."""
    if is_in_order(places):
        return 0
    return _WIDE if is_wide(graph.types[root]) else 1


def _keeps_channels(places: Array, shape: tuple[int, ...]) -> bool:
    """Whether maps (N, C, H, W) have the channels of pixels of maps of this shape as theirs."""
    if len(shape) != MAP_RANK:
        return False
    _, channels, *extents = shape
    pixels = math.prod(extents)
    first = places[:, :1]
    steps = np.arange(channels).reshape(-1, 1, 1) * pixels
    if places.shape[1] != channels or not np.array_equal(places, first + steps):
        return False
    return not np.any(first // pixels % channels)


class _Move:
    """One walk over the graph. Readers of a result whose order changes wait for the next one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._new = Rewriter(graph, once=True)
        self._hoisted: set[str] = set()

    def run(self) -> Graph:
        """The new graph; the old one if nothing can be moved."""
        rules: dict[str, Rule] = {
            **dict.fromkeys(ELEMENTWISE, lambda _, node: self._sink(node) or self._hoist(node)),
            **dict.fromkeys(_BY_PIXELS, lambda _, node: self._sink_rows(node)),
            "q_slice": lambda _, node: self._sink_slice(node),
            "q_pad": lambda _, node: self._sink_pad(node),
        }
        return self._new.run(rules)

    def _data(self, node: Node) -> list[str]:
        """The operands that are maps, without table and parameters."""
        return list(node.inputs[: -1 if table_of(node.op, node.inputs) is None else -2])

    def _map_behind(self, name: str) -> tuple[str, Callable[[], Array]] | None:
        """`map_behind`, but not a map whose order changes in this walk."""
        found = map_behind(self._graph, name)
        return None if found is None or found[0] in self._hoisted else found

    def _sink(self, node: Node) -> bool:
        """Compute an elementwise operator on the map behind one of its operands."""
        data = self._data(node)
        if any(self._graph.types[name].shape != self._shape(node) for name in data):
            return False
        found = [item for name in data if (item := self._map_behind(name)) is not None]
        moved = {root: places for root, get in found if not is_in_order(places := get())}
        ends = self._read_as(node.output) if moved else []
        before, shape = self._costs(moved.items()), self._shape(node)
        read_before = self._costs(self._turned(node.output, ends, shape))
        for root, places in moved.items():
            back = np.argsort(places.reshape(-1)).astype(places.dtype)
            shape = self._graph.types[root].shape
            after = self._costs((name, get().reshape(-1)[back]) for name, get in found)
            ends_after = [(places.reshape(-1)[order], by_pixels) for order, by_pixels in ends]
            read_after = self._costs(self._turned(node.output, ends_after, shape))
            if after > before or after + read_after >= before + read_before:
                continue
            operands = [self._reordered(name, back.reshape(shape)) for name in data]
            if all(operands):
                return self._add(node, operands, places)
        return False

    def _costs(self, items: Iterable[tuple[str, Array]]) -> int:
        return sum(_cost(self._graph, *item) for item in items)

    def _read_as(self, name: str) -> list[tuple[Array, bool]]:
        """For each view of a tensor that an integer operator reads, unless it works in other
        orders, too: the elements as it reads them, and whether it works on pixels in any order."""
        found, views = list[tuple[Array, bool]](), [name]
        for view in views:
            for user in self._graph.users[view]:
                if user.op in VIEWS:
                    views.append(user.output)
                elif runs_on(user.op, ACCELERATOR) and user.op not in _IN_ANY_ORDER:
                    found.append((source_of(self._graph, view)[1](), user.op in _BY_PIXELS))
        return found

    def _turned(
        self, name: str, ends: Iterable[tuple[Array, bool]], shape: tuple[int, ...]
    ) -> list[tuple[str, Array]]:
        """The ends of `_read_as` for which a map of this shape must be turned."""
        return [
            (name, order)
            for order, by_pixels in ends
            if not (by_pixels and _keeps_channels(order, shape))
        ]

    def _hoist(self, node: Node) -> bool:
        """Compute an elementwise operator in the order that its readers want."""
        data = self._data(node)
        shapes = {self._graph.types[name].shape for name in data}
        if shapes != {self._shape(node)} or node.output in self._graph.outputs:
            return False
        if any(is_accelerated(self._graph, source_of(self._graph, name)[0]) for name in data):
            return False
        ends = view_ends(self._graph, node.output)
        # Elementwise operators follow: they work in any order.
        ends = [name for name in ends if not self._follow(name)] or ends
        if not ends:
            return False
        orders = [source_of(self._graph, name)[1]() for name in ends]
        first = orders[0]
        if is_in_order(first) or any(
            order.shape != first.shape or not np.array_equal(order, first) for order in orders
        ):
            return False
        operands = [self._reordered(name, first) for name in data]
        back = np.argsort(first.reshape(-1)).astype(first.dtype)
        if not (all(operands) and self._add(node, operands, back.reshape(self._shape(node)))):
            return False
        self._hoisted.add(node.output)
        return True

    def _follow(self, name: str) -> bool:
        """Whether of the integer operators only elementwise ones read a tensor."""
        users = [user.op for user in self._graph.users[name] if runs_on(user.op, ACCELERATOR)]
        return all(op in ELEMENTWISE for op in users)

    def _sink_rows(self, node: Node) -> bool:
        """Compute an operator over the channels of each pixel on the map behind its operand, if
        that has the same channels for each pixel."""
        found = self._map_behind(node.inputs[0])
        if found is None or is_in_order(places := found[1]()):
            return False
        if not _keeps_channels(places, self._graph.types[found[0]].shape):
            return False
        return self._add(node, [found[0]], places)

    def _sink_slice(self, node: Node) -> bool:
        """Slice the map behind the operand, if the part is a slice there, too."""
        x, params = node.inputs
        found = self._map_behind(x)
        if found is None or is_in_order(places := found[1]()):
            return False
        begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
        parts = zip(begins, ends, steps, strict=True)
        taken = places[tuple(slice(*part) for part in parts)]
        root = self._graph.types[found[0]].shape
        kept = [np.unique(axis) for axis in np.unravel_index(taken.reshape(-1), root)]
        strides = [int(axis[1] - axis[0]) if len(axis) > 1 else 1 for axis in kept]
        if any(
            not np.array_equal(axis, axis[0] + stride * np.arange(len(axis)))
            for axis, stride in zip(kept, strides, strict=True)
        ):
            return False
        shape = tuple(len(axis) for axis in kept)
        if int(np.prod(shape)) != taken.size or shape[0] != root[0]:
            return False
        local = np.searchsorted(np.unique(taken), taken.reshape(-1)).reshape(taken.shape)
        attrs = {
            **node.attrs,
            "begins": tuple(int(axis[0]) for axis in kept),
            "ends": tuple(int(axis[-1]) + 1 for axis in kept),
            "steps": tuple(strides),
        }
        base = f"{node.output}.map"
        name = self._new.add_fresh(node.op, [found[0], params], attrs, base=base, name=node.name)
        return add_moved(self._new, name, local, node.output)

    def _sink_pad(self, node: Node) -> bool:
        """Add the rows of a matrix (N, rows, 1, C) as pixels of the map (N, C, rows, 1) that it
        turns."""
        x, params = node.inputs
        images, rows, height, depth = self._graph.types[x].shape
        pads = ints(node.attrs, "pads")
        found = self._map_behind(x)
        if found is None or height != 1 or any(pads[:1] + pads[2:5] + pads[6:]):
            return False
        root, places = found
        turned = np.arange(images * depth * rows).reshape(images, depth, rows).transpose(0, 2, 1)
        if is_in_order(turned) or not np.array_equal(places().reshape(turned.shape), turned):
            return False
        base, shape = f"{node.output}.operand", (images, depth, rows, 1)
        operand = self._new.add_fresh("reshape", [root], {"shape": shape}, base=base)
        attrs = {**node.attrs, "pads": (0, 0, pads[1], 0, 0, 0, pads[5], 0)}
        base = f"{node.output}.map"
        name = self._new.add_fresh(node.op, [operand, params], attrs, base=base, name=node.name)
        total = pads[1] + rows + pads[5]
        order = np.arange(images * depth * total, dtype=np.int32).reshape(images, depth, total)
        places_of = order.transpose(0, 2, 1).reshape(self._shape(node))
        return add_moved(self._new, name, places_of, node.output)

    def _reordered(self, name: str, order: Array) -> str:
        """`name` with its elements in `order`; "" if views cannot do it."""
        output = self._new.fresh_name(f"{name}.ordered")
        return output if add_moved(self._new, name, order, output) else ""

    def _add(self, node: Node, operands: list[str], places: Array) -> bool:
        """Add the operator on `operands`, and its old result, which has the elements `places`."""
        base, inputs = f"{node.output}.map", [*operands, *node.inputs[len(operands) :]]
        name = self._new.add_fresh(node.op, inputs, node.attrs, base=base, name=node.name)
        return add_moved(self._new, name, places, node.output)

    def _shape(self, node: Node) -> tuple[int, ...]:
        return self._graph.types[node.output].shape
