"""Turns integer layers into layers on maps, whose blocked layout needs no data movement."""

import math

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.selection import PIXELWISE

__all__ = ["flatten_dense_to_conv"]


def flatten_dense_to_conv(graph: Graph) -> Graph:
    """Compute `q_dense` as `q_conv2d`, and tensors of other than four dimensions as maps.

    A dense layer over a flattened map becomes a convolution whose kernel has the size of the map.
    Any other dense layer becomes a 1x1 convolution. Operands of integer elementwise operators
    become maps, too: matrices (N, C) become (N, C, 1, 1), sequences (N, C, L, 1), or (N, C, 1, L)
    where a map of height 1 is reshaped to one of them, and volumes (N, C, D, H * W), if their
    shapes are equal. All other readers of a result get it through a reshape. Exact.

    Before::

        f = reshape(x) shape=1,512          # x: int8[1,32,4,4]
        y = q_dense(f, w, p)                # w: int8[10,512]

    After::

        const w.map: int8[10,32,4,4]
        y = q_conv2d(x, w.map, p) ...       # int8[1,10,1,1]
        y.flat = reshape(y) shape=1,10      # where something reads the matrix
    """
    return _Rewrite(graph).run()


class _Rewrite:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._computed: dict[str, str] = {}
        self._lifted: dict[tuple[str, tuple[int, ...]], str] = {}
        self._flattened: dict[str, str] = {}

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            if node.op == "q_dense":
                self._rewrite_dense(node)
            elif node.op in ELEMENTWISE and self._is_liftable(node):
                data, constants = _split(node)
                is_row = any(self._is_row(name) for name in data)
                operands = [*(self._as_map(name, is_row=is_row) for name in data), *constants]
                self._define_map(node, node.op, operands, dict(node.attrs))
            else:
                self._builder.copy_node(node, [self._as_old(name) for name in node.inputs])
        return self._builder.finish([self._as_old(name) for name in self._graph.outputs])

    def _is_liftable(self, node: Node) -> bool:
        """Whether the operands of an elementwise operator can become maps."""
        shapes = {self._graph.types[name].shape for name in _split(node)[0]}
        rank = self._graph.types[node.output].rank
        return rank in (1, 2, 3) or (rank > MAP_RANK and len(shapes) == 1)

    def _rewrite_dense(self, node: Node) -> None:
        x, w, params = node.inputs
        source = self._flattened_map(x)
        maps = self._as_map(x) if source is None else self._as_old(source)
        _, *extents = self._builder.types[maps].shape
        weights = self._graph.constant(w)
        kernel = self._builder.fresh_constant(
            f"{w}.map", weights.reshape(weights.shape[0], *extents)
        )
        attrs: dict[str, AttrValue] = {**PIXELWISE, **node.attrs}
        self._define_map(node, "q_conv2d", [maps, kernel, params], attrs)

    def _flattened_map(self, name: str) -> str | None:
        """The map (N, C, H, W) that `name` (N, C * H * W) flattens, or None."""
        source = self._map_behind(name)
        if source is None or self._graph.types[source].shape[0] != self._graph.types[name].shape[0]:
            return None
        return None if self._is_view(source) else source

    def _is_view(self, name: str) -> bool:
        """Whether `name` is no map of its own, but has the elements of another in their order, as
        the heads of a single token have."""
        producer = self._graph.producers.get(name)
        if producer is None or producer.op != "transpose":
            return producer is not None and producer.op == "reshape"
        shape = self._graph.types[producer.inputs[0]].shape
        moved = [axis for axis in ints(producer.attrs, "order") if shape[axis] > 1]
        return moved == sorted(moved)

    def _map_behind(self, name: str) -> str | None:
        """The nearest map that reshapes turn into `name`, or None."""
        producer = self._graph.producers.get(name)
        while producer is not None and producer.op == "reshape":
            source = producer.inputs[0]
            if self._graph.types[source].rank == MAP_RANK:
                return source
            producer = self._graph.producers.get(source)
        return None

    def _is_row(self, name: str) -> bool:
        """Whether `name` is a sequence (N, C, L) that was a map (N, C, 1, L) before."""
        shape = self._graph.types[name].shape
        if len(shape) != MAP_RANK - 1:
            return False
        if name in self._computed:
            found = self._builder.types[self._computed[name]].shape
        else:
            source = self._map_behind(name)
            found = () if source is None else self._graph.types[source].shape
        return found == _row_shape(shape) != _map_shape(shape)

    def _define_map(
        self, node: Node, op: str, operands: list[str], attrs: dict[str, AttrValue]
    ) -> None:
        """Add the operator on maps; its result keeps the name unless that is a graph output."""
        name = node.output
        if name in self._graph.outputs:
            name = self._builder.fresh_name(f"{node.output}.map")
        self._computed[node.output] = self._builder.add(
            op, operands, attrs, output=name, name=node.name
        )

    def _as_map(self, name: str, *, is_row: bool = False) -> str:
        """The tensor `name` of the old graph as a map; with `is_row`, a sequence has height 1."""
        shape = self._graph.types[name].shape
        wanted = _row_shape(shape) if is_row and len(shape) == MAP_RANK - 1 else _map_shape(shape)
        source = self._computed.get(name, name)
        if name in self._computed and self._builder.types[source].shape == wanted:
            return source
        if (name, wanted) not in self._lifted:
            self._lifted[name, wanted] = self._builder.add_fresh(
                "reshape", [source], {"shape": wanted}, base=f"{name}.map"
            )
        return self._lifted[name, wanted]

    def _as_old(self, name: str) -> str:
        """The tensor `name` of the old graph in its old shape."""
        if name not in self._computed:
            return name
        if name not in self._flattened:
            is_output = name in self._graph.outputs
            output = name if is_output else self._builder.fresh_name(f"{name}.flat")
            shape = self._graph.types[name].shape
            self._flattened[name] = self._builder.add(
                "reshape", [self._computed[name]], {"shape": shape}, output=output
            )
        return self._flattened[name]


def _split(node: Node) -> tuple[list[str], list[str]]:
    """The operands of an elementwise operator: its data, and its parameters and table."""
    count = len(node.inputs) - (1 if table_of(node.op, node.inputs) is None else 2)
    return list(node.inputs[:count]), list(node.inputs[count:])


def _row_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A sequence (N, C, L) as a map of height 1."""
    return (*shape[:2], 1, *shape[2:])


def _map_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Four dimensions: padded with ones, or with the last dimensions joined."""
    if len(shape) == 1:
        return (1, *shape, 1, 1)
    if len(shape) <= MAP_RANK:
        return (*shape, *(1,) * (MAP_RANK - len(shape)))
    return (*shape[:3], math.prod(shape[3:]))
