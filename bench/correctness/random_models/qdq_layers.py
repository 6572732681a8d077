"""Layers with weights, pools and norms for random quantized graphs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.correctness.random_models.net import Value
from bench.correctness.random_models.qdq_net import QdqNet

__all__ = ["LAYERS"]


def conv(net: QdqNet) -> None:
    """Any strides, dilations, pads, groups; one or two dimensions; activations behind."""
    x = net.end(lambda value: value.rank in (3, 4) and value.shape[1] <= 48)
    channels, axes = x.shape[1], x.rank - 2
    groups = net.one_of((1, 1, 1, channels, channels, _divisor(net, channels)))
    outs = groups * net.integer(1, max(1, net.one_of((4, 16, 40)) // groups))
    dilations = [net.one_of((1, 1, 1, 2)) for _ in range(axes)]
    pads, kernel = _window(net, x.shape[2:], dilations)
    shape = (outs, channels // groups, *kernel)
    weight = net.weight_of(shape, int(np.prod(shape[1:])), 0)
    operands = [x, weight]
    if net.chance(0.7):
        operands.append(net.bias_of(outs, x, weight))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel if net.chance(0.8) else None,
        "strides": _some(net, [net.one_of((1, 1, 2, 2, 3)) for _ in range(axes)], 1),
        "dilations": dilations if max(dilations) > 1 else None,
        "group": groups if groups > 1 or net.chance() else None,
    }
    if net.chance(0.15):
        attributes["auto_pad"] = net.one_of(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = _some(net, pads, 0)
    y = net.op("Conv", operands, **attributes)[0]
    _behind(net, y)


def channels_last(net: QdqNet) -> None:
    """A convolution or pool between transposes, as exporters of channels-last networks write it."""
    x = net.end(lambda value: value.rank == 4 and value.shape[3] <= 48)
    y = net.one("Transpose", x, perm=[0, 3, 1, 2])
    if net.chance(0.6):
        y = net.quantized(y, x)
    channels = y.shape[1]
    kernel = [min(net.integer(1, 3), extent) for extent in y.shape[2:]]
    if net.chance(0.7):
        groups = net.one_of((1, 1, channels))
        weight = net.weight_of(
            (net.integer(1, 2) * groups, channels // groups, *kernel), channels, 0
        )
        y = net.op("Conv", [y, weight], group=groups, strides=[net.integer(1, 2)] * 2)[0]
    else:
        name = net.one_of(("MaxPool", "AveragePool"))
        y = net.op(name, [y], kernel_shape=kernel, strides=[net.integer(1, 2)] * 2)[0]
    if net.chance(0.4):
        y = net.quantized(y)
    if net.chance(0.3):
        y = net.one("Relu", y)
    net.quantized(net.one("Transpose", y, perm=[0, 2, 3, 1]))


def on_integers(net: QdqNet) -> None:
    """QLinearConv or QLinearMatMul between scales."""
    x = net.end(lambda value: value.rank in (2, 4) and value.shape[1] <= 48)
    known = net.known.get(x.name)
    net.require(known is not None and known.zero is not None)
    assert known is not None and known.zero is not None
    net.require(known.integers.array.dtype in (np.uint8, np.int8))
    depth, outs = x.shape[1], net.integer(1, 20)
    kernel = [min(net.one_of((1, 3)), extent) for extent in x.shape[2:]]
    shape = (outs, depth, *kernel) if kernel else (depth, outs)
    integers = net.rng.integers(-127, 128, shape).astype(np.int8)
    weight = [net.constant(integers), net.constant(np.float32(1 / 128))]
    weight.append(net.constant(np.array(0, np.int8)))
    size = net.constant(np.float32(net.one_of((1 / 16, 1 / 20))))
    dtype: Any = known.integers.array.dtype.type
    zero = net.constant(np.array(net.integer(0, 100), dtype))
    operands = [known.integers, known.scale, known.zero, *weight, size, zero]
    if kernel and net.chance():
        operands.append(net.constant(net.rng.integers(-900, 900, outs).astype(np.int32)))
    q = net.op("QLinearConv" if kernel else "QLinearMatMul", operands)[0]
    net.dequantized(q, size, zero)


def float_layer(net: QdqNet) -> None:
    """A convolution with weights that are not quantized, or that are no constants."""
    x = net.end(lambda value: value.rank == 4 and value.shape[1] <= 24)
    weight = net.weight((net.integer(1, 8), x.shape[1], 1, 1), x.shape[1])
    if net.chance(0.3):
        mean = net.op("ReduceMean", [x], keepdims=1)[0]
        weight = net.one("Mul", weight, mean)
        weight = net.quantized(weight) if net.chance() else weight
    net.quantized(net.one("Conv", x, weight))


def conv_transpose(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank in (3, 4) and value.shape[1] <= 24)
    channels, axes = x.shape[1], x.rank - 2
    groups = net.one_of((1, 1, 1, channels))
    outs = net.integer(1, 12 if groups == 1 else 2)
    kernel = [net.integer(1, 4) for _ in range(axes)]
    strides = [net.integer(1, 3) for _ in range(axes)]
    weight = net.weight_of((channels, outs, *kernel), channels * int(np.prod(kernel)), 1)
    operands = [x, weight]
    if net.chance(0.6):
        operands.append(net.constant(net.normal((outs * groups,), 0.3)))
    attributes: dict[str, Any] = {"strides": strides, "kernel_shape": kernel, "group": groups}
    if net.chance(0.2):
        attributes["auto_pad"] = net.one_of(("SAME_UPPER", "SAME_LOWER"))
    elif net.chance():
        attributes["pads"] = [net.integer(0, extent - 1) for extent in kernel * 2]
    if net.chance(0.3):
        attributes["output_padding"] = [net.integer(0, stride - 1) for stride in strides]
    y = net.op("ConvTranspose", operands, **attributes)[0]
    _behind(net, y)


def matmul(net: QdqNet) -> None:
    """By weights on either side, with a bias behind, or by another activation."""
    x = net.end(lambda value: value.rank >= 2 and value.shape[-1] <= 160)
    depth, rows = x.shape[-1], x.shape[-2]
    outs = net.integer(1, 36)
    kind = net.integer(0, 5)
    if kind <= 2:
        y = net.one("MatMul", x, net.weight_of((depth, outs), depth, 1))
        if net.chance():
            bias = net.constant(net.normal((outs,), 0.3))
            bias = net.fake_constant(bias) if net.chance(0.3) else bias
            y = net.one("Add", *((y, bias) if net.chance() else (bias, y)))
    elif kind == 3:
        y = net.one("MatMul", net.weight_of((outs, rows), rows, 0), x)
    elif kind == 4:
        batch = x.shape[:-2] if net.chance() else ()
        other = net.fake_constant(net.constant(net.normal((*batch, depth, outs), depth**-0.5)))
        y = net.one("MatMul", x, other)
    else:
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        turned = net.partner(x)
        turned = net.one("Transpose", turned, perm=order)
        turned = net.quantized(turned, turned) if net.chance() else turned
        y = net.one("MatMul", x, turned)
    _behind(net, y)


def attention(net: QdqNet) -> None:
    """Scores, Softmax, and a mean by them."""
    q = net.end(lambda value: value.rank in (3, 4) and value.shape[-1] <= 64)
    k, v = net.partner(q), net.partner(q)
    order = [*range(q.rank - 2), q.rank - 1, q.rank - 2]
    scores = net.one("MatMul", q, net.one("Transpose", k, perm=order))
    if net.chance(0.6):
        factor = net.constant(np.float32(q.shape[-1] ** -0.5))
        if net.chance():
            scores = net.quantized(scores)
        scores = net.one("Mul", scores, factor)
    if net.chance(0.3):
        extent = scores.shape[-1]
        mask = np.triu(np.full((extent, extent), -net.one_of((8.0, 1e4)), np.float32), 1)
        scores = net.one("Add", scores, net.constant(mask))
    scores = net.quantized(scores) if net.chance(0.9) else scores
    weights = net.one("Softmax", scores, axis=-1)
    weights = net.quantized(weights) if net.chance(0.9) else weights
    net.quantized(net.one("MatMul", weights, v))


def gemm(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank == 2 and max(value.shape) <= 160)
    turn_a = net.chance(0.1)
    depth = x.shape[0] if turn_a else x.shape[1]
    outs, turned = net.integer(1, 36), net.chance(0.6)
    shape = (outs, depth) if turned else (depth, outs)
    weight = net.weight_of(shape, depth, 0 if turned else 1)
    operands = [x, weight]
    if net.chance(0.7):
        operands.append(net.bias_of(outs, x, weight))
    numbers = {name: net.one_of((0.5, 2.0)) for name in ("alpha", "beta") if net.odd(0.5)}
    y = net.op("Gemm", operands, transB=int(turned), transA=int(turn_a) or None, **numbers)[0]
    _behind(net, y)


def pool(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank in (3, 4))
    axes = x.rank - 2
    kind = net.one_of(("MaxPool", "AveragePool"))
    dilated = kind == "MaxPool" and net.odd()
    dilations = [net.one_of((1, 2)) for _ in range(axes)] if dilated else [1] * axes
    pads, kernel = _window(net, x.shape[2:], dilations)
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _some(net, [net.integer(1, 3) for _ in range(axes)], 1),
        "dilations": dilations if dilated else None,
        "ceil_mode": 1 if net.chance(0.25) else None,
    }
    if kind == "AveragePool":
        attributes["count_include_pad"] = net.one_of((None, 0, 1))
    if net.chance(0.15) and attributes["strides"] is None:  # onnxruntime refuses negative pads
        attributes["auto_pad"] = net.one_of(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        pads = [min(pad, extent - 1) for pad, extent in zip(pads, kernel * 2, strict=True)]
        attributes["pads"] = _some(net, pads, 0)
    known = net.known.get(x.name)
    if kind == "MaxPool" and known is not None and known.is_byte and net.chance(0.2):
        net.require(net.opset >= 12)
        y = net.op(kind, [known.integers], **attributes)[0]
        net.dequantized(y, *known.operands)
        return
    like = x if kind == "MaxPool" and net.chance(0.6) else None
    net.quantized(net.op(kind, [x], **attributes)[0], like)


def reduction(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank >= 2)
    kind = net.one_of(("GlobalAveragePool", "GlobalMaxPool", "Mean", "Mean", "Max", "Sum"))
    if kind.startswith("Global"):
        net.require(x.rank in (3, 4))
        y = net.one(kind, x)
    else:
        axes = [axis for axis in range(x.rank) if net.chance(0.4)] or [x.rank - 1]
        if x.rank == 4 and net.chance():
            axes = list(net.one_of(((2, 3), (1, 2), (2,), (3,), (-2, -1))))
        by_input = net.opset >= (13 if kind == "Sum" else 18)
        y = net.op(
            f"Reduce{kind}",
            [x, net.ints(*axes)] if by_input else [x],
            axes=None if by_input else axes,
            keepdims=net.integer(0, 1),
        )[0]
    _behind(net, y)


def norm(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank >= 2)
    kind = net.integer(0, 5)
    if kind <= 1 and x.rank >= 3:
        channels = x.shape[1]
        operands = [net.normal((channels,), 0.5) + 1, net.normal((channels,), 0.3)]
        if kind:
            y = net.one("InstanceNormalization", x, *(net.constant(item) for item in operands))
        else:
            spread = np.abs(net.normal((channels,), 0.3)) + 0.3
            operands += [net.normal((channels,), 0.3), spread.astype(np.float32)]
            y = net.one("BatchNormalization", x, *(net.constant(item) for item in operands))
    elif kind <= 3 and net.opset >= 17:
        extent = x.shape[-1]
        gain = net.constant(net.normal((extent,), 0.3) + 1)
        operands_of = [x, gain]
        name = "LayerNormalization"
        if net.opset >= 23 and net.chance():
            name = "RMSNormalization"
        elif net.chance(0.7):
            operands_of.append(net.constant(net.normal((extent,), 0.2)))
        y = net.op(name, operands_of, axis=-1)[0]
    else:
        axis = net.one_of((-1, -1, 1, x.rank - 1))
        y = net.one("LogSoftmax" if net.chance(0.1) else "Softmax", x, axis=axis)
    net.quantized(y)


def _behind(net: QdqNet, y: Value) -> None:
    """What follows a layer: perhaps a sum with another tensor, perhaps a bound, then its scale."""
    if net.chance(0.15):
        same = [value for value in net.ends if value.shape == y.shape]
        if same:
            y = net.one("Add", y, net.one_of(same))
    if net.chance(0.3):
        y = net.one("Relu", y)
    elif net.chance(0.1):
        y = net.op("Clip", [y, *(net.constant(np.float32(n)) for n in (0, 1.5))])[0]
    elif net.chance(0.1):
        y = net.one("Mul", y, net.one("Sigmoid", y))
    net.quantized(y)


def _window(
    net: QdqNet, extents: tuple[int, ...], dilations: list[int]
) -> tuple[list[int], list[int]]:
    """Pads in front and behind, and a kernel that fits with them."""
    pads = [net.one_of((0, 0, 1, 1, 2)) for _ in extents]
    pads += pads if net.chance(0.7) else [net.integer(0, 2) for _ in extents]
    kernel = []
    for axis, (extent, dilation) in enumerate(zip(extents, dilations, strict=True)):
        room = (extent + pads[axis] + pads[axis + len(extents)] - 1) // dilation + 1
        kernel.append(min(net.one_of((1, 1, 2, 3, 3, 5, 7)), room))
    return pads, kernel


def _some(net: QdqNet, numbers: list[int], default: int) -> list[int] | None:
    """Left out where that means the same, for some models."""
    return None if set(numbers) == {default} and net.chance() else numbers


def _divisor(net: QdqNet, number: int) -> int:
    return net.one_of([n for n in range(1, number + 1) if number % n == 0])


LAYERS: Mapping[Callable[[QdqNet], None], int] = {
    conv: 8,
    channels_last: 3,
    on_integers: 2,
    float_layer: 1,
    conv_transpose: 2,
    matmul: 4,
    attention: 2,
    gemm: 3,
    pool: 4,
    reduction: 3,
    norm: 3,
}
"""By how often they are drawn."""
