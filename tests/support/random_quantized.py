"""Quantized layers for random graphs.

All sums of products are exact in float32: weights and activations are few-bit multiples of powers
of two. So results have the same bits in every order of summation, and may be quantized again.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.support.random_net import Net, Value

__all__ = ["INTEGER_LAYERS", "QUANTIZED"]


def _quantized(net: Net, x: Value) -> Value:
    """Quantize and dequantize with a power of two for a scale, so that products stay exact."""
    dtype: Any = net.one_of((np.uint8, np.int8))
    info = np.iinfo(dtype)
    zero = net.constant(np.array(net.integer(info.min, info.max) // 2 + info.max // 4, dtype))
    scale = net.one_of((1 / 8, 1 / 16, 1 / 32))
    if net.chance(0.2):
        scale = net.real(0.02, 0.1)
    size = net.constant(np.float32(scale))
    q = net.one("QuantizeLinear", x, size, zero, exact=True)
    power = scale in (1 / 8, 1 / 16, 1 / 32)
    return net.one("DequantizeLinear", q, size, zero, exact=True, step=scale if power else None)


def _weight(net: Net, shape: tuple[int, ...], fan_in: int, axis: int) -> Value:
    """Dequantized int8 weights, per tensor or per channel."""
    values = np.clip(np.round(net.normal(shape, 16 / fan_in**0.5)), -127, 127).astype(np.int8)
    if net.chance():
        scale = net.constant(np.float32(1 / 16))
        return net.one("DequantizeLinear", net.constant(values), scale, step=1 / 16)
    scales = net.one_of((1 / 16, 1 / 32)) * np.ones(shape[axis], np.float32)
    scales[::2] = 1 / 16
    zeros = net.constant(np.zeros(shape[axis], np.int8))
    operands = [net.constant(values), net.constant(scales), zeros]
    return net.op("DequantizeLinear", operands, axis=axis, step=1 / 32)[0]


def fake_quantized(net: Net) -> None:
    _quantized(net, net.pick(lambda value: value.exact))


def quantized_end(net: Net) -> None:
    """A result that is quantized from sums of floats: it may differ by one unit."""
    x = net.pick()
    zero = net.constant(np.array(net.integer(100, 140), np.uint8))
    q = net.one("QuantizeLinear", x, net.constant(np.float32(net.real(0.01, 0.05))), zero)
    net.units.add(q.name)


def quantized_conv(net: Net) -> None:
    x = net.pick(lambda value: value.exact and value.rank == 4 and value.shape[1] <= 16)
    x = _quantized(net, x)
    net.require(x.step is not None)
    channels = x.shape[1]
    groups = net.one_of((1, 1, channels))
    outs = groups * net.integer(1, max(1, 8 // groups))
    kernel = [min(net.one_of((1, 3)), extent) for extent in x.shape[2:]]
    shape = (outs, channels // groups, *kernel)
    count = int(np.prod(shape[1:]))
    weight = _weight(net, shape, count, 0)
    step = net.sum_step(x, weight, count)
    net.require(step is not None)
    pads = [(kernel[n % 2] - 1) // 2 for n in range(4)]
    strides = [net.integer(1, 2)] * 2
    operands = [x, weight]
    if net.chance(0.6):
        bias = net.constant(net.rng.integers(-60, 60, outs).astype(np.int32))
        size = net.constant(np.float32(step))
        operands.append(net.one("DequantizeLinear", bias, size, step=step))
    y = net.one(
        "Conv", *operands, group=groups, kernel_shape=kernel, pads=pads, strides=strides, step=step
    )
    if net.chance():
        y = net.like("Relu", y)[0]
    _quantized(net, y)


def quantized_matmul(net: Net) -> None:
    x = _quantized(net, net.pick(lambda value: value.exact and value.rank >= 2))
    net.require(x.step is not None)
    depth = x.shape[-1]
    weight = _weight(net, (depth, net.integer(1, 12)), depth, 1)
    step = net.sum_step(x, weight, depth)
    net.require(step is not None)
    _quantized(net, net.one("MatMul", x, weight, step=step))


def quantized_add(net: Net) -> None:
    x = _quantized(net, net.pick(lambda value: value.exact))
    same = [v for v in net.values if v.exact and v.is_float and v.shape == x.shape]
    y = net.one_of(same)
    step = net.added_step(x, y)
    net.require(step is not None)
    _quantized(net, net.one("Add", x, y, step=step))


def dynamic_matmul(net: Net) -> None:
    """DynamicQuantizeLinear, MatMulInteger, and the scales behind it."""
    x = net.pick(lambda value: value.exact and value.rank >= 2 and value.largest > 0)
    q, scale, zero = net.op("DynamicQuantizeLinear", [x], outputs=3, exact=True)
    depth = x.shape[-1]
    weight = net.constant(net.rng.integers(-127, 128, (depth, net.integer(1, 9))).astype(np.int8))
    zeros = net.constant(np.array(net.integer(-5, 5), np.int8))
    y = net.one("MatMulInteger", q, weight, zero, zeros, exact=True)
    _rescaled(net, y, scale)


def integer_conv(net: Net) -> None:
    x = net.pick(
        lambda value: value.exact and value.rank == 4 and value.shape[1] <= 8 and value.largest > 0
    )
    q, scale, zero = net.op("DynamicQuantizeLinear", [x], outputs=3, exact=True)
    kernel = [min(net.one_of((1, 3)), extent) for extent in x.shape[2:]]
    shape = (net.integer(1, 6), x.shape[1], *kernel)
    weight = net.constant(net.rng.integers(-127, 128, shape).astype(np.int8))
    pads = [kernel[n % 2] // 2 for n in range(4)]
    y = net.one("ConvInteger", q, weight, zero, pads=pads, kernel_shape=kernel, exact=True)
    _rescaled(net, y, scale)


def _rescaled(net: Net, y: Value, scale: Value) -> None:
    """The sums of products as floats; they stay inexact for FMA may join the products behind."""
    small = net.one("Mul", scale, net.constant(np.float32(1 / 64)))
    net.one("Mul", net.one("Cast", y, to=1, exact=True), small)


QUANTIZED: Mapping[Callable[[Net], None], int] = {
    fake_quantized: 2,
    quantized_end: 1,
    quantized_conv: 5,
    quantized_matmul: 3,
    quantized_add: 3,
}
"""By how often they are drawn."""

INTEGER_LAYERS: Mapping[Callable[[Net], None], int] = {dynamic_matmul: 3, integer_conv: 3}
"""Operators that only ONNX's reference evaluator is asked about."""
