"""MobileNet v2 1.0/224 in float, with batch normalization and ReLU6.

Source: Sandler et al., arXiv:1801.04381, tables 1 and 2.
"""

import numpy as np
import onnx

from bench.zoo.builder import IMAGE, FloatModel

__all__ = ["STAGES", "mobilenet_v2"]

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and first stride of each stage."""
LAST = 1280
"""Channels of the last convolution."""


def mobilenet_v2(rng: np.random.Generator) -> onnx.ModelProto:
    """224 x 224 images to 1,000 classes."""
    net = FloatModel(rng)
    for name, bound in (("zero", 0.0), ("six", 6.0)):
        net.constant(name, np.array(bound, dtype=np.float32))
    x = _relu6(net, "conv0", net.conv("stem", IMAGE, (3, 32), kernel=3, stride=2))
    inner = 32
    for stage, (expansion, outer, blocks, first_stride) in enumerate(STAGES, start=1):
        for block in range(1, blocks + 1):
            stride = first_stride if block == 1 else 1
            x = _block(net, f"block{stage}_{block}", x, (inner, outer), expansion, stride)
            inner = outer
    x = _relu6(net, "conv_last", net.conv("last", x, (inner, LAST), kernel=1))
    return net.model(net.classifier(x, LAST))


def _block(
    net: FloatModel, name: str, x: str, channels: tuple[int, int], expansion: int, stride: int
) -> str:
    """Expand, convolve by channel, project; the input is added where sizes agree."""
    inner, outer = channels
    wide = inner * expansion
    y = x
    if expansion != 1:
        y = net.conv(f"{name}.expand", y, (inner, wide), kernel=1)
        y = _relu6(net, f"{name}.expanded", y)
    y = net.conv(f"{name}.depthwise", y, (wide, wide), kernel=3, stride=stride, group=wide)
    y = _relu6(net, f"{name}.filtered", y)
    y = net.conv(f"{name}.project", y, (wide, outer), kernel=1)
    return net.op("Add", name, x, y) if stride == 1 and inner == outer else y


def _relu6(net: FloatModel, name: str, x: str) -> str:
    return net.op("Clip", name, x, "zero", "six")
