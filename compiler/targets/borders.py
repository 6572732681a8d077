"""Checks that host and accelerator meet only at tensors of the model.

The host's parts are cut out of the model, so they can read and write only the model's tensors. A
tensor that a pass created can cross the border only if it is a view of one of those
(`SameElements`).
"""

from collections.abc import Collection

from daedal.common.errors import UnsupportedError, UserError
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.partition import assign_targets
from daedal.compiler.graph.same_elements import SameElements, is_host_view
from daedal.compiler.graph.unfit import UnfitLayers

__all__ = ["check_borders"]


def check_borders(graph: Graph, same: SameElements, names: Collection[str]) -> None:
    """Check every tensor that the host gives to the accelerator or takes from it.

    Parameters
    ----------
    graph : after all passes.
    same : the views of `graph`, and of the graphs before it.
    names : of the model's tensors.

    Raises
    ------
    UnfitLayers
        For the tensors that are computed from a tensor without a counterpart in the model.
    """
    errors: dict[str, UserError] = {}
    targets = assign_targets(graph)
    for node in graph.nodes:
        if is_host_view(node):
            continue
        for name in node.inputs:
            made = _made_by(graph, name)
            if made is None or targets[made.output] == targets[node.output]:
                continue
            if not any(x in names for x in same.names(name)):
                errors[node.output] = UnsupportedError(
                    "host and accelerator can only exchange tensors that the model quantizes, and "
                    f"it does not quantize what {made} gives to {node}; quantize it",
                    node.output,
                )
    if errors:
        raise UnfitLayers(graph, errors)


def _made_by(graph: Graph, name: str) -> Node | None:
    """The node that computes the elements of `name`; None for inputs and constants."""
    node = graph.producers.get(name)
    while node is not None and is_host_view(node):
        node = graph.producers.get(node.inputs[0])
    return node
