"""Turns a constant per channel, added after a convolution or dense layer, into its bias."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node

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
    merged: dict[str, tuple[Node, str]] = {}
    for node in graph.nodes:
        found = _match(graph, node)
        if found is not None:
            merged[node.output] = found
    absorbed = {layer.output for layer, _ in merged.values()}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.output in merged:
            layer, bias = merged[node.output]
            flat = _flat_bias(graph, builder, layer, bias)
            operands = (*layer.inputs, flat)
            builder.add(layer.op, operands, layer.attrs, output=node.output, name=layer.name)
        elif node.output not in absorbed:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _match(graph: Graph, node: Node) -> tuple[Node, str] | None:
    """The layer and the per-channel constant that `node` adds to it, or None."""
    if node.op != "add":
        return None
    for result, bias in (node.inputs, node.inputs[::-1]):
        layer = graph.producers.get(result)
        if layer is None or layer.op not in ("conv2d", "dense") or len(layer.inputs) != 2:
            continue
        alone = len(graph.users[result]) == 1 and result not in graph.outputs
        if alone and _is_constant(graph, bias) and _is_per_channel(graph, layer, bias):
            return layer, bias
    return None


def _is_constant(graph: Graph, name: str) -> bool:
    producer = graph.producers.get(name)
    if producer is not None and producer.op == "dequantize":
        return graph.is_constant(producer.inputs[0])
    return graph.is_constant(name)


def _is_per_channel(graph: Graph, layer: Node, bias: str) -> bool:
    """Whether the constant has one value per output channel and broadcasts over everything else."""
    out = graph.types[layer.output]
    shape = graph.types[bias].shape
    padded = (1,) * (out.rank - len(shape)) + shape
    channel_axis = _channel_axis(graph, layer)
    wanted = tuple(extent if axis == channel_axis else 1 for axis, extent in enumerate(out.shape))
    return padded == wanted


def _channel_axis(graph: Graph, layer: Node) -> int:
    """Channel axis of a layer's result: the last one of rows, the second of maps."""
    return graph.types[layer.output].rank - 1 if layer.op == "dense" else 1


def _flat_bias(graph: Graph, builder: GraphBuilder, layer: Node, bias: str) -> str:
    """The constant as a vector, reshaped if necessary."""
    channels = graph.types[layer.output].shape[_channel_axis(graph, layer)]
    if graph.types[bias].shape == (channels,):
        return bias
    flat = builder.fresh_name(f"{bias}.flat")
    return builder.add("reshape", [bias], {"shape": (channels,)}, output=flat)
