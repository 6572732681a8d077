"""`Fallback`: which quantized tensors the host computes, because the accelerator cannot."""

from collections.abc import Collection, Mapping

from daedal.compiler.graph.graph import Graph
from daedal.isa.errors import UserError

__all__ = ["Fallback", "UnfitLayers"]


class UnfitLayers(Exception):
    """Layers of `graph` that cannot be compiled: the error of each, by the tensor it computes."""

    def __init__(self, graph: Graph, errors: Mapping[str, UserError]) -> None:
        super().__init__(", ".join(errors))
        self.graph = graph
        self.errors = errors


class Fallback:
    """Grows with every layer that turns out not to fit.

    Attributes
    ----------
    reasons : why, by the quantized tensor that the host has to compute.
    quantized : all tensors that can be left to it.
    """

    def __init__(self, imported: Graph) -> None:
        self.reasons: dict[str, str] = {}
        self.first: UserError | None = None
        self.quantized = {node.output for node in imported.nodes if node.op == "quantize"}

    def add(self, unfit: UnfitLayers) -> None:
        """Leave what `unfit` names to the host. Raises its error where that changes nothing."""
        self.first = self.first or next(iter(unfit.errors.values()))
        known = len(self.reasons)
        for tensor, error in unfit.errors.items():
            for name in _quantized_from(unfit.graph, tensor, self.quantized):
                self.reasons.setdefault(name, str(error))
        if len(self.reasons) == known:
            raise next(iter(unfit.errors.values()))


def _quantized_from(graph: Graph, tensor: str, quantized: Collection[str]) -> list[str]:
    """The quantized tensors of the model that `tensor` is on the way to, or itself."""
    found, stack, seen = [], [tensor], {tensor}
    while stack:
        name = stack.pop()
        if name in quantized:
            found.append(name)
            continue
        fresh = [node.output for node in graph.users.get(name, ()) if node.output not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return found
