"""A float model as a graph, and as ONNX again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx

from daedal.compiler.frontend.host_model import HOST_OPSET, host_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    fold_bias,
    fold_constants,
    simplify_reshapes,
    simplify_transposes,
)

__all__ = ["FloatModel", "read_float_model", "simplified"]

_RMS_OPSET = 23
"""The first with RMSNormalization. Source: ONNX, docs/Changelog.md."""


@dataclass(frozen=True)
class FloatModel:
    """A model that is quantized: a graph, and what ONNX needs besides.

    Attributes
    ----------
    graph : computes `outputs`, but for those that are outside it.
    outputs : of the model, in order.
    source : the model from which the graph was imported.
    """

    graph: Graph
    outputs: tuple[str, ...]
    source: onnx.ModelProto

    def with_graph(self, graph: Graph) -> "FloatModel":
        """The model with another graph."""
        return replace(self, graph=graph)

    def to_onnx(self, observe: Sequence[str] = ()) -> onnx.ModelProto:
        """The model in opset 21, or 23 if it has RMS norms, with the additional outputs `observe`."""
        has_rms = any(node.op == "rms_norm" for node in self.graph.nodes)
        opset = _RMS_OPSET if has_rms else HOST_OPSET
        outputs = [*self.outputs, *observe]
        model = host_model(self.graph, outputs, self.source, {}, opset=opset)
        model.graph.name = self.graph.name
        return model


def read_float_model(model: onnx.ModelProto) -> FloatModel:
    """Import a checked model.

    Raises
    ------
    ModelError
        For a model that cannot be imported (`load_onnx`).
    """
    return FloatModel(load_onnx(model), tuple(item.name for item in model.graph.output), model)


def simplified(graph: Graph) -> Graph:
    """The graph with constants evaluated, and without nodes that change nothing."""
    for run in (
        fold_constants,
        simplify_reshapes,
        simplify_transposes,
        eliminate_dead_code,
        fold_bias,
    ):
        graph = run(graph)
    return graph
