"""Random networks of images: stems, blocks, necks and heads as published networks have them."""

from collections.abc import Callable

import numpy as np

from bench.correctness.random_models.net import Net, Value

__all__ = ["vision"]

Activation = Callable[[Net, Value], Value]


def vision(net: Net) -> None:
    """A stem, three to six blocks of one or two families, a neck perhaps, and a head."""
    size = net.one_of((12, 16, 17, 23, 32))
    x = net.input((1, net.one_of((1, 3, 3, 4)), size, net.one_of((size, size, size + 5))))
    act = net.one_of(ACTIVATIONS)
    style = Style(act, bool(net.chance(0.7)), net.one_of((8, 12, 16, 24)))
    x = _stem(net, x, style)
    families = [net.one_of(BLOCKS) for _ in range(net.integer(1, 2))]
    scales = [x]
    for _ in range(net.integer(3, 6)):
        down = min(x.shape[2:]) >= 8 and net.chance(0.35)
        if down:
            scales.append(x)
        x = net.one_of(families)(net, x, style, 2 if down else 1)
    if len(scales) > 1 and net.chance(0.4):
        x = _neck(net, x, scales[-1], style)
    net.one_of(HEADS)(net, x, style)


class Style:
    """What the layers of a network have alike."""

    def __init__(self, act: Activation, norms: bool, width: int) -> None:
        self.act, self.norms, self.width = act, norms, width


# Activations


def _relu(net: Net, x: Value) -> Value:
    return net.one("Relu", x)


def _relu6(net: Net, x: Value) -> Value:
    return net.one("Clip", x, net.constant(np.float32(0)), net.constant(np.float32(6)))


def _hard_swish(net: Net, x: Value) -> Value:
    if net.chance():
        return net.one("HardSwish", x)
    return net.one("Mul", x, net.one("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _silu(net: Net, x: Value) -> Value:
    return net.one("Mul", x, net.one("Sigmoid", x))


def _leaky(net: Net, x: Value) -> Value:
    return net.one("LeakyRelu", x, alpha=net.one_of((0.1, 0.01, 0.2)))


def _prelu(net: Net, x: Value) -> Value:
    return net.one("PRelu", x, net.constant(0.25 + net.normal((x.shape[1], 1, 1), 0.05)))


def _mish(net: Net, x: Value) -> Value:
    return net.one("Mul", x, net.one("Tanh", net.one("Softplus", x)))


ACTIVATIONS: tuple[Activation, ...] = (_relu, _relu, _relu6, _hard_swish, _silu, _leaky, _prelu,
                                       _mish)  # fmt: skip

# Layers


def conv(
    net: Net,
    x: Value,
    style: Style,
    outs: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    act: bool = True,
) -> Value:
    """A convolution that keeps the map's size but for its stride, a norm, an activation."""
    ins = x.shape[1] // groups
    pad = kernel // 2
    operands = [x, net.weight((outs, ins, kernel, kernel), ins * kernel**2)]
    if not style.norms or net.chance(0.2):
        operands.append(net.constant(net.normal((outs,), 0.1)))
    y = net.op(
        "Conv", operands, group=groups, kernel_shape=[kernel] * 2, strides=[stride] * 2,
        pads=[pad] * 4,
    )[0]  # fmt: skip
    if style.norms:
        numbers = [
            net.constant(item)
            for item in (
                1 + net.normal((outs,), 0.1),
                net.normal((outs,), 0.1),
                net.normal((outs,), 0.2),
                np.abs(1 + net.normal((outs,), 0.1)),
            )
        ]
        y = net.op("BatchNormalization", [y, *numbers], epsilon=1e-5)[0]
    return style.act(net, y) if act else y


def _pooled(net: Net, x: Value, kind: str, kernel: int, stride: int) -> Value:
    return net.one(kind, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)


def _stem(net: Net, x: Value, style: Style) -> Value:
    if net.chance(0.3) and min(x.shape[2:]) >= 16:
        x = conv(net, x, style, style.width, 7, 2)
        return _pooled(net, x, "MaxPool", 3, net.one_of((1, 2)))
    return conv(net, x, style, style.width, 3, net.one_of((1, 2)))


def _squeezed(net: Net, x: Value, style: Style) -> Value:
    """Channels weighed by what their means say."""
    channels = x.shape[1]
    hidden = max(4, channels // 4)
    if net.opset < 18 and net.chance():
        y = net.one("ReduceMean", x, axes=[2, 3], keepdims=1)
    else:
        y = net.one("GlobalAveragePool", x)
    for outs in (hidden, channels):
        weight = net.weight((outs, y.shape[1], 1, 1), y.shape[1])
        y = net.one("Conv", y, weight, net.constant(net.normal((outs,), 0.1)))
        if outs == hidden:
            y = net.one("Relu", y)
    gate = net.one(net.one_of(("Sigmoid", "Sigmoid", "HardSigmoid")), y)
    return net.one("Mul", x, gate)


# Blocks


def residual(net: Net, x: Value, style: Style, stride: int) -> Value:
    """Two 3x3 convolutions and a shortcut."""
    outs = x.shape[1] * stride
    y = conv(net, x, style, outs, 3, stride)
    y = conv(net, y, style, outs, 3, act=False)
    if stride > 1 or outs != x.shape[1]:
        x = conv(net, x, style, outs, 1, stride, act=False)
    return style.act(net, net.one("Add", y, x))


def bottleneck(net: Net, x: Value, style: Style, stride: int) -> Value:
    """A 3x3 convolution, perhaps in groups, between two of 1x1."""
    outs, inner = x.shape[1] * stride, max(8, x.shape[1] // 2)
    groups = net.one_of((1, 1, 2, 4))
    y = conv(net, x, style, inner - inner % groups)
    y = conv(net, y, style, y.shape[1], 3, stride, groups)
    y = conv(net, y, style, outs, act=False)
    if stride > 1:
        if net.chance(0.3):
            x = _pooled(net, x, "AveragePool", 3, 2)
            stride = 1
        x = conv(net, x, style, outs, 1, stride, act=False)
    return style.act(net, net.one("Add", y, x))


def inverted(net: Net, x: Value, style: Style, stride: int) -> Value:
    """A depthwise convolution between two of 1x1, the first with more channels."""
    inner, outs = x.shape[1] * net.one_of((2, 3, 4)), x.shape[1] + 8 * (stride - 1)
    y = conv(net, x, style, inner)
    y = conv(net, y, style, inner, net.one_of((3, 3, 5)), stride, inner)
    if net.chance(0.4):
        y = _squeezed(net, y, style)
    y = conv(net, y, style, outs, act=False)
    return net.one("Add", x, y) if stride == 1 else y


def separable(net: Net, x: Value, style: Style, stride: int) -> Value:
    """A depthwise convolution and one of 1x1."""
    y = conv(net, x, style, x.shape[1], 3, stride, x.shape[1])
    return conv(net, y, style, x.shape[1] + 8 * (stride - 1))


def dense(net: Net, x: Value, style: Style, stride: int) -> Value:
    """New channels beside all earlier ones; a transition halves the map."""
    for _ in range(2):
        y = conv(net, conv(net, x, style, 16), style, 8, 3)
        x = net.op("Concat", [x, y], axis=1)[0]
    if stride == 1 and x.shape[1] < 48:
        return x
    x = conv(net, x, style, max(8, x.shape[1] // 2))
    return _pooled(net, x, "AveragePool", 3, 2) if stride > 1 else x


def inception(net: Net, x: Value, style: Style, stride: int) -> Value:
    """Branches of several kernels, side by side."""
    outs = max(4, x.shape[1] // 3)
    branches = [
        conv(net, x, style, outs, 1, stride),
        conv(net, conv(net, x, style, outs), style, outs, 3, stride),
        conv(net, _pooled(net, x, net.one_of(("MaxPool", "AveragePool")), 3, stride), style, outs),
    ]
    return net.op("Concat", branches, axis=1)[0]


def shuffled(net: Net, x: Value, style: Style, stride: int) -> Value:
    """Half of the channels pass by, then all are mixed."""
    x = conv(net, x, style, x.shape[1] + x.shape[1] % 2) if x.shape[1] % 2 else x
    half = x.shape[1] // 2
    if stride == 1:
        left, right = net.op("Split", [x, net.ints(half, half)], outputs=2, axis=1)
    else:
        left = conv(net, x, style, x.shape[1], 3, 2, x.shape[1], act=False)
        left, right = conv(net, left, style, half), x
    right = conv(net, right, style, half)
    right = conv(net, right, style, half, 3, stride, half, act=False)
    right = conv(net, right, style, half)
    y = net.op("Concat", [left, right], axis=1)[0]
    batch, channels, *extents = y.shape
    y = net.one("Reshape", y, net.ints(batch, 2, channels // 2, *extents))
    y = net.one("Transpose", y, perm=[0, 2, 1, 3, 4])
    return net.one("Reshape", y, net.ints(batch, channels, *extents))


def channels_last(net: Net, x: Value, style: Style, stride: int) -> Value:
    """A large depthwise convolution, and a layer norm and two products with channels last."""
    if stride > 1:
        x = conv(net, x, style, x.shape[1], 3, 2, act=False)
    width = x.shape[1]
    plain = Style(style.act, norms=False, width=width)
    y = conv(net, x, plain, width, net.one_of((5, 7)), groups=width, act=False)
    y = net.one("Transpose", y, perm=[0, 2, 3, 1])
    scale, bias = net.constant(1 + net.normal((width,), 0.1)), net.constant(net.normal((width,)))
    y = net.one("LayerNormalization", y, scale, bias, axis=-1, epsilon=1e-6)
    for ins, outs in ((width, 2 * width), (2 * width, width)):
        y = net.one("MatMul", y, net.weight((ins, outs), ins))
        y = net.one("Add", y, net.constant(net.normal((outs,), 0.1)))
        if outs > ins:
            y = net.one("Mul", y, net.one("Sigmoid", y))
    if net.chance():
        y = net.one("Mul", y, net.constant(net.normal((width,), 0.5)))
    return net.one("Add", x, net.one("Transpose", y, perm=[0, 3, 1, 2]))


BLOCKS = (residual, residual, bottleneck, inverted, inverted, separable, dense, inception,
          shuffled, channels_last)  # fmt: skip

# Necks and heads


def _neck(net: Net, x: Value, larger: Value, style: Style) -> Value:
    """The map brought to the size of a larger one, and joined with it."""
    kind = net.one_of(("nearest", "nearest", "linear", "transposed"))
    if kind == "transposed":
        weight = net.weight((x.shape[1], x.shape[1], 2, 2), x.shape[1])
        x = net.one("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2])
    else:
        scales = net.constant(np.array([1, 1, 2, 2], np.float32))
        mode = "half_pixel" if kind == "linear" else net.one_of(("asymmetric", "half_pixel"))
        x = net.one("Resize", x, None, scales, mode=kind, coordinate_transformation_mode=mode)
    net.require(x.shape[2] >= larger.shape[2] and x.shape[3] >= larger.shape[3])
    if x.shape[2:] != larger.shape[2:]:
        ends = net.ints(*larger.shape[2:])
        x = net.one("Slice", x, net.ints(0, 0), ends, net.ints(2, 3))
    if net.chance():
        larger = conv(net, larger, style, x.shape[1], act=False)
        return net.one("Add", larger, x)
    return conv(net, net.op("Concat", [x, larger], axis=1)[0], style, style.width, 3)


def classes(net: Net, x: Value, style: Style) -> None:
    """The mean of each channel, and a product."""
    kind = net.one_of(("pool", "reduce", "flat"))
    if kind == "flat" and x.array.size <= 2048:
        flat = net.one("Flatten", x, axis=1)
    elif kind == "reduce" and net.opset < 18:
        flat = net.one("ReduceMean", x, axes=[2, 3], keepdims=0)
    else:
        flat = net.one("Flatten", net.one("GlobalAveragePool", x), axis=1)
    outs, ins = net.integer(2, 20), flat.shape[1]
    turned = net.chance()
    weight = net.weight((outs, ins) if turned else (ins, outs), ins)
    y = net.one("Gemm", flat, weight, net.constant(net.normal((outs,), 0.1)), transB=int(turned))
    if net.chance(0.4):
        net.one("Softmax", y, axis=-1)


def boxes(net: Net, x: Value, style: Style) -> None:
    """Scores and boxes of anchors at two sizes, joined along the anchors."""
    anchors, numbers = net.one_of((1, 2, 3)), net.one_of((4, 5, 6))
    maps = [x]
    if min(x.shape[2:]) >= 6:
        maps.append(conv(net, x, style, x.shape[1], 3, 2))
    rows = []
    plain = Style(style.act, norms=False, width=style.width)
    for item in maps:
        y = conv(net, item, plain, anchors * numbers, net.one_of((1, 3)), act=False)
        batch, _, height, width = y.shape
        y = net.one("Transpose", y, perm=[0, 2, 3, 1])
        rows.append(net.one("Reshape", y, net.ints(batch, height * width * anchors, numbers)))
    joined = net.op("Concat", rows, axis=1)[0] if len(rows) > 1 else rows[0]
    if net.chance():
        net.one("Sigmoid", joined)


def pixels(net: Net, x: Value, style: Style) -> None:
    """Classes of every pixel, at twice the size."""
    plain = Style(style.act, norms=False, width=style.width)
    y = conv(net, x, plain, net.integer(2, 6), act=False)
    mode = net.one_of(("linear", "nearest"))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    y = net.one("Resize", y, None, scales, mode=mode, coordinate_transformation_mode="half_pixel")
    if net.chance(0.3):
        net.one("Sigmoid", y)


HEADS = (classes, classes, boxes, pixels)
