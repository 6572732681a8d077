"""Chains of reshapes and transposes: where each element of a view comes from, and the reverse."""

from collections.abc import Callable
from math import prod

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.dataflow import Dataflow, first_behind, is_accelerated, producer_of
from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.registry import get_op, runs_on
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.tensor import Box

__all__ = [
    "VIEWS",
    "add_moved",
    "box_of",
    "has_channels_last",
    "is_in_order",
    "map_behind",
    "read_views",
    "source_of",
    "turned_axes",
    "view_ends",
    "view_source",
]

VIEWS = ("reshape", "transpose")
"""Operators that give the elements of their operand in another form."""

_MATRIX_RANK = 2


def source_of(graph: Dataflow | GraphBuilder, name: str) -> tuple[str, Callable[[], Array]]:
    """The tensor at the start of the views up to `name`, and the source of each element.

    The flat indices have the shape of `name`. They are computed when asked for.
    """
    producer_of = graph.producer if isinstance(graph, GraphBuilder) else graph.producers.get
    chain: list[Node] = []
    root = name
    while (producer := producer_of(root)) is not None and producer.op in VIEWS:
        chain.append(producer)
        root = producer.inputs[0]
    kind = graph.types[root]

    def places() -> Array:
        found: Array = np.arange(kind.num_elements, dtype=np.int32).reshape(kind.shape)
        for node in reversed(chain):
            found = get_op(node.op).evaluate([found], [graph.types[node.inputs[0]]], node.attrs)
        return found

    return root, places


def box_of(places: Array, shape: tuple[int, ...]) -> Box | None:
    """The part of a tensor of `shape` that has just the elements at the flat indices `places`; None
    if there is none."""
    found = np.unravel_index(places.reshape(-1), shape)
    box = tuple((int(axis.min()), int(axis.max()) + 1) for axis in found)
    size = prod(end - begin for begin, end in box)
    return box if size == places.size == len(np.unique(places)) else None


def map_behind(graph: Dataflow, name: str) -> tuple[str, Callable[[], Array]] | None:
    """`source_of` a tensor, if that is an integer operator's map."""
    found = source_of(graph, name)
    computed = is_accelerated(graph, found[0])
    return found if computed and graph.types[found[0]].rank == MAP_RANK else None


def view_source(graph: Dataflow, name: str) -> tuple[str, Array] | None:
    """The integer operator's map that `name` is a view of, and the source index of each element.

    The flat indices have the shape of `name`. None if `name` is not such a view, or if the chain
    has no transpose.
    """
    found = map_behind(graph, name)
    return (found[0], found[1]()) if found is not None and _has_transpose(graph, name) else None


def has_channels_last(builder: GraphBuilder, name: str) -> bool:
    """Whether a tensor of four axes is a view of a map (N, C, H, W), or of a matrix of channels,
    that has the channels on its last axis."""
    root, places = source_of(builder, name)
    shape, kind = builder.types[name].shape, builder.types[root]
    if len(shape) != MAP_RANK or root == name or kind.rank not in (MAP_RANK, _MATRIX_RANK):
        return False
    pixels = prod(kind.shape[2:])
    channels = places() // pixels % kind.shape[1]
    return shape[-1] == kind.shape[1] and bool(np.all(channels == np.arange(kind.shape[1])))


def read_views(graph: Graph) -> set[str]:
    """What integer operators read, but the graph's outputs: those are the host's, which moves the
    bytes anyway."""
    read = {name for node in graph.nodes if runs_on(node.op, ACCELERATOR) for name in node.inputs}
    return read - set(graph.outputs)


def view_ends(graph: Dataflow, name: str) -> list[str]:
    """The views of `name` that integer operators read as maps. Empty if anything else reads one, or
    `name` itself."""
    ends: list[str] = []
    open_views = [name]
    while open_views:
        view = open_views.pop()
        if view in graph.outputs:
            return []
        for user in graph.users[view]:
            if user.op in VIEWS:
                open_views.append(user.output)
            elif runs_on(user.op, ACCELERATOR) and graph.types[view].rank == MAP_RANK:
                ends.append(view)
            else:
                return []
    return ends


def is_in_order(places: Array) -> bool:
    """Whether flat indices count up from 0."""
    return np.array_equal(places.reshape(-1), np.arange(places.size, dtype=places.dtype))


def add_moved(builder: GraphEditor, name: str, places: Array, output: str) -> bool:
    """Add `output`: the elements of `name` at the flat indices `places`, in their shape.

    It becomes a reshape, a transpose and a reshape. False, and nothing is added, if these cannot do
    it: the indices are no permutation, or one that transposes no array.
    """
    found = turned_axes(places)
    if found is None:
        return False
    if is_in_order(places):
        builder.add("reshape", [name], {"shape": places.shape}, output=output)
        return True
    shape, order = found
    split = builder.fresh_name(f"{output}.split")
    turned = builder.fresh_name(f"{output}.turned")
    builder.add("reshape", [name], {"shape": shape}, output=split)
    builder.add("transpose", [split], {"order": order}, output=turned)
    builder.add("reshape", [turned], {"shape": places.shape}, output=output)
    return True


def turned_axes(places: Array) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape and the order of axes of the transpose that `places` are, in other shapes; None if
    the indices are no permutation, or one that transposes no array."""
    runs = _nested_loops(places.reshape(-1))
    if runs is None:
        return None
    axes = sorted(range(len(runs)), key=lambda axis: -runs[axis][1])
    shape = tuple(runs[axis][0] for axis in axes)
    return shape, tuple(axes.index(axis) for axis in range(len(runs)))


def _has_transpose(graph: Dataflow, name: str) -> bool:
    return producer_of(graph, first_behind(graph, name, ("reshape",)), ("transpose",)) is not None


def _nested_loops(order: Array) -> list[tuple[int, int]] | None:
    """Extents and steps of the nested loops, outermost first, that count through `order`.

    None if there are no such loops over all of 0 to ``order.size - 1``.
    """
    count = order.size
    if order[0] != 0:
        return None
    runs: list[tuple[int, int]] = []
    size = 1
    while size < count:
        step = int(order[size])
        extent = 1
        while (extent + 1) * size <= count and np.array_equal(
            order[extent * size : (extent + 1) * size], order[:size] + extent * step
        ):
            extent += 1
        while extent > 1 and count % (extent * size):
            extent -= 1
        if extent == 1:
            return None
        runs.insert(0, (extent, step))
        size *= extent
    expected = 1
    for extent, step in sorted(runs, key=lambda run: run[1]):
        if step != expected:
            return None
        expected *= extent
    return runs
