"""`Fallback`: the quantized tensors that the host computes because the accelerator cannot."""

from collections.abc import Collection, Mapping, Sequence

from daedal.compiler.graph.graph import Graph
from daedal.isa.errors import UserError

__all__ = ["Fallback", "UnfitLayers"]


class UnfitLayers(Exception):
    """Layers of `graph` that cannot be compiled: the error of each, keyed by its result tensor."""

    def __init__(self, graph: Graph, errors: Mapping[str, UserError]) -> None:
        super().__init__(", ".join(errors))
        self.graph = graph
        self.errors = errors


class Fallback:
    """Grows with every layer that turns out not to fit.

    Attributes
    ----------
    reasons : the reason for each quantized tensor that the host has to compute.
    quantized : all tensors that the host can compute.
    """

    def __init__(self, imported: Graph) -> None:
        self.reasons: dict[str, str] = {}
        self.first: UserError | None = None
        self.quantized = {node.output for node in imported.nodes if node.op == "quantize"}

    def add(self, unfit: UnfitLayers, whole: Graph | None = None) -> None:
        """Move the layers of `unfit` to the host. Raises the first error if none is left to move.

        Parameters
        ----------
        whole : the graph that `unfit.graph` is a part of, if it is one.
        """
        self.first = self.first or next(iter(unfit.errors.values()))
        known = len(self.reasons)
        graphs = [unfit.graph] if whole is None else [unfit.graph, whole]
        for tensor, error in unfit.errors.items():
            for name in _quantized_from(graphs, tensor, self.quantized):
                self.reasons.setdefault(name, str(error))
        if len(self.reasons) == known:
            raise next(iter(unfit.errors.values()))


def _quantized_from(graphs: Sequence[Graph], tensor: str, quantized: Collection[str]) -> list[str]:
    """The nearest quantized tensors of the model computed from `tensor`, or `tensor` itself.

    All of `graphs` use the same names for the same tensors.
    """
    found, stack, seen = [], [tensor], {tensor}
    while stack:
        name = stack.pop()
        if name in quantized:
            found.append(name)
            continue
        unsigned = {
            node.output
            for graph in graphs
            for node in graph.users.get(name, ())
            if node.op == "flip_sign" and node.output in quantized
        }
        if unsigned:
            found += sorted(unsigned - seen)
            seen |= unsigned
            continue
        fresh = {
            node.output: None
            for graph in graphs
            for node in graph.users.get(name, ())
            if node.output not in seen
        }
        seen.update(fresh)
        stack.extend(fresh)
    return found
