"""A float model as a graph, and as ONNX again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import onnx

from daedal.compiler.frontend.host_model import HOST_OPSET, host_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.dataflow import producer_of
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    fold_bias,
    fold_constants,
    simplify_reshapes,
    simplify_transposes,
)
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.quantization.operators import kind_of

__all__ = ["FloatModel", "read_float_model", "simplified"]

_RMS_OPSET = 23
"""The first with RMSNormalization. Source: ONNX, docs/Changelog.md."""

_CONVERSIONS = ("Cast", "CastLike", "Expand")
"""Operators whose result is their operand where that has its type and shape."""


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
        """The model with the additional outputs `observe`; opset 21, 23 if it has RMS norms."""
        has_rms = any(node.op == "rms_norm" for node in self.graph.nodes)
        opset = _RMS_OPSET if has_rms else HOST_OPSET
        outputs = [*self.outputs, *observe]
        types = {item.name: item for item in self.source.graph.output}
        model = host_model(self.graph, outputs, self.source, types, opset=opset)
        model.graph.name = self.graph.name
        _make_unique(model.graph.node)
        return model


def read_float_model(model: onnx.ModelProto) -> FloatModel:
    """Import a checked model.

    Raises
    ------
    ModelError
        For a model that cannot be imported (`load_onnx`).
    """
    graph, outputs = load_onnx(model), tuple(item.name for item in model.graph.output)
    # Those that depend on no input are none of the graph's.
    kept = dict.fromkeys((*graph.outputs, *(name for name in outputs if name in graph.producers)))
    return FloatModel(replace(graph, outputs=tuple(kept)), outputs, model)


def _make_unique(nodes: Iterable[onnx.NodeProto]) -> None:
    """Give each node a name of its own, as onnxruntime wants it."""
    known: set[str] = set()
    for node in nodes:
        if not node.name or node.name in known:
            node.name = next(name for name in node.output if name)
        while node.name in known:
            node.name += "_"
        known.add(node.name)


def simplified(graph: Graph) -> Graph:
    """The graph with constants evaluated, and without nodes that change nothing.

    An output that is another name of a tensor becomes the name of it.
    """
    graph = _name_outputs(rewrite(graph, {"onnx": _drop_conversion}))
    for run in (
        fold_constants,
        simplify_reshapes,
        simplify_transposes,
        eliminate_dead_code,
        fold_bias,
    ):
        graph = run(graph)
    return graph


def _drop_conversion(graph: Rewriter, node: Node) -> None:
    """Remove a node that gives its operand the type and the shape that it has."""
    kind = graph.types[node.output]
    if kind_of(node) in _CONVERSIONS and graph.types[node.inputs[0]] == kind:
        graph.add("reshape", node.inputs[:1], {"shape": kind.shape}, output=node.output)


def _name_outputs(graph: Graph) -> Graph:
    """Let nodes compute the outputs that are only other names of what they compute."""
    names: dict[str, str] = {}
    for name in graph.outputs:
        node = producer_of(graph, name, ("reshape",))
        source = "" if node is None else node.inputs[0]
        is_taken = source in (*graph.inputs, *graph.outputs, *graph.constants, *names)
        if source and not is_taken and graph.types[source] == graph.types[name]:
            names[source] = name
    if not names:
        return graph
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.output in names.values():
            continue
        inputs = [names.get(name, name) for name in node.inputs]
        output = names.get(node.output, node.output)
        builder.add(node.op, inputs, node.attrs, output=output, name=node.name, note=node.note)
    return builder.finish(graph.outputs)
