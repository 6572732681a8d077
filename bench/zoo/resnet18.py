"""ResNet-18 in float, with batch normalization.

Source: He, Zhang, Ren and Sun, arXiv:1512.03385, table 1, projection shortcuts (option B).
"""

import numpy as np
import onnx

from bench.zoo.builder import IMAGE, FloatModel

__all__ = ["STAGES", "resnet18"]

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and first stride of each stage; two blocks of two convolutions in each."""


def resnet18(rng: np.random.Generator) -> onnx.ModelProto:
    """224 x 224 images to 1,000 classes."""
    net = FloatModel(rng)
    x = net.op("Relu", "conv1", net.conv("stem", IMAGE, (3, 64), kernel=7, stride=2))
    x = net.op("MaxPool", "pool1", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inner = 64
    for stage, (outer, first_stride) in enumerate(STAGES, start=2):
        for block, stride in enumerate((first_stride, 1), start=1):
            x = _block(net, f"conv{stage}_{block}", x, (inner, outer), stride)
            inner = outer
    return net.model(net.classifier(x, inner))


def _block(net: FloatModel, name: str, x: str, channels: tuple[int, int], stride: int) -> str:
    """A basic block: two convolutions and the shortcut."""
    inner, outer = channels
    y = net.op("Relu", f"{name}.a", net.conv(f"{name}.1", x, channels, kernel=3, stride=stride))
    y = net.conv(f"{name}.2", y, (outer, outer), kernel=3)
    if stride != 1 or inner != outer:
        x = net.conv(f"{name}.shortcut", x, channels, kernel=1, stride=stride)
    return net.op("Relu", name, net.op("Add", f"{name}.sum", y, x))
