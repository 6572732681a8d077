"""Quantized layers for random graphs.

All sums of products are exact in float32: weights and activations are few-bit multiples of powers
of two. So results have the same bits in every order of summation, and may be quantized again.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.correctness.random_models.moves import pad, reshape, slices, split
from bench.correctness.random_models.net import Net, Value

__all__ = ["INTEGER_LAYERS", "QUANTIZED", "QUANTIZED_MOVES", "fake_quantized"]


def _quantized(net: Net, x: Value, *, sums: bool = False) -> Value:
    """Quantize and dequantize with a power of two for a scale, so that products stay exact.

    Sometimes the scale is another number, but not of `sums`: those are integers where they are
    compiled, and exact, while a quotient of floats may be rounded to a tie that it is not.
    """
    dtype: Any = net.one_of((np.uint8, np.int8))
    info = np.iinfo(dtype)
    zero = net.constant(np.array(net.integer(info.min, info.max) // 2 + info.max // 4, dtype))
    scale = net.one_of((1 / 8, 1 / 16, 1 / 32))
    if net.chance(0.2):
        other = net.real(0.02, 0.1)
        scale = scale if sums else other
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
    _quantized(net, y, sums=True)


def quantized_matmul(net: Net) -> None:
    x = _quantized(net, net.pick(lambda value: value.exact and value.rank >= 2))
    net.require(x.step is not None)
    depth = x.shape[-1]
    weight = _weight(net, (depth, net.integer(1, 12)), depth, 1)
    step = net.sum_step(x, weight, depth)
    net.require(step is not None)
    _quantized(net, net.one("MatMul", x, weight, step=step), sums=True)


def quantized_add(net: Net) -> None:
    x = _quantized(net, net.pick(lambda value: value.exact))
    same = [v for v in net.values if v.exact and v.is_float and v.shape == x.shape]
    y = net.one_of(same)
    step = net.added_step(x, y)
    net.require(step is not None)
    _quantized(net, net.one("Add", x, y, step=step), sums=True)


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


def quantized_concat(net: Net) -> None:
    """One to five operands along any axis, some of them the same."""
    x = net.pick()
    axis = net.integer(0, x.rank - 1)

    def rest(value: Value) -> tuple[int, ...]:
        return value.shape[:axis] + value.shape[axis + 1 :]

    same = [v for v in net.values if v.is_float and v.rank == x.rank and rest(v) == rest(x)]
    operands = [x, *(net.one_of(same) for _ in range(net.integer(0, 4)))]
    exact = all(value.exact for value in operands)
    _quantized(net, net.op("Concat", operands, exact=exact, axis=axis)[0])


def quantized_transpose(net: Net) -> None:
    """Channels to the end or from there, as exporters write it, or any other order."""
    x = net.pick(lambda value: value.rank >= 2)
    orders = {3: ((0, 2, 1),), 4: ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2))}.get(x.rank, ())
    order = [int(axis) for axis in net.rng.permutation(x.rank)]
    if orders and net.chance(0.8):
        order = list(net.one_of(orders))
    _quantized(net, net.like("Transpose", x, perm=order)[0])


def quantized_shuffle(net: Net) -> None:
    """Groups of channels exchanged with the channels of each."""
    x = net.pick(lambda value: value.rank == 4)
    axis = net.integer(1, 3)
    extent = x.shape[axis]
    groups = net.one_of([n for n in range(1, extent + 1) if extent % n == 0])
    split = (*x.shape[:axis], groups, extent // groups, *x.shape[axis + 1 :])
    order = list(range(5))
    order[axis], order[axis + 1] = axis + 1, axis
    y = net.like("Transpose", net.like("Reshape", x, net.ints(*split))[0], perm=order)[0]
    _quantized(net, net.like("Reshape", y, net.ints(*x.shape))[0])


def quantized_resize(net: Net) -> None:
    """Whole factors of the pixels, wherever the channels are."""
    x = net.pick(lambda value: value.rank == 4)
    factors = [1, *(net.one_of((1, 1, 2, 3)) for _ in range(3))]
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = net.constant(np.array(factors, np.float32))
    _quantized(net, net.op("Resize", [x, None, scales], exact=x.exact, mode="nearest", **modes)[0])


def quantized_bounds(net: Net) -> None:
    x = net.pick()
    if net.chance():
        _quantized(net, net.like("Relu", x)[0])
        return
    low, high = (net.constant(np.float32(bound)) for bound in (0, 6))
    _quantized(net, net.op("Clip", [x, low, high], exact=x.exact)[0])


def rescaled(net: Net) -> None:
    """Two changes of scale in a row."""
    _quantized(net, _quantized(net, net.pick()))


def _of(move: Callable[[Net], None]) -> Callable[[Net], None]:
    def moved(net: Net) -> None:
        move(net)
        net.require(net.values[-1].is_float)
        _quantized(net, net.values[-1])

    return moved


QUANTIZED_MOVES: Mapping[Callable[[Net], None], int] = {
    quantized_concat: 5,
    quantized_transpose: 6,
    quantized_shuffle: 2,
    quantized_bounds: 2,
    rescaled: 2,
    quantized_resize: 2,
    **{_of(move): 2 for move in (slices, pad, reshape, split)},
}
"""Moves of quantized tensors, whose results are quantized, too."""

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
