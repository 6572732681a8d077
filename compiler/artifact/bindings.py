"""Where host and accelerator meet: tensors of a program by the model's names."""

from collections.abc import Mapping, Sequence

import onnx

from daedal.compiler.frontend.cut import ModelCutter
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.same_elements import SameElements, is_host_view
from daedal.isa.artifact import Binding

__all__ = ["Bindings"]


class Bindings:
    """The model's tensors that have the elements of the programs' tensors.

    Of several, that is the one that the model computes first: the host gets the others from it, as
    the model does. A tensor whose elements the model has nowhere goes from launch to launch under
    the name that it has in the program that computes it.

    Parameters
    ----------
    graph : after all passes; `same` knows its views, and those of the graphs before it.
    cutter : of the model.
    starts : what the compiled part starts from, before all others.
    types : of the model's tensors, with static shapes where they are known.
    """

    def __init__(
        self,
        graph: Graph,
        same: SameElements,
        cutter: ModelCutter,
        starts: Sequence[str],
        types: Mapping[str, onnx.ValueInfoProto],
    ) -> None:
        self._graph = graph
        self._same = same
        self._types = types
        first = {**dict.fromkeys(cutter.inputs, -1), **dict.fromkeys(starts, -2)}
        self._places = {**cutter.producers, **first}

    def name(self, tensor: str) -> str:
        """Name of a tensor that a launch reads or computes, outside the launch."""
        known = [name for name in self._same.names(tensor) if name in self._places]
        return min(known, key=self._places.__getitem__) if known else self._root(tensor)

    def entering(self, part: Graph, tensor: str) -> Binding:
        """The binding of what the launch of `part` reads as `tensor`."""
        name = self.name(tensor)
        return self._bound(part, name, tensor, name, tensor)

    def leaving(self, part: Graph, tensor: str) -> Binding:
        """The binding of what it computes as `tensor`."""
        name = self.name(tensor)
        return self._bound(part, name, tensor, tensor, name)

    def _bound(self, part: Graph, name: str, tensor: str, source: str, target: str) -> Binding:
        moves = self._same.moves(source, target)
        if name not in self._types:
            types = part.types if name in part.types else self._graph.types
            return Binding(name, tensor, types[name].shape, flip_sign=False, moves=moves)
        kind = self._types[name].type.tensor_type
        return Binding(
            name=name,
            tensor=tensor,
            shape=tuple(int(dim.dim_value) for dim in kind.shape.dim),
            flip_sign=kind.elem_type == onnx.TensorProto.UINT8,
            moves=moves,
        )

    def _root(self, tensor: str) -> str:
        """What the driver makes `tensor` of: the result of a launch."""
        node = self._graph.producers.get(tensor)
        while node is not None and is_host_view(node):
            tensor = node.inputs[0]
            node = self._graph.producers.get(tensor)
        return tensor
