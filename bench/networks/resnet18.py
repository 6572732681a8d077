"""ResNet-18 as an int8 QDQ model with random weights, on which the simulators are measured.

The network is He, Zhang, Ren and Sun's (arXiv:1512.03385, table 1): 224 x 224 images, 1,000
classes; weights and scales are drawn so that activations neither vanish nor saturate.
"""

import numpy as np
import onnx

from bench.qdq_model import QdqModel

__all__ = ["resnet18", "stem"]

ACTIVATION_SCALE = 0.05
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and first stride of each stage; two blocks of two convolutions in each."""


class _Network(QdqModel):
    """Adds layers; every tensor between them is int8 with one scale."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng = rng

    def quantized(self, x: str) -> str:
        """The boundary between two layers."""
        return self.requantized(x, ACTIVATION_SCALE, 0)

    def conv(self, x: str, channels: tuple[int, int], kernel: int, stride: int, relu: bool) -> str:
        """Convolution with bias, ReLU where asked for, and the boundary after it."""
        inner, outer = channels
        fan_in = inner * kernel * kernel
        values = self._rng.integers(-127, 128, (outer, inner, kernel, kernel), dtype=np.int8)
        # He's scale: weights of this deviation keep the deviation of the activations.
        scale = np.full(outer, np.sqrt(2 / fan_in) / 73, dtype=np.float32)
        bias = self._rng.integers(-2000, 2000, outer)
        pad = kernel // 2
        y = self.op(
            "Conv",
            x,
            self.weights(values, scale),
            self.bias(bias, scale * np.float32(ACTIVATION_SCALE)),
            strides=[stride, stride],
            pads=[pad, pad, pad, pad],
            kernel_shape=[kernel, kernel],
        )
        return self.quantized(self.op("Relu", y) if relu else y)

    def block(self, x: str, channels: tuple[int, int], stride: int) -> str:
        """A basic block: two convolutions and the shortcut."""
        inner, outer = channels
        y = self.conv(x, channels, 3, stride, relu=True)
        y = self.conv(y, (outer, outer), 3, 1, relu=False)
        if stride != 1 or inner != outer:
            x = self.conv(x, channels, 1, stride, relu=False)
        return self.quantized(self.op("Relu", self.op("Add", x, y)))


def resnet18(rng: np.random.Generator) -> onnx.ModelProto:
    """The model: input ``image`` (1, 3, 224, 224) float32, output the class scores."""
    net = _Network(rng)
    x = net.quantized(net.input("image", (1, 3, 224, 224)))
    x = net.conv(x, (3, 64), 7, 2, relu=True)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.quantized(x)
    channels = 64
    for outer, stride in STAGES:
        x = net.block(x, (channels, outer), stride)
        x = net.block(x, (outer, outer), 1)
        channels = outer
    x = net.quantized(net.op("GlobalAveragePool", x))
    x = net.conv(x, (512, 1000), 1, 1, relu=False)
    return net.model(x)


def stem(rng: np.random.Generator) -> onnx.ModelProto:
    """The first convolution alone, C1: input ``image`` as above, output (1, 64, 112, 112) int8."""
    net = _Network(rng)
    x = net.requantized(net.input("image", (1, 3, 224, 224)), ACTIVATION_SCALE, 0)
    return net.model(net.conv(x, (3, 64), 7, 2, relu=True))
