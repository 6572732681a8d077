"""Layers for random graphs: convolutions, pools, products, norms, recurrent ones."""

from collections.abc import Callable, Mapping

import numpy as np

from bench.correctness.random_models.net import Net, Value

__all__ = ["LAYERS"]


def _map(net: Net) -> Value:
    """A map: batch, channels, and 1 or 2 axes."""
    return net.pick(lambda value: value.rank in (3, 4) and value.shape[1] <= 32)


def _divisors(number: int) -> list[int]:
    return [item for item in range(1, number + 1) if number % item == 0]


def _window(net: Net, x: Value, largest: int = 4) -> dict[str, list[int]]:
    """Attributes of a window that fits; pads are less than the kernel."""
    axes = x.rank - 2
    kernel = [net.integer(1, largest) for _ in range(axes)]
    dilations = [net.one_of((1, 1, 1, 2, 3)) for _ in range(axes)]
    strides = [net.one_of((1, 1, 2, 3)) for _ in range(axes)]
    pads = [net.integer(0, min(2, kernel[n % axes] - 1)) for n in range(2 * axes)]
    if net.chance(0.3):
        pads = [0] * (2 * axes)
    for axis in range(axes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        net.require(reach <= x.shape[2 + axis] + pads[axis] + pads[axis + axes])
    return {"kernel_shape": kernel, "dilations": dilations, "strides": strides, "pads": pads}


def conv(net: Net) -> None:
    x = _map(net)
    channels = x.shape[1]
    groups = net.one_of((1, 1, 1, channels, *_divisors(channels)))
    outs = groups * net.integer(1, max(1, 12 // groups))
    window = _window(net, x)
    if net.chance(0.2):
        window = {key: item for key, item in window.items() if key != "pads"}
        mode = net.one_of(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if mode != "VALID":
            window["dilations"] = [1] * (x.rank - 2)
    else:
        mode = None
    shape = (outs, channels // groups, *window["kernel_shape"])
    count = int(np.prod(shape[1:]))
    weight = net.weight(shape, count)
    step = net.sum_step(x, weight, count)
    operands = [x, weight]
    if net.chance(0.6):
        operands.append(net.constant(net.normal((outs,), 0.1)))
        step = None
    y = net.op("Conv", operands, step=step, group=groups, auto_pad=mode, **window)[0]
    if net.chance(0.4):
        net.one(net.one_of(("Relu", "Sigmoid", "HardSwish", "Tanh")), y)


def conv_transpose(net: Net) -> None:
    x = net.pick(lambda value: value.rank in (3, 4) and value.shape[1] <= 12)
    axes, channels = x.rank - 2, x.shape[1]
    groups = net.one_of((1, 1, *_divisors(channels)))
    outs = groups * net.integer(1, max(1, 6 // groups))
    kernel = [net.integer(1, 4) for _ in range(axes)]
    strides = [net.integer(1, 3) for _ in range(axes)]
    dilations = [net.one_of((1, 1, 2)) for _ in range(axes)]
    pads = [net.integer(0, (kernel[n % axes] - 1) * dilations[n % axes]) for n in range(2 * axes)]
    padding = [net.integer(0, stride - 1) for stride in strides]
    for axis, extent in enumerate(x.shape[2:]):
        reach = (kernel[axis] - 1) * dilations[axis] + 1 + padding[axis]
        size = strides[axis] * (extent - 1) + reach - pads[axis] - pads[axis + axes]
        net.require(1 <= size <= 40)
    weight = net.weight((channels, outs // groups, *kernel), channels // groups * 2)
    bias = net.constant(net.normal((outs,), 0.1)) if net.chance() else None
    net.one(
        "ConvTranspose", x, weight, *([bias] if bias else []), group=groups, kernel_shape=kernel,
        strides=strides, dilations=dilations, pads=pads, output_padding=padding,
    )  # fmt: skip


def _starts_inside(x: Value, window: dict[str, list[int]]) -> bool:
    """Whether no window starts behind the map where their number is rounded up.

    ONNX leaves such windows out, but its shape inference counts them.
    """
    axes = x.rank - 2
    for axis, extent in enumerate(x.shape[2:]):
        stride, (before, behind) = window["strides"][axis], window["pads"][axis::axes]
        reach = (window["kernel_shape"][axis] - 1) * window["dilations"][axis] + 1
        last = -(-(extent + before + behind - reach) // stride)
        if last * stride >= extent + before:
            return False
    return True


def _reads_map(x: Value, window: dict[str, list[int]]) -> bool:
    """Whether every window has an element of the map: ONNX does not say what an empty one gives."""
    axes = x.rank - 2
    for axis, extent in enumerate(x.shape[2:]):
        before, behind = window["pads"][axis::axes]
        taps = window["dilations"][axis] * np.arange(window["kernel_shape"][axis])
        starts = range(-before, extent + behind, window["strides"][axis])
        places = [start + taps for start in starts if start + taps[-1] < extent + behind]
        if not all(((place >= 0) & (place < extent)).any() for place in places):
            return False
    return True


def pool(net: Net) -> None:
    x = _map(net)
    kind = net.one_of(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    window = _window(net, x)
    first = {"MaxPool": 1, "AveragePool": 19, "LpPool": 18}[kind]
    if net.opset < first or (kind != "MaxPool" and net.chance()):
        window["dilations"] = [1] * (x.rank - 2)
    net.require(_reads_map(x, window))
    ceil = int(net.chance() and _starts_inside(x, window))
    if kind == "MaxPool":
        if x.exact and net.chance(0.15):
            net.op("MaxPool", [x], outputs=2, ceil_mode=ceil, exact=True, **window)
        else:
            net.like("MaxPool", x, ceil_mode=ceil, **window)
        return
    if net.opset < first:
        del window["dilations"]
    if kind == "LpPool":
        net.one("LpPool", x, p=net.integer(1, 3), **window)
    else:
        net.one("AveragePool", x, ceil_mode=ceil, count_include_pad=net.integer(0, 1), **window)


def global_pool(net: Net) -> None:
    x = _map(net)
    net.one(net.one_of(("GlobalAveragePool", "GlobalMaxPool")), x)


def squeeze_excite(net: Net) -> None:
    x = _map(net)
    y = net.one("GlobalAveragePool", x)
    ones = (1,) * (x.rank - 2)
    inner = net.integer(1, 6)
    y = net.one("Conv", y, net.weight((inner, x.shape[1], *ones), x.shape[1]))
    y = net.one(net.one_of(("Relu", "HardSwish")), y)
    y = net.one("Conv", y, net.weight((x.shape[1], inner, *ones), inner))
    net.one("Mul", x, net.one("Sigmoid", y))


def matmul(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 1)
    depth = x.shape[-1]
    batch = ()
    if x.rank > 2 and net.chance(0.3):
        batch = tuple(net.one_of((extent, 1)) for extent in x.shape[:-2])
    shape = (*batch, depth, net.integer(1, 17))
    weight = net.weight(shape if net.chance(0.9) else (depth,), depth)
    if weight.rank == 2 and net.chance(0.2):
        # What is known is computed by the compiler.
        weight = net.constant(weight.array.T.copy(), weight.step)
        weight = net.like("Transpose", weight, perm=[1, 0])[0]
    y = net.one("MatMul", x, weight, step=net.sum_step(x, weight, depth))
    if net.chance() and y.rank:
        net.one("Add", y, net.constant(net.normal((y.shape[-1],), 0.2)))


def products(net: Net) -> None:
    """Products of computed tensors, as attention has; sometimes places behind are masked."""
    x = net.pick(lambda value: value.rank >= 2)
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    y = net.one("MatMul", x, net.like("Transpose", x, perm=order)[0])
    if net.chance(0.4):
        low = net.one_of((-1e4, float(np.finfo(np.float32).min)))
        mask = np.triu(np.full(y.shape[-2:], low, np.float32), 1)
        y = net.one("Add", y, net.constant(mask))
    net.one("MatMul", net.one("Softmax", y, axis=-1), x)


def gemm(net: Net) -> None:
    x = net.pick(lambda value: value.rank == 2)
    left, right = net.integer(0, 1), net.integer(0, 1)
    rows, depth = (x.shape[1], x.shape[0]) if left else x.shape
    columns = net.integer(1, 20)
    weight = net.weight((columns, depth) if right else (depth, columns), depth)
    shapes = ((columns,), (1, columns), (rows, 1), (rows, columns), (), (1,))
    operands = [x, weight]
    if net.chance(0.8):
        operands.append(net.constant(net.normal(net.one_of(shapes), 0.3)))
    attributes = {"alpha": net.real(0.5, 2), "beta": net.real(0.5, 2)} if net.chance(0.3) else {}
    net.op("Gemm", operands, transA=left, transB=right, **attributes)


def einsum(net: Net) -> None:
    x = net.pick(lambda value: value.rank == 3)
    b, i, j = x.shape
    k = net.integer(1, 6)
    equation, shape = net.one_of(
        (
            ("bij,jk->bik", (j, k)),
            ("bij,bkj->bik", (b, k, j)),
            ("bij,ik->bkj", (i, k)),
            ("bij,j->bi", (j,)),
            ("bij,bij->b", (b, i, j)),
            ("bij,k->jbik", (k,)),
        )
    )
    net.one("Einsum", x, net.weight(shape, j), equation=equation)


def batch_norm(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 2)
    count = (x.shape[1],)
    gain, bias = net.constant(1 + net.normal(count, 0.1)), net.constant(net.normal(count, 0.2))
    mean = net.constant(net.normal(count, 0.2))
    variance = net.constant(net.rng.uniform(0.5, 1.5, count).astype(np.float32))
    net.one("BatchNormalization", x, gain, bias, mean, variance, epsilon=1e-5)


def norm(net: Net) -> None:
    """Norms over some axes; few elements, or equal ones, have no meaningful deviation."""
    x = net.pick(
        lambda value: (
            value.rank >= 3
            and bool((value.array.reshape(*value.shape[:2], -1).std(axis=-1) > 0.1).all())
        )
    )
    kind = net.one_of(("InstanceNormalization", "LRN", "LpNormalization", "GroupNormalization"))
    channels = (x.shape[1],)
    gain, bias = 1 + net.normal(channels, 0.1), net.normal(channels, 0.1)
    if kind == "InstanceNormalization":
        net.one(kind, x, net.constant(gain), net.constant(bias), epsilon=1e-3)
    elif kind == "LRN":
        net.require(x.rank == 4)
        net.one(kind, x, size=net.one_of((1, 3, 5)), alpha=0.1, beta=0.6, bias=1.5)
    elif kind == "LpNormalization":
        net.one(kind, x, axis=net.integer(-x.rank, x.rank - 1), p=net.integer(1, 2))
    else:
        net.require(net.opset >= 21)
        groups = net.one_of(_divisors(x.shape[1]))
        net.one(kind, x, net.constant(gain), net.constant(bias), num_groups=groups, epsilon=1e-3)


def layer_norm(net: Net) -> None:
    x = net.pick(
        lambda value: (
            value.rank >= 2 and value.shape[-1] > 1 and bool((value.array.std(axis=-1) > 0.1).all())
        )
    )
    axis = net.one_of((-1, -1, net.integer(1, x.rank - 1)))
    shape = x.shape[axis:]
    operands = [x, net.constant(1 + net.normal(shape, 0.1))]
    if net.chance(0.8):
        operands.append(net.constant(net.normal(shape, 0.1)))
    net.op("LayerNormalization", operands, axis=axis, epsilon=1e-3)


def softmax(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 1)
    kind = net.one_of(("Softmax", "Softmax", "LogSoftmax"))
    net.one(kind, x, axis=net.integer(-x.rank, x.rank - 1))


def recurrent(net: Net) -> None:
    x = net.pick(lambda value: value.rank == 3 and value.shape[0] <= 10 and value.shape[2] <= 24)
    kind, gates = net.one_of((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, depth = x.shape
    hidden, directions = net.integer(1, 6), net.one_of((1, 1, 2))
    direction = "bidirectional" if directions == 2 else net.one_of(("forward", "reverse"))
    operands: list[Value | None] = [
        x,
        net.constant(net.normal((directions, gates * hidden, depth), 0.4)),
        net.constant(net.normal((directions, gates * hidden, hidden), 0.4)),
    ]
    if net.chance(0.7):
        operands.append(net.constant(net.normal((directions, 2 * gates * hidden), 0.2)))
        if net.chance(0.4):
            operands += [None, net.constant(net.normal((directions, batch, hidden)))]
            if kind == "LSTM":
                operands.append(net.constant(net.normal((directions, batch, hidden))))
    attributes = {"linear_before_reset": net.integer(0, 1)} if kind == "GRU" else {}
    outputs = net.integer(1, 3 if kind == "LSTM" else 2)
    net.op(kind, operands, outputs=outputs, hidden_size=hidden, direction=direction, **attributes)
    net.require(steps > 0)


LAYERS: Mapping[Callable[[Net], None], int] = {
    conv: 14,
    conv_transpose: 3,
    pool: 7,
    global_pool: 1,
    squeeze_excite: 1,
    matmul: 4,
    products: 2,
    gemm: 3,
    einsum: 1,
    batch_norm: 2,
    norm: 2,
    layer_norm: 2,
    softmax: 2,
    recurrent: 1,
}
"""By how often they are drawn."""
