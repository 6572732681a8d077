"""MobileNet v1 1.0/224 in float, with batch normalization.

Source: Howard et al., arXiv:1704.04861, table 1.
"""

import numpy as np
import onnx

from bench.zoo.builder import IMAGE, FloatModel

__all__ = ["LAYERS", "mobilenet_v1"]

LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)
"""Outputs of each pointwise convolution, and stride of the depthwise one before it. The table
prints stride 2 for the last one, too, beside sizes that say 1."""


def mobilenet_v1(rng: np.random.Generator) -> onnx.ModelProto:
    """224 x 224 images to 1,000 classes."""
    net = FloatModel(rng)
    x = net.op("Relu", "conv0", net.conv("stem", IMAGE, (3, 32), kernel=3, stride=2))
    inner = 32
    for number, (outer, stride) in enumerate(LAYERS, start=1):
        name = f"depthwise{number}"
        y = net.conv(f"{name}.0", x, (inner, inner), kernel=3, stride=stride, group=inner)
        y = net.op("Relu", name, y)
        name = f"pointwise{number}"
        x = net.op("Relu", name, net.conv(f"{name}.0", y, (inner, outer), kernel=1))
        inner = outer
    return net.model(net.classifier(x, inner))
