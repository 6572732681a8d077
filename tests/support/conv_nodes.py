"""A convolution in a compiled graph, as the tuner and the lower bound see it."""

import numpy as np

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import Variant

__all__ = ["conv_layer"]


def conv_layer(
    variant: Variant,
    *,
    pad: int = 1,
    stride: int = 1,
    scale: float = 0.01,
    zero_point: int = 3,
    kernel: int = 3,
    dilation: int = 1,
    channels: tuple[int, int] = (8, 16),
    size: int = 12,
    group: int = 1,
) -> tuple[Graph, Node]:
    """The second of two convolutions, with its graph; the first keeps channels and size."""
    rng = np.random.default_rng(3)
    model = QdqModel()
    ins, outs = channels
    x = model.requantized(model.input("x", (1, ins, size, size)), 0.05, zero_point)
    first = model.weights(_weights(rng, (ins, ins, 3, 3)), scale)
    x = model.requantized(model.op("Conv", x, first, pads=[1] * 4), 0.05, zero_point)
    second = model.weights(_weights(rng, (outs, ins // group, kernel, kernel)), scale)
    y = model.op(
        "Conv",
        x,
        second,
        pads=[pad] * 4,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        group=group,
    )
    x = model.requantized(y, 0.05, zero_point)
    compiled = compile_graph(load_onnx(model.model(x).SerializeToString()), variant, host=None)
    graph = compiled.launch.graph
    return graph, next(node for node in reversed(graph.nodes) if node.op.startswith("q_conv2d"))


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-127, 128, shape).astype(np.int8)
