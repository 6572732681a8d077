"""Small networks shaped like YOLO, U-Net and EfficientNet, with seeded weights."""

import numpy as np
import onnx

from bench.zoo.shape_model import ShapeModel

__all__ = ["efficientnet", "unet", "yolo"]

FLOAT = onnx.TensorProto.FLOAT


def yolo(rng: np.random.Generator) -> onnx.ModelProto:
    """SiLU, a split block with a residual, pooled pyramid, Resize, Concat, two sigmoid heads.

    Source: the structure of YOLOv8's exports: C2f, SPPF and decoupled boxes and classes.
    """
    net = ShapeModel(rng)

    def conv(x: str, ins: int, outs: int, kernel: int = 1, stride: int = 1) -> str:
        return net.silu(net.plain_conv(x, ins, outs, kernel, stride))

    x = conv(conv("image", 3, 8, 3, 2), 8, 16, 3, 2)
    kept, part = net.several("Split", 2, conv(x, 16, 16), net.ints(8, 8), axis=1)
    part2 = net.new("Add", part, conv(part, 8, 8, 3))
    fine = conv(net.new("Concat", kept, part, part2, axis=1), 24, 16)
    pools = [conv(conv(fine, 16, 24, 3, 2), 24, 12)]
    for _ in range(3):
        pools.append(net.new("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2, 2, 2, 2]))
    coarse = conv(net.new("Concat", *pools, axis=1), 48, 24)
    scales = net.constant("scales", np.array([1, 1, 2, 2], np.float32))
    up = net.new("Resize", coarse, "", scales, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    joined = conv(net.new("Concat", up, fine, axis=1), 40, 16, 3)
    heads = [
        net.new("Reshape", net.plain_conv(head, channels, 9), net.ints(1, 9, -1))
        for head, channels in ((joined, 16), (coarse, 24))
    ]
    rows = net.new("Concat", *heads, axis=2)
    boxes, classes = net.several("Split", 2, rows, net.ints(4, 5), axis=1)
    sized = net.new("Mul", net.new("Sigmoid", boxes), net.number(16))
    found = net.new("Concat", sized, net.new("Sigmoid", classes), axis=1)
    return net.finish(
        {"image": (FLOAT, (1, 3, 64, 64))}, [net.new("Transpose", found, perm=[0, 2, 1])]
    )


def unet(rng: np.random.Generator) -> onnx.ModelProto:
    """Two levels down and up with transposed convolutions. Source: arXiv:1505.04597."""
    net = ShapeModel(rng)

    def pair(x: str, ins: int, outs: int) -> str:
        x = net.new("Relu", net.normalized_conv(x, ins, outs, 3))
        return net.new("Relu", net.normalized_conv(x, outs, outs, 3))

    def up(x: str, skip: str, ins: int, outs: int) -> str:
        weight = net.weight(ins, outs, 2, 2)
        x = net.new("ConvTranspose", x, weight, strides=[2, 2], kernel_shape=[2, 2])
        return pair(net.new("Concat", skip, x, axis=1), 2 * outs, outs)

    first = pair("image", 3, 8)
    second = pair(net.new("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 8, 16)
    third = pair(net.new("MaxPool", second, kernel_shape=[2, 2], strides=[2, 2]), 16, 32)
    x = up(up(third, second, 32, 16), first, 16, 8)
    mask = net.new("Sigmoid", net.plain_conv(x, 8, 1))
    return net.finish({"image": (FLOAT, (1, 3, 32, 48))}, [mask])


def efficientnet(rng: np.random.Generator) -> onnx.ModelProto:
    """Depthwise blocks with squeeze and excitation and SiLU. Source: arXiv:1905.11946, table 1."""
    net = ShapeModel(rng)

    def block(x: str, ins: int, outs: int, kernel: int, stride: int, factor: int) -> str:
        inner = ins * factor
        y = net.silu(net.normalized_conv(x, ins, inner)) if factor > 1 else x
        y = net.silu(net.normalized_conv(y, inner, inner, kernel, stride, inner))
        gate = net.new("GlobalAveragePool", y)
        gate = net.silu(net.plain_conv(gate, inner, max(ins // 4, 2)))
        gate = net.new("Sigmoid", net.plain_conv(gate, max(ins // 4, 2), inner))
        y = net.normalized_conv(net.new("Mul", y, gate), inner, outs)
        return net.new("Add", x, y) if ins == outs and stride == 1 else y

    x = net.silu(net.normalized_conv("image", 3, 12, 3, 2))
    x = block(x, 12, 8, 3, 1, 1)
    x = block(x, 8, 12, 5, 2, 4)
    x = block(x, 12, 12, 3, 1, 4)
    x = net.new("Flatten", net.new("GlobalAveragePool", x))
    scores = net.new("Gemm", x, net.weight(10, 12), net.weight(10), transB=1)
    return net.finish({"image": (FLOAT, (1, 3, 48, 48))}, [scores])
