"""Folds per-channel affine operators (batch norms, Mul and Add with constants) into layers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_operators import channel_axis

__all__ = ["fold_affine"]

_CHANNELS = 1
"""Axis of the channels, in ONNX."""

_VIEWS = ("Reshape", "Transpose")

_NORM = "BatchNormalization"


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
    """What a layer gives, or a view of it: the layer, the axis of its channels, and the node whose
    output it is."""

    layer: onnx.NodeProto
    axis: int
    last: onnx.NodeProto


def fold_affine(network: Network) -> None:
    """Fold BatchNormalization, and Mul and Add by constants per channel, into the layer before.

    Reshapes and Transposes may lie between, as behind a product of tokens. One without a layer
    before it becomes a 1x1 depthwise convolution. Quantized per channel, its weights are +-127 and
    its bias is exact. The following affine operators are folded into it. A batch norm of tensors
    that are not maps becomes Mul and Add. Those of an input of the network stay: the host computes
    them in float, exactly, before it quantizes.

    Before::

        t = Conv(x, W)
        y = BatchNormalization(t, scale, B, mean, var)

    After::

        y = Conv(x, W * gain, B - mean * gain)      gain = scale / sqrt(var + epsilon)

    Raises
    ------
    ModelError
        For a batch norm whose variance is negative.
    """
    shapes = {name: shape for name, (_, shape) in network.types().items()}
    users = network.users()
    results: dict[str, _Result] = {}
    on_host = {item.name for item in network.inputs}
    kept: list[onnx.NodeProto] = []
    for node in network.nodes:
        target = node.output[0]
        affine = _match(network, node, shapes, results)
        result = results.get(affine.x) if affine is not None else None
        if affine is None:
            kept.append(node)
        elif affine.x in on_host:
            on_host.add(target)
            kept.append(node)
        elif (
            result is not None
            and result.axis == affine.axis
            and network.has_one_user(affine.x, users)
        ):
            _scale_layer(network, result.layer, affine)
            result.last.output[0] = target
            results[target] = result
            continue
        elif affine.axis != _CHANNELS:
            kept.append(node)
        elif len(shapes[affine.x]) in (MAP_RANK - 1, MAP_RANK) and (
            len(affine.gain) > 1 or node.op_type == _NORM
        ):
            node = _depthwise(network, node, affine, len(shapes[affine.x]))
            kept.append(node)
        elif node.op_type == _NORM:
            kept.extend(_elementwise(network, node, affine, len(shapes[affine.x])))
        else:
            kept.append(node)
        if _is_layer(network, node):
            results[target] = _Result(node, _CHANNELS, node)
        elif node.op_type in _VIEWS and network.has_one_user(node.input[0], users):
            _follow(node, shapes, results)
    network.nodes = kept


def _follow(
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    results: dict[str, _Result],
) -> None:
    """Note where the channels are behind a view, if they stay an axis."""
    before, after = node.input[0], node.output[0]
    result = results.get(before)
    if result is None or before not in shapes or after not in shapes:
        return
    axis = result.axis
    if node.op_type == "Transpose":
        order = attribute(node, "perm", list(range(len(shapes[before])))[::-1])
        results[after] = _Result(result.layer, list(order).index(axis), node)
        return
    outer, extent = math.prod(shapes[before][:axis]), shapes[before][axis]
    for place, found in enumerate(shapes[after]):
        if found == extent and math.prod(shapes[after][:place]) == outer:
            results[after] = _Result(result.layer, place, node)
            return


def _match(
    network: Network,
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    results: Mapping[str, _Result],
) -> _Affine | None:
    """`node` as an affine map per channel, or None."""
    if node.op_type == _NORM:
        return _match_norm(network, node, shapes)
    if node.op_type not in ("Mul", "Add"):
        return None
    for x, name in (tuple(node.input), tuple(reversed(node.input))):
        value = network.constants.get(name)
        if value is None or value.dtype.kind != "f" or x not in shapes or x in network.constants:
            continue
        axes = [results[x].axis] if x in results else []
        for axis in dict.fromkeys([*axes, _CHANNELS]):
            vector = _per_channel(value, shapes[x], axis)
            if vector is None:
                continue
            if node.op_type == "Mul":
                return _Affine(x, vector, np.zeros_like(vector), axis)
            return _Affine(x, np.ones_like(vector), vector, axis)
    return None


def _match_norm(
    network: Network, node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]
) -> _Affine | None:
    """Source: ONNX BatchNormalization-9, -14 and -15, in their form for inference."""
    parameters = [network.constants.get(name) for name in node.input[1:]]
    if attribute(node, "training_mode", 0) or any(node.output[1:]) or node.input[0] not in shapes:
        return None
    scale, bias, mean, variance = (
        None if value is None else value.astype(np.float64) for value in parameters
    )
    if scale is None or bias is None or mean is None or variance is None:
        return None
    channels = shapes[node.input[0]][_CHANNELS : _CHANNELS + 1]
    if any(value.shape != channels for value in (scale, bias, mean, variance)):
        return None
    spread = variance + attribute(node, "epsilon", 1e-5)
    if not np.all(spread > 0):
        raise ModelError(
            f"variances of a batch norm must be positive, not {variance.min()} (node "
            f"{node.name or node.output[0]!r}); export the model again"
        )
    gain = scale / np.sqrt(spread)
    return _Affine(node.input[0], gain, bias - mean * gain)


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


def _is_layer(network: Network, node: onnx.NodeProto) -> bool:
    """Whether `node` has constant weights, and either no bias or a constant one per channel."""
    if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or len(node.input) < 2:
        return False
    if any(attribute(node, name, 1.0) != 1.0 for name in ("alpha", "beta")):
        return False
    if node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1:
        return False
    if not all(name in network.constants for name in node.input[1:] if name):
        return False
    weights = network.constants[node.input[1]]
    if weights.ndim < 2:
        return False
    channels = weights.shape[channel_axis(node)]
    return not _has_bias(node) or network.constants[node.input[2]].size in (1, channels)


def _has_bias(layer: onnx.NodeProto) -> bool:
    return len(layer.input) > 2 and bool(layer.input[2])


def _scale_layer(network: Network, layer: onnx.NodeProto, affine: _Affine) -> None:
    """Multiply weights and bias by the gain, and add the offset to the bias."""
    weights = network.constants[layer.input[1]].astype(np.float64)
    axis = channel_axis(layer)
    channels = weights.shape[axis]
    shape = [channels if index == axis else 1 for index in range(weights.ndim)]
    gain = np.broadcast_to(affine.gain, (channels,))
    bias = np.zeros(channels)
    if _has_bias(layer):
        bias = bias + network.constants[layer.input[2]].astype(np.float64).ravel()
    scaled = (weights * gain.reshape(shape)).astype(np.float32)
    base = layer.input[1]
    operands = [
        layer.input[0],
        network.add_constant(f"{base}_folded", scaled),
        network.add_constant(f"{base}_bias", (bias * gain + affine.offset).astype(np.float32)),
    ]
    layer.ClearField("input")
    layer.input.extend(operands)


def _depthwise(
    network: Network, node: onnx.NodeProto, affine: _Affine, rank: int
) -> onnx.NodeProto:
    """A depthwise convolution of tensors with `rank` dimensions, whose window is one pixel."""
    base = node.output[0]
    weights = affine.gain.astype(np.float32).reshape(-1, *(1,) * (rank - 1))
    return helper.make_node(
        "Conv",
        [
            affine.x,
            network.add_constant(f"{base}_gain", weights),
            network.add_constant(f"{base}_offset", affine.offset.astype(np.float32)),
        ],
        [base],
        name=node.name,
        group=len(weights),
        kernel_shape=[1] * (rank - 2),
    )


def _elementwise(
    network: Network, node: onnx.NodeProto, affine: _Affine, rank: int
) -> list[onnx.NodeProto]:
    """A product and a sum with constants."""
    base = node.output[0]
    shape = (-1, *(1,) * (rank - 2))
    gain, offset = (
        network.add_constant(f"{base}_{role}", value.astype(np.float32).reshape(shape))
        for role, value in (("gain", affine.gain), ("offset", affine.offset))
    )
    scaled = network.fresh(f"{base}_scaled")
    return [
        helper.make_node("Mul", [affine.x, gain], [scaled], name=scaled),
        helper.make_node("Add", [scaled, offset], [base], name=node.name),
    ]
