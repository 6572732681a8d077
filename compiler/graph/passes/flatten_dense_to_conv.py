"""Turns integer layers into layers on maps, whose blocked layout needs no data movement."""

import math

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.selection import PIXELWISE

__all__ = ["flatten_dense_to_conv"]

_ELEMENTWISE = ("q_add", "q_leaky_relu", "q_mul", "q_requantize")


def flatten_dense_to_conv(graph: Graph) -> Graph:
    """Compute `q_dense` as `q_conv2d`, and tensors of other than four dimensions as maps.

    A dense layer over a flattened map becomes a convolution whose kernel has the size of the map.
    Any other dense layer becomes a 1x1 convolution. Operands of integer elementwise operators
    become maps, too: matrices (N, C) become (N, C, 1, 1), sequences (N, C, L, 1), and volumes
    (N, C, D, H * W), if their shapes are equal. All other readers of a result get it through a
    reshape. Exact.

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
        self._lifted: dict[str, str] = {}
        self._flattened: dict[str, str] = {}

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            if node.op == "q_dense":
                self._rewrite_dense(node)
            elif node.op in _ELEMENTWISE and self._is_liftable(node):
                *data, params = node.inputs
                operands = [*(self._as_map(name) for name in data), params]
                self._define_map(node, node.op, operands, dict(node.attrs))
            else:
                self._builder.copy_node(node, [self._as_old(name) for name in node.inputs])
        return self._builder.finish([self._as_old(name) for name in self._graph.outputs])

    def _is_liftable(self, node: Node) -> bool:
        """Whether the operands of an elementwise operator can become maps."""
        shapes = {self._graph.types[name].shape for name in node.inputs[:-1]}
        rank = self._graph.types[node.output].rank
        return rank in (1, 2, 3) or (rank > MAP_RANK and len(shapes) == 1)

    def _rewrite_dense(self, node: Node) -> None:
        x, w, params = node.inputs
        source = self._flattened_map(x)
        maps = self._as_map(x) if source is None else self._as_old(source)
        _, *extents = self._builder.types[maps].shape
        weights = self._graph.constant(w)
        kernel = self._builder.constant(
            self._builder.fresh_name(f"{w}.map"), weights.reshape(weights.shape[0], *extents)
        )
        attrs: dict[str, AttrValue] = {**PIXELWISE, **node.attrs}
        self._define_map(node, "q_conv2d", [maps, kernel, params], attrs)

    def _flattened_map(self, name: str) -> str | None:
        """The map (N, C, H, W) that `name` (N, C * H * W) flattens, or None."""
        producer = self._graph.producers.get(name)
        if producer is None or producer.op != "reshape":
            return None
        before = self._graph.types[producer.inputs[0]].shape
        after = self._graph.types[name].shape
        return producer.inputs[0] if len(before) == 4 and before[0] == after[0] else None

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

    def _as_map(self, name: str) -> str:
        """The tensor `name` of the old graph as a map."""
        if name in self._computed:
            return self._computed[name]
        if name not in self._lifted:
            shape = _map_shape(self._graph.types[name].shape)
            output = self._builder.fresh_name(f"{name}.map")
            self._lifted[name] = self._builder.add(
                "reshape", [name], {"shape": shape}, output=output
            )
        return self._lifted[name]

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


def _map_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Four dimensions: padded with ones, or with the last dimensions joined."""
    if len(shape) == 1:
        return (1, *shape, 1, 1)
    if len(shape) <= MAP_RANK:
        return (*shape, *(1,) * (MAP_RANK - len(shape)))
    return (*shape[:3], math.prod(shape[3:]))
