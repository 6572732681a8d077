"""`Fallback`: the quantized tensors that the host computes because the accelerator cannot."""

from collections.abc import Collection, Sequence

from daedal.common.errors import UserError
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.graph.unfit import UnfitLayers

__all__ = ["Fallback"]


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

    def add(
        self,
        unfit: Sequence[UnfitLayers],
        whole: Graph | None = None,
        same: SameElements | None = None,
    ) -> None:
        """Move all these layers to the host. Raises the first error if none is left to move.

        Parameters
        ----------
        whole : the graph that those of `unfit` are parts of, if they are.
        same : knows the views and the parts of tensors that passes have made.
        """
        first = next(iter(unfit[0].errors.values()))
        self.first = self.first or first
        known = len(self.reasons)
        graphs = [item.graph for item in unfit] + ([] if whole is None else [whole])
        for item in unfit:
            for tensor, error in item.errors.items():
                for name in _quantized_from(graphs, tensor, self.quantized, same):
                    self.reasons.setdefault(name, str(error))
        if len(self.reasons) == known:
            raise first


def _quantized_from(
    graphs: Sequence[Graph], tensor: str, quantized: Collection[str], same: SameElements | None
) -> list[str]:
    """The nearest quantized tensors of the model computed from `tensor`, or `tensor` itself, or
    what one of these is a view or a part of.

    All of `graphs` use the same names for the same tensors.
    """
    given = {node.output for graph in graphs for node in graph.nodes if node.op == "quantize"}
    found, stack, seen = [], [tensor], {tensor}
    while stack:
        name = stack.pop()
        wholes = [name] if same is None else same.wholes(name)
        known = [whole for whole in wholes if whole in quantized and whole not in given]
        if name in quantized or known:
            found += [name] if name in quantized else known
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
