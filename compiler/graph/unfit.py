"""`UnfitLayers`: what is raised for all layers of a graph that the accelerator cannot run."""

from collections.abc import Mapping

from daedal.common.errors import UnsupportedError, UserError
from daedal.compiler.graph.graph import Graph

__all__ = ["UnfitLayers"]


class UnfitLayers(UnsupportedError):
    """Layers of `graph` that cannot be compiled: the error of each, keyed by its result tensor.

    Its message and tensor are those of the first.
    """

    def __init__(self, graph: Graph, errors: Mapping[str, UserError]) -> None:
        tensor, first = next(iter(errors.items()))
        super().__init__(str(first), tensor)
        self.graph = graph
        self.errors = errors
