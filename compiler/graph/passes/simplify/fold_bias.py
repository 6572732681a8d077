"""Turns a constant per channel, added after a convolution or dense layer, into its bias."""

from daedal.compiler.graph.dataflow import Dataflow, producer_of, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["fold_bias"]


def fold_bias(graph: Graph) -> Graph:
    """Turn the constant added to the result of a layer without a bias into its bias.

    The constant may be dequantized. Nothing else may read the layer's result.

    Before::

        t = dense(x, w) transposed=0
        y = add(t, b)

    After::

        y = dense(x, w, b) transposed=0
    """
    return rewrite(graph, {"add": _fold})


def _fold(graph: Rewriter, node: Node) -> None:
    for result, bias in (node.inputs, node.inputs[::-1]):
        layer = sole_producer(graph, result, ("conv2d", "dense"))
        if layer is None or len(layer.inputs) != 2:
            continue
        if _is_constant(graph, bias) and _is_per_channel(graph, layer, bias):
            operands = (*layer.inputs, _flat_bias(graph, layer, bias))
            graph.add(layer.op, operands, layer.attrs, output=node.output, name=layer.name)
            return


def _is_constant(graph: Dataflow, name: str) -> bool:
    dequantize = producer_of(graph, name, ("dequantize",))
    return graph.is_constant(name if dequantize is None else dequantize.inputs[0])


def _is_per_channel(graph: Dataflow, layer: Node, bias: str) -> bool:
    """Whether the constant has one value per output channel and broadcasts over everything else."""
    out = graph.types[layer.output]
    shape = graph.types[bias].shape
    padded = (1,) * (out.rank - len(shape)) + shape
    channel_axis = _channel_axis(graph, layer)
    wanted = tuple(extent if axis == channel_axis else 1 for axis, extent in enumerate(out.shape))
    return padded == wanted


def _channel_axis(graph: Dataflow, layer: Node) -> int:
    """Channel axis of a layer's result: the last one of rows, the second of maps."""
    return graph.types[layer.output].rank - 1 if layer.op == "dense" else 1


def _flat_bias(graph: Rewriter, layer: Node, bias: str) -> str:
    """The constant as a vector, reshaped if necessary."""
    shape = (graph.types[layer.output].shape[_channel_axis(graph, layer)],)
    if graph.types[bias].shape == shape:
        return bias
    return graph.add_fresh("reshape", [bias], {"shape": shape}, base=f"{bias}.flat")
