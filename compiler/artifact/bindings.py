"""Bindings between host and accelerator: maps a program's tensors to the model's names."""

from collections.abc import Collection, Sequence

from daedal.artifact.artifact import Binding, Counterpart
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.same_elements import SameElements, is_host_view

__all__ = ["Bindings"]


class Bindings:
    """Finds, for tensors of the programs, the model's tensors with the same elements.

    Of several, the one that the model computes first is taken; the host computes the others from
    it. A tensor without a counterpart in the model is passed between launches under its name in the
    program that computes it.

    Parameters
    ----------
    graph : the graph after all passes; `same` has its views, and those of the graphs before it.
    lowered : the graph whose tensors results are compared with.
    imported : the graph before all passes.
    names : of the model's tensors.
    starts : tensors from which the compiled part starts; they take precedence.
    """

    def __init__(
        self,
        graph: Graph,
        lowered: Graph,
        same: SameElements,
        imported: Graph,
        names: Collection[str],
        starts: Sequence[str],
    ) -> None:
        self._graph = graph
        self._lowered = lowered
        self._same = same
        self._types = imported.types
        computed = {name: place for name, place in imported.positions.items() if name in names}
        first = {**dict.fromkeys(imported.inputs, -1), **dict.fromkeys(starts, -2)}
        self._places = {**computed, **first}

    def name(self, tensor: str) -> str:
        """The name that a tensor of a launch has outside the launch."""
        known = [name for name in self._same.names(tensor) if name in self._places]
        return min(known, key=self._places.__getitem__) if known else self._root(tensor)

    def counterpart(self, tensor: str) -> Counterpart | None:
        """What to compare the result of a layer with, if the reference does not have it.

        Its moves start from the tensor as it leaves the launch (`leaving`). A tensor of the model
        comes before one that only the graph has: what that is depends on what the host computes.
        """
        name, types = self.name(tensor), self._lowered.types
        if name in types:
            return None
        of_model = {known: kind for known, kind in types.items() if known in self._places}
        return self._same.counterpart(name, of_model) or self._same.counterpart(name, types)

    def entering(self, part: Graph, tensor: str) -> Binding:
        """The binding of the launch's input `tensor`."""
        name = self.name(tensor)
        return self._bound(part, name, tensor, name, tensor)

    def leaving(self, part: Graph, tensor: str) -> Binding:
        """The binding of the launch's output `tensor`."""
        name = self.name(tensor)
        return self._bound(part, name, tensor, tensor, name)

    def _bound(self, part: Graph, name: str, tensor: str, source: str, target: str) -> Binding:
        moves, wide = self._same.moves(source, target), is_wide(part.types[tensor])
        if name not in self._types:
            types = part.types if name in part.types else self._graph.types
            return Binding(name, tensor, types[name].shape, flip_sign=False, wide=wide, moves=moves)
        kind = self._types[name]
        return Binding(name, tensor, kind.shape, kind.dtype == "uint8", wide=wide, moves=moves)

    def _root(self, tensor: str) -> str:
        """The result of a launch from which the driver makes `tensor`."""
        node = self._graph.producers.get(tensor)
        while node is not None and is_host_view(node):
            tensor = node.inputs[0]
            node = self._graph.producers.get(tensor)
        return tensor
