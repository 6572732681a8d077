"""Folds per-channel affine operators (batch norms, mul and add with constants) into layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.dataflow import Dataflow, is_read_once
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.batch_norm import gain_and_offset
from daedal.compiler.graph.ops.registry import ints, number
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.quantization.operators import LAYERS, channel_axis
from daedal.compiler.quantization.rewrites.patterns import both_orders, constant_of, same_axis

__all__ = ["fold_affine"]

_CHANNELS = 1
"""Axis of the channels, in ONNX."""

_VIEWS = ("reshape", "transpose")

_NORM = "batch_norm"

_PIXEL: dict[str, AttrValue] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
"""A convolution whose window is one pixel."""


@dataclass(frozen=True)
class _Affine:
    """``y = gain * x + offset``, per channel: the tensor `x`, gain and offset (C,) float64, and the
    axis of the channels."""

    x: str
    gain: Array
    offset: Array
    axis: int = _CHANNELS


@dataclass(frozen=True)
class _Result:
    """What a layer gives, or a view of it: the layer, the views behind it, and the axis of its
    channels."""

    layer: Node
    views: Sequence[Node]
    axis: int


def fold_affine(graph: Graph) -> Graph:
    """Fold batch norms, and mul and add by constants per channel, into the layer before.

    Reshapes and transposes may lie between, as behind a product of tokens. One without a layer
    before it becomes a 1x1 depthwise convolution. Quantized per channel, its weights are +-127 and
    its bias is exact. The following affine operators are folded into it. A batch norm of tensors
    that are not maps becomes mul and add. Those of an input of the graph stay: the host computes
    them in float, exactly, before it quantizes.

    Before::

        t = conv2d(x, w) ...
        y = batch_norm(t, scale, b, mean, var) epsilon=1e-05

    After, gain is ``scale / sqrt(var + epsilon)``::

        y = conv2d(x, w * gain, b - mean * gain) ...

    Raises
    ------
    ModelError
        For a batch norm whose variance is negative.
    """
    return rewrite(graph, dict.fromkeys((_NORM, "add", "mul"), _fold))


def _fold(graph: Rewriter, node: Node) -> None:
    affine = _match(graph, node)
    if affine is None or _is_of_host(graph, affine.x):
        return
    result = _result(graph, affine.x)
    rank = graph.types[affine.x].rank
    if result is not None and result.axis == affine.axis:
        _scale_layer(graph, node, result, affine)
    elif affine.axis != _CHANNELS:
        return
    elif rank in (MAP_RANK - 1, MAP_RANK) and (len(affine.gain) > 1 or node.op == _NORM):
        _add_depthwise(graph, node, affine)
    elif node.op == _NORM:
        _add_elementwise(graph, node, affine)


def _match(graph: Dataflow, node: Node) -> _Affine | None:
    """`node` as an affine map per channel, or None."""
    if node.op == _NORM:
        return _match_norm(graph, node)
    for x, name in both_orders(node):
        value = constant_of(graph, name)
        if value is None or value.dtype.kind != "f" or graph.is_constant(x):
            continue
        result = _result(graph, x)
        axes = [] if result is None else [result.axis]
        for axis in dict.fromkeys([*axes, _CHANNELS]):
            vector = _per_channel(value, graph.types[x].shape, axis)
            if vector is None:
                continue
            if node.op == "mul":
                return _Affine(x, vector, np.zeros_like(vector), axis)
            return _Affine(x, np.ones_like(vector), vector, axis)
    return None


def _match_norm(graph: Dataflow, node: Node) -> _Affine | None:
    x, *names = node.inputs
    if not all(map(graph.is_constant, names)):
        return None
    parameters = [graph.constant(name) for name in names]
    epsilon = number(node.attrs, "epsilon")
    if not np.all(parameters[-1].astype(np.float64) + epsilon > 0):
        raise ModelError(
            f"variances of a batch norm must be positive, not {parameters[-1].min()} (node "
            f"{node.name!r}); export the model again"
        )
    return _Affine(x, *gain_and_offset(parameters, epsilon))


def _per_channel(value: Array, shape: Sequence[int], axis: int) -> Array | None:
    """The constant as (C,) if it varies only along the channels, `axis`, and does not broadcast the
    result, else None."""
    if value.ndim > len(shape) or len(shape) <= axis:
        return None
    full = (1,) * (len(shape) - value.ndim) + value.shape
    wanted = [extent if place == axis else 1 for place, extent in enumerate(shape)]
    if value.size != 1 and list(full) != wanted:
        return None
    return np.broadcast_to(value.astype(np.float64).ravel(), (max(value.size, 1),))


def _is_of_host(graph: Dataflow, name: str) -> bool:
    """Whether a tensor is an input, or an affine map of one."""
    node = graph.producers.get(name)
    if node is None:
        return True
    affine = _match(graph, node) if node.op in (_NORM, "add", "mul") else None
    return affine is not None and _is_of_host(graph, affine.x)


def _result(graph: Dataflow, name: str) -> _Result | None:
    """The layer that a tensor is a result of, if nothing reads it in between; None if there is no
    such layer, or its channels are no axis."""
    views: list[Node] = []
    while is_read_once(graph, name):
        node = graph.producers.get(name)
        if node is None:
            return None
        if node.op in LAYERS:
            axis = graph.types[name].rank - 1 if node.op == "dense" else _CHANNELS
            is_layer = all(map(graph.is_constant, node.inputs[1:]))
            return _behind(graph, _Result(node, views[::-1], axis)) if is_layer else None
        if node.op not in _VIEWS:
            return None
        views.append(node)
        name = node.inputs[0]
    return None


def _behind(graph: Dataflow, result: _Result) -> _Result | None:
    """The result with the axis of its channels behind the views, if they stay an axis."""
    axis: int | None = result.axis
    for view in result.views:
        if axis is None:
            return None
        if view.op == "transpose":
            axis = ints(view.attrs, "order").index(axis)
        else:
            before, after = (graph.types[name].shape for name in (view.inputs[0], view.output))
            axis = same_axis(before, after, axis)
    return None if axis is None else _Result(result.layer, result.views, axis)


def _scale_layer(graph: Rewriter, node: Node, result: _Result, affine: _Affine) -> None:
    """Replace `node` by the layer with the gain in its weights, and the offset in its bias."""
    layer = result.layer
    x, base, *bias = layer.inputs
    weights = graph.constant(base).astype(np.float64)
    axis = channel_axis(layer)
    channels = weights.shape[axis]
    shape = [channels if index == axis else 1 for index in range(weights.ndim)]
    gain = np.broadcast_to(affine.gain, (channels,))
    before = graph.constant(bias[0]).astype(np.float64) if bias else np.zeros(channels)
    scaled = (weights * gain.reshape(shape)).astype(np.float32)
    operands = [
        x,
        graph.fresh_constant(f"{base}.folded", scaled),
        graph.fresh_constant(f"{base}.bias", (before * gain + affine.offset).astype(np.float32)),
    ]
    name = layer.output
    for item, inputs in ((layer, operands), *((view, None) for view in result.views)):
        is_last = item is (result.views[-1] if result.views else layer)
        output = node.output if is_last else graph.fresh_name(f"{item.output}.folded")
        name = graph.add(item.op, inputs or [name], item.attrs, output=output, name=item.name)


def _add_depthwise(graph: Rewriter, node: Node, affine: _Affine) -> None:
    """Replace `node` by a depthwise convolution whose window is one pixel."""
    base, shape = node.output, graph.types[node.output].shape
    channels = shape[_CHANNELS]
    gain, offset = (np.broadcast_to(x, (channels,)) for x in (affine.gain, affine.offset))
    constants = [
        graph.fresh_constant(f"{base}.gain", gain.astype(np.float32).reshape(-1, 1, 1, 1)),
        graph.fresh_constant(f"{base}.offset", offset.astype(np.float32)),
    ]
    attrs = _PIXEL | {"groups": channels}
    if len(shape) == MAP_RANK:
        operands = [affine.x, *constants]
        graph.add("conv2d", operands, attrs, output=node.output, name=node.name)
        return
    as_map = {"shape": (*shape[:2], 1, *shape[2:])}
    x = graph.add_fresh("reshape", [affine.x], as_map, base=f"{affine.x}.map")
    y = graph.add_fresh("conv2d", [x, *constants], attrs, base=f"{base}.map", name=node.name)
    graph.add("reshape", [y], {"shape": shape}, output=node.output)


def _add_elementwise(graph: Rewriter, node: Node, affine: _Affine) -> None:
    """Replace `node` by a product and a sum with constants."""
    base, shape = node.output, (-1, *(1,) * (graph.types[node.output].rank - 2))
    gain, offset = (
        graph.fresh_constant(f"{base}.{role}", value.astype(np.float32).reshape(shape))
        for role, value in (("gain", affine.gain), ("offset", affine.offset))
    )
    scaled = graph.add_fresh("mul", [affine.x, gain], base=f"{base}.scaled")
    graph.add("add", [scaled, offset], output=node.output, name=node.name)
