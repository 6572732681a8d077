"""Temporary: rewrites of ONNX nodes as passes of the graph, until each is ported."""

from collections.abc import Callable
from typing import Any

import onnx

from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.float_model import FloatModel, simplified
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.rewrites.normalize import flatten_rows


def on_network(*passes: Callable[[Network], Any]) -> Callable[[Graph], Graph]:
    """A pass of the graph that runs rewrites of ONNX nodes."""

    def run(graph: Graph) -> Graph:
        network = network_of(flatten_rows(graph))
        for each in passes:
            network = each(network) or network
        return simplified(load_onnx(network.to_model()))

    return run


def on_graph(network: Network, *passes: Callable[[Graph], Graph]) -> Network:
    """The network after passes of the graph."""
    graph = load_onnx(network.to_model())
    for run in passes:
        graph = run(graph)
    return network_of(simplified(graph))


def network_of(graph: Graph) -> Network:
    return Network(FloatModel(graph, graph.outputs, onnx.ModelProto(ir_version=10)).to_onnx())


def simple_network(model: onnx.ModelProto) -> Network:
    return on_graph(Network(model), flatten_rows)
