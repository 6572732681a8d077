"""Where host and accelerator meet: tensors of a program by the model's names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.isa.artifact import Binding

__all__ = ["Way", "bind", "way_in", "way_out"]

_VIEWS = ("flip_sign", "pack", "pack_stream", "reshape", "unpack")
"""Operators that give the same values in another form: the driver does them."""


@dataclass(frozen=True)
class Way:
    """From a tensor of the model to one of the program, or back: the model's name, and the shape
    and order of a transpose between them."""

    name: str
    view: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def through(self, graph: Graph, node: Node, name: str) -> "Way":
        """The way that also leads through `node`, to `name`."""
        if node.op != "transpose":
            return replace(self, name=name)
        order = ints(node.attrs, "order")
        return Way(name, graph.types[node.inputs[0]].shape, order)

    def leads_through(self, node: Node) -> bool:
        """Whether the host's view `node` can be a part of it: the driver permutes axes once."""
        return node.op in _VIEWS or (node.op == "transpose" and not self.order)


Types = Mapping[str, onnx.ValueInfoProto]


def way_in(types: Types, graph: Graph, name: str) -> Way:
    """Where a tensor that enters the accelerator comes from: what its packing reads.

    One that only launches know keeps its own name.
    """
    way = Way(name)
    while way.name not in types:
        node = graph.producers.get(way.name)
        if node is None or not way.leads_through(node):
            return Way(name)
        way = way.through(graph, node, node.inputs[0])
    return way


def way_out(types: Types, graph: Graph, name: str) -> Way:
    """Where a tensor that leaves the accelerator goes. The blocked tensor bears the model's name,
    but where it is an output of the graph: then its plain form does."""
    way = Way(name)
    while way.name not in types:
        views = [node for node in graph.users.get(way.name, ()) if way.leads_through(node)]
        if not views:
            return Way(name)
        way = way.through(graph, views[0], views[0].output)
    return way


def bind(types: Types, graph: Graph, way: Way, tensor: str) -> Binding:
    """The binding of a program's `tensor` at the end of `way`."""
    if way.name not in types:
        return Binding(way.name, tensor, graph.types[tensor].shape, flip_sign=False)
    kind = types[way.name].type.tensor_type
    return Binding(
        name=way.name,
        tensor=tensor,
        shape=tuple(int(dim.dim_value) for dim in kind.shape.dim),
        flip_sign=kind.elem_type == onnx.TensorProto.UINT8,
        view=way.view,
        order=way.order,
    )
