"""Finds the integers behind the weights and the bias of a quantized layer."""

from dataclasses import dataclass

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import get_op, ints

__all__ = ["QuantizedWeights", "find_weights", "real_constant", "weight_axis"]


@dataclass(frozen=True)
class QuantizedWeights:
    """Weights with zero point 0 and one scale per output channel.

    Parameters
    ----------
    name : the constant they come from.
    values : int8, or int16 if they do not fit int8 and may be wide; output channel first.
    scales : (output channels,) float64.
    """

    name: str
    values: Array
    scales: Array


def find_weights(
    graph: Graph, layer: Node, channel_axis: int, *, wide: bool = False
) -> QuantizedWeights:
    """Weights of `layer`, with the axis of the output channels (`channel_axis`) moved to the front.

    uint8 weights less their zero point may not fit int8. With `wide` they may be int16.

    Raises
    ------
    ModelError
        For weights that are not constant, not quantized, quantized along another axis, or that do
        not fit int8 once their zero point is subtracted.
    """
    tensor = layer.inputs[1]
    moves: list[Node] = []
    producer = graph.producers.get(tensor)
    while producer is not None and producer.op in ("reshape", "transpose"):
        moves.append(producer)
        producer = graph.producers.get(producer.inputs[0])
    if producer is None or producer.op != "dequantize" or not graph.is_constant(producer.inputs[0]):
        raise UnsupportedError(
            f"weights of a quantized layer must be constant and quantized, not {tensor!r} "
            f"({layer}); quantize the weights to int8"
        )
    values, scale, zero_point = (graph.constant(name) for name in producer.inputs)
    axis = producer.attrs["axis"]
    assert isinstance(axis, int)
    integers = values.astype(np.int64) - _along(zero_point, axis, values.ndim)
    for move in reversed(moves):
        integers, axis = _moved(move, integers, axis)
    if scale.size > 1 and axis != channel_axis:
        raise UnsupportedError(
            f"weights must be quantized per tensor or per output channel, not along axis {axis} "
            f"({layer}); quantize the model again"
        )
    integers = np.moveaxis(integers, channel_axis, 0)
    fits = integers.min() >= -128 and integers.max() <= 127
    if not fits and not wide:
        raise UnsupportedError(
            "weights must fit into int8 once their zero point is subtracted, not "
            f"{integers.min()} to {integers.max()} ({layer}); quantize them symmetrically"
        )
    scales = np.broadcast_to(scale.astype(np.float64), (integers.shape[0],))
    dtype = np.int8 if fits else np.int16
    return QuantizedWeights(
        producer.inputs[0], np.ascontiguousarray(integers.astype(dtype)), scales
    )


def _moved(move: Node, integers: Array, axis: int) -> tuple[Array, int]:
    """The integers after a reshape or transpose, and where their `axis` is then; -1 if the reshape
    does not keep it."""
    if move.op == "transpose":
        order = ints(move.attrs, "order")
        return integers.transpose(order), order.index(axis) if axis >= 0 else axis
    shape = ints(move.attrs, "shape")
    kept = axis >= 0 and integers.shape[: axis + 1] == shape[: axis + 1]
    return integers.reshape(shape), axis if kept else -1


def weight_axis(layer: Node) -> int:
    """Axis of the output channels in the weights of a float layer."""
    if layer.op == "dense":
        return 0 if layer.attrs["transposed"] else 1
    return 1 if layer.op == "conv_transpose2d" else 0


def real_constant(graph: Graph, layer: Node, tensor: str, what: str = "bias") -> Array:
    """Value of a constant, or of nodes over constants (dequantize, reshape).

    Raises
    ------
    ModelError
        If it depends on an input of the graph.
    """
    if graph.is_constant(tensor):
        return graph.constant(tensor)
    producer = graph.producers.get(tensor)
    if producer is None or producer.op not in ("dequantize", "reshape", "transpose"):
        raise UnsupportedError(
            f"the {what} of a quantized layer must be constant, not {tensor!r} ({layer}); "
            "fold it into a constant"
        )
    operands = [real_constant(graph, layer, name, what) for name in producer.inputs]
    types = [graph.types[name] for name in producer.inputs]
    return get_op(producer.op).evaluate(operands, types, producer.attrs)


def _along(parameter: Array, axis: int, rank: int) -> Array:
    if parameter.size == 1:
        return parameter.astype(np.int64).reshape(())
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.astype(np.int64).reshape(shape)
