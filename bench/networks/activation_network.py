"""A float network of three stages, as in EfficientNet and YOLO, with any activation."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx

from bench.float_network import FloatNetwork

__all__ = ["ACTIVATIONS", "SHAPE", "activation_network", "samples_for"]

SHAPE = (1, 3, 64, 64)

ACTIVATIONS: dict[str, Callable[[FloatNetwork, str], str]] = {
    "ReLU": lambda net, x: net.op("Relu", x),
    "SiLU": lambda net, x: net.op("Mul", x, net.op("Sigmoid", x)),
    "GELU": lambda net, x: net.op(
        "Mul",
        net.op("Mul", x, net.constant(np.float32(0.5))),
        net.op(
            "Add",
            net.op("Erf", net.op("Mul", x, net.constant(np.float32(0.5**0.5)))),
            net.constant(np.float32(1)),
        ),
    ),
}
"""By name: what follows a convolution, written out as frameworks export it."""


def activation_network(activation: str, seed: int = 0) -> onnx.ModelProto:
    """Stem; an inverted residual (EfficientNet); a split bottleneck with a residual and a concat
    (YOLO); two strided convolutions, and a classifier. Weights are the same for each activation."""
    net = FloatNetwork(np.random.default_rng(seed))
    act = ACTIVATIONS[activation]

    def layer(x: str, inner: int, outer: int, kernel: int = 3, **attrs: object) -> str:
        return act(net, net.conv(x, inner, outer, kernel, **attrs))

    x = layer(net.input("x", SHAPE), 3, 32, strides=[2, 2])
    y = layer(layer(x, 32, 96, 1), 96, 96, group=96)
    x = net.op("Add", x, net.conv(y, 96, 32, 1))
    first, second = layer(x, 32, 32, 1), layer(x, 32, 32, 1)
    inner = net.op("Add", second, layer(layer(second, 32, 32), 32, 32))
    x = layer(net.op("Concat", first, second, inner, axis=1), 96, 64, 1)
    x = layer(layer(x, 64, 64, strides=[2, 2]), 64, 128, strides=[2, 2])
    net.op("Flatten", net.conv(net.op("GlobalAveragePool", x), 128, 10, 1), output="y")
    return net.model("y")


def samples_for(seed: int, count: int) -> npt.NDArray[np.float32]:
    """Images of noise that is smooth enough to have edges."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(count, SHAPE[1], 8, 8)).repeat(8, axis=2).repeat(8, axis=3)
    return (coarse + 0.3 * rng.normal(size=(count, *SHAPE[1:]))).astype(np.float32)
