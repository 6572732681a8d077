"""`CASES`: layers and small networks on which the compiler once fell far below the roofline.

Every case is an int8 QDQ model with its roofline, computed here from the shapes alone: the longer
of the products (over the array's rate) and the bytes, each moved once (over the bus).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from bench.qdq_model import QdqModel
from daedal.compiler.graph.window_extents import output_extent
from daedal.isa.variant import Variant

__all__ = ["CASES", "Case"]

PARAMETER_BYTES = 8
"""Bias, multiplier and shift of a channel, as every roofline counts them."""
SCALE = 0.05


@dataclass(frozen=True)
class Case:
    """A model and its bar.

    Attributes
    ----------
    build : the model, with one input named ``image``.
    roofline : cycles for a variant.
    bar : the share of the roofline that must be reached; None where the case has another one.
    variant : the shipped variant that it runs on.
    wide_bar : how many times faster it must be on a bus of twice the width; None where the bus does
        not bound it.
    without : the same network without what must cost nothing, or little; its cycles are then the
        roofline.
    hosted : operators of those layers, which the host may run.
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    roofline: Callable[[Variant], float]
    bar: float | None
    wide_bar: float | None = None
    without: Callable[[], onnx.ModelProto] | None = None
    hosted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Window:
    """A square map of `size`, and the window of a convolution or a pool over it."""

    size: int
    channels: tuple[int, int]
    kernel: int
    stride: int = 1
    dilation: int = 1
    group: int = 1
    pad: int = 0

    @property
    def outputs(self) -> int:
        """Rows and columns of the result."""
        pads = (self.pad, self.pad)
        return output_extent(self.size, self.kernel, self.stride, pads, self.dilation)

    @property
    def rows(self) -> int:
        """Rows of the map that some window reads."""
        read = {
            output * self.stride + tap * self.dilation - self.pad
            for output in range(self.outputs)
            for tap in range(self.kernel)
        }
        return len(read & set(range(self.size)))

    @property
    def map_bytes(self) -> int:
        """Bytes of the rows read, and of the result."""
        inner, outer = self.channels
        return self.rows * self.size * inner + self.outputs**2 * outer

    def bus_cycles(self, variant: Variant, *, weights: bool = True) -> float:
        """Cycles of all bytes on the bus, each once."""
        inner, outer = self.channels
        size = self.map_bytes + PARAMETER_BYTES * outer
        if weights:
            size += outer * inner // self.group * self.kernel**2
        return size / variant.bus_bytes

    def products(self, variant: Variant) -> float:
        """Cycles of the products; groups narrower than a block take a whole one.

        Of a dilated window, those with padding do not count: at large dilations they are most.
        """
        inner, outer = self.channels
        ins = max(inner // self.group, min(variant.array.block_in, inner))
        pairs = self.outputs * self.kernel
        if self.dilation > 1:
            pairs = sum(
                0 <= output * self.stride + tap * self.dilation - self.pad < self.size
                for output in range(self.outputs)
                for tap in range(self.kernel)
            )
        return pairs**2 * ins * outer / variant.macs_per_cycle


def _conv_roofline(window: _Window) -> Callable[[Variant], float]:
    return lambda variant: max(window.products(variant), window.bus_cycles(variant))


def _pool_roofline(window: _Window) -> Callable[[Variant], float]:
    return lambda variant: window.bus_cycles(variant, weights=False)


def _start(shape: tuple[int, ...]) -> tuple[QdqModel, str]:
    model = QdqModel(opset=21)
    x = model.input("image", shape)
    return model, model.requantized(x, SCALE, 0, output="image_q")


def _convolution(
    model: QdqModel, x: str, window: _Window, rng: np.random.Generator, output: str | None = None
) -> str:
    inner, outer = window.channels
    shape = (outer, inner // window.group, window.kernel, window.kernel)
    values = rng.integers(-127, 128, shape).astype(np.int8)
    scale = 1 / (40 * math.sqrt(math.prod(shape[1:])))
    weights = model.weights(values, np.full(outer, scale))
    bias = model.bias(rng.integers(-500, 500, outer), np.full(outer, SCALE * scale))
    return model.op(
        "Conv",
        x,
        weights,
        bias,
        strides=[window.stride] * 2,
        dilations=[window.dilation] * 2,
        pads=[window.pad] * 4,
        group=window.group,
        output=output,
    )


def _finish(model: QdqModel, y: str) -> onnx.ModelProto:
    return model.model(model.requantized(y, SCALE, 0, output="result_q"))


def _conv(
    name: str,
    window: _Window,
    bar: float | None,
    *,
    activation: str | None = None,
    wide_bar: float | None = None,
) -> Case:
    def build() -> onnx.ModelProto:
        rng = np.random.default_rng(window.size * window.kernel)
        model, x = _start((1, window.channels[0], window.size, window.size))
        y = _convolution(model, x, window, rng)
        if activation:
            y = model.op(activation, model.requantized(y, SCALE, 0))
        return _finish(model, y)

    return Case(name, build, _conv_roofline(window), bar, wide_bar)


def _pool(
    name: str, operator: str, window: _Window, bar: float, wide_bar: float | None = None
) -> Case:
    def build() -> onnx.ModelProto:
        model, x = _start((1, window.channels[0], window.size, window.size))
        side = [window.kernel] * 2
        attributes: dict[str, Any] = {"kernel_shape": side, "strides": [window.stride] * 2}
        return _finish(model, model.op(operator, x, pads=[window.pad] * 4, **attributes))

    return Case(name, build, _pool_roofline(window), bar, wide_bar)


def _normalized_image(name: str, *operators: str, per_channel: bool) -> Case:
    """Two convolutions over an image, which elementwise `operators` by constants scale before."""
    first, second = _Window(96, (3, 32), 3, stride=2, pad=1), _square(48, 32, 3, pad=1)

    def build(count: int) -> onnx.ModelProto:
        rng = np.random.default_rng(7)
        model, x = _start((1, 3, first.size, first.size))
        for operator in operators[:count]:
            factor = model.constant(np.float32(0.7))
            if per_channel:
                factor = model.weights(rng.integers(60, 127, (1, 3, 1, 1)).astype(np.int8), 0.01)
            x = model.requantized(model.op(operator, x, factor), SCALE, 0)
        x = model.requantized(_convolution(model, x, first, rng), SCALE, 0)
        return _finish(model, _convolution(model, x, second, rng))

    return Case(
        name,
        lambda: build(len(operators)),
        lambda variant: first.products(variant) + second.products(variant),
        0.99,
        without=lambda: build(0),
        hosted=operators,
    )


def _unsigned_weights(name: str, zero_point: int, bar: float) -> Case:
    """Two convolutions with uint8 weights of a normal distribution; without: with int8 weights."""
    window = _square(28, 128, 3, pad=1)

    def build(middle: int) -> onnx.ModelProto:
        rng = np.random.default_rng(8)
        model, x = _start((1, *window.channels[:1], window.size, window.size))
        for _ in range(2):
            values = np.rint(rng.normal(middle, 32, (128, 128, 3, 3))).clip(0, 255)
            weights = model.dequantize(
                model.constant(values.astype(np.uint8)), 0.001, middle, "uint8"
            )
            x = model.requantized(model.op("Conv", x, weights, pads=[window.pad] * 4), SCALE, 0)
        return model.model(x)

    return Case(
        name,
        lambda: build(zero_point),
        lambda variant: 2 * window.products(variant),
        bar,
        without=lambda: build(128),
    )


def _square(size: int, channels: int, kernel: int, **rest: int) -> _Window:
    return _Window(size, (channels, channels), kernel, **rest)


CASES = (
    _pool("max 5x5, stride 1", "MaxPool", _square(28, 128, 5, pad=2), 0.5),
    _pool("max 13x13, stride 1", "MaxPool", _square(28, 128, 13, pad=6), 0.5),
    _pool("max 3x3, stride 1", "MaxPool", _square(28, 128, 3, pad=1), 0.5),
    _pool("average 7x7, stride 1", "AveragePool", _square(28, 128, 7, pad=3), 0.5),
    _pool("average 3x3, stride 1", "AveragePool", _square(28, 128, 3, pad=1), 0.5),
    _pool("max 3x3, stride 2", "MaxPool", _square(112, 64, 3, stride=2, pad=1), 0.85, 1.5),
    *(
        _conv(
            f"dilation {dilation}",
            _square(33, 128, 3, dilation=dilation, pad=dilation),
            0.8,
        )
        for dilation in (2, 6, 12, 18)
    ),
    _conv("patches 64x64, stride 64", _Window(256, (16, 64), 64, stride=64), 0.9),
    _conv("groups of 4", _square(28, 128, 3, group=32, pad=1), 0.8),
    _conv("groups of 8", _square(28, 128, 3, group=16, pad=1), 0.8),
    _conv("1x1 with LeakyReLU", _square(56, 64, 1), 0.65, activation="LeakyRelu"),
    _conv("1x1, stride 2, 64 to 128", _Window(56, (64, 128), 1, stride=2), 0.92),
    _conv("1x1, stride 2, 128 to 256", _Window(28, (128, 256), 1, stride=2), 0.92),
    _conv("1x1, stride 2, 256 to 512", _Window(14, (256, 512), 1, stride=2), 0.92),
    _conv("dense 1024 to 1000", _Window(1, (1024, 1000), 1), None, wide_bar=1.5),
    _conv("1x1, 16 to 16", _square(56, 16, 1), None, wide_bar=1.5),
    _conv("stem 7x7, stride 2", _Window(224, (3, 64), 7, stride=2, pad=3), 0.85),
    _unsigned_weights("uint8 weights, zero point 124", 124, 0.8),
    _normalized_image("image normalized by numbers", "Sub", "Mul", per_channel=False),
    _normalized_image("image normalized per channel", "Add", "Mul", per_channel=True),
)
