"""Temporary: a network of ONNX nodes by way of the graph, while passes move to it."""

from collections.abc import Callable

import onnx

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.float_model import read_float_model, simplified
from daedal.compiler.quantization.network import Network


def on_graph(network: Network, *passes: Callable[[Graph], Graph]) -> Network:
    model = read_float_model(network.to_model())
    for run in passes:
        model = model.with_graph(run(model.graph))
    return Network(simplified(model).to_onnx())


def simple_network(model: onnx.ModelProto) -> Network:
    return Network(simplified(read_float_model(model)).to_onnx())
