"""The network: a vision transformer of two blocks on the 16 patches of an 8 x 8 image.

    input 1x8x8 -> patches 16x4 -> embed 16x32 (+ position)
    -> 2 blocks: x = x + out(attention(norm1(x)));  x = x + fc2(gelu(fc1(norm2(x))))
    -> norm -> mean over the tokens -> head 10 (-> Softmax)

Widths are multiples of 16, the block of the accelerator, as is the number of tokens.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from examples.attention import layers
from examples.digits.layers import softmax

__all__ = [
    "BLOCKS", "CHANNELS", "HEADS", "HIDDEN", "PATCH", "TOKENS", "forward", "initialise",
    "loss_and_gradients",
]  # fmt: skip

Array = npt.NDArray[np.float64]
Params = dict[str, Array]

PATCH = 2
"""Pixels of a patch each way."""
TOKENS = (8 // PATCH) ** 2
CHANNELS = 32
HEADS = 2
HIDDEN = 64
BLOCKS = 2
CLASSES = 10

_LINEAR = {"query": (32, 32), "key": (32, 32), "value": (32, 32), "out": (32, 32)} | {
    "fc1": (CHANNELS, HIDDEN),
    "fc2": (HIDDEN, CHANNELS),
}


def initialise(rng: np.random.Generator) -> Params:
    """Random weights, zero biases, norms that change nothing.

    Names are `<layer>.weight`, `<layer>.bias`, `<norm>.gamma`, `<norm>.beta` and `position`.
    """
    shapes = {"embed": (PATCH * PATCH, CHANNELS), "head": (CHANNELS, CLASSES)}
    norms = ["norm"]
    for block in range(BLOCKS):
        shapes |= {f"block{block}.{name}": shape for name, shape in _LINEAR.items()}
        norms += [f"block{block}.norm1", f"block{block}.norm2"]
    params: Params = {"position": rng.normal(0, 0.1, (TOKENS, CHANNELS))}
    for name, (inner, outer) in shapes.items():
        params[f"{name}.weight"] = rng.normal(0, np.sqrt(1 / inner), (inner, outer))
        params[f"{name}.bias"] = np.zeros(outer)
    for name in norms:
        params |= {f"{name}.gamma": np.ones(CHANNELS), f"{name}.beta": np.zeros(CHANNELS)}
    return params


class _Tape:
    """One run of the network that remembers what its gradients need."""

    def __init__(self, params: Mapping[str, Array]) -> None:
        self.params = params
        self.values: Params = {}
        self.gradients: Params = {}

    def linear(self, name: str, x: Array) -> Array:
        self.values[name] = x
        return layers.linear(x, self.params[f"{name}.weight"], self.params[f"{name}.bias"])

    def linear_backward(self, name: str, grad: Array) -> Array:
        weight = self.params[f"{name}.weight"]
        grad_x, grad_weight, grad_bias = layers.linear_backward(grad, self.values[name], weight)
        self.gradients |= {f"{name}.weight": grad_weight, f"{name}.bias": grad_bias}
        return grad_x

    def norm(self, name: str, x: Array) -> Array:
        self.values[name] = x
        return layers.layer_norm(x, self.params[f"{name}.gamma"], self.params[f"{name}.beta"])

    def norm_backward(self, name: str, grad: Array) -> Array:
        gamma = self.params[f"{name}.gamma"]
        grad_x, grad_gamma, grad_beta = layers.layer_norm_backward(grad, self.values[name], gamma)
        self.gradients |= {f"{name}.gamma": grad_gamma, f"{name}.beta": grad_beta}
        return grad_x

    def attention(self, block: str, x: Array) -> Array:
        parts = [self.linear(f"{block}.{name}", x) for name in ("query", "key", "value")]
        mixed, probabilities = layers.attention(*parts, HEADS)
        for name, value in zip(("q", "k", "v", "p"), (*parts, probabilities), strict=True):
            self.values[f"{block}.{name}"] = value
        return self.linear(f"{block}.out", mixed)

    def attention_backward(self, block: str, grad: Array) -> Array:
        q, k, v, p = (self.values[f"{block}.{name}"] for name in ("q", "k", "v", "p"))
        parts = layers.attention_backward(self.linear_backward(f"{block}.out", grad), q, k, v, p)
        names = ("query", "key", "value")
        return np.asarray(
            sum(
                self.linear_backward(f"{block}.{name}", part)
                for name, part in zip(names, parts, strict=True)
            )
        )

    def mlp(self, block: str, x: Array) -> Array:
        hidden = self.values[f"{block}.hidden"] = self.linear(f"{block}.fc1", x)
        return self.linear(f"{block}.fc2", layers.gelu(hidden))

    def mlp_backward(self, block: str, grad: Array) -> Array:
        hidden = self.linear_backward(f"{block}.fc2", grad)
        return self.linear_backward(
            f"{block}.fc1", layers.gelu_backward(hidden, self.values[f"{block}.hidden"])
        )

    def forward(self, images: npt.NDArray[np.floating]) -> Array:
        x = self.linear("embed", _patches(images)) + self.params["position"]
        for block in (f"block{number}" for number in range(BLOCKS)):
            x = x + self.attention(block, self.norm(f"{block}.norm1", x))
            x = x + self.mlp(block, self.norm(f"{block}.norm2", x))
        return self.linear("head", self.norm("norm", x).mean(axis=1))

    def backward(self, grad: Array) -> Params:
        mean = self.linear_backward("head", grad)[:, np.newaxis] / TOKENS
        x = self.norm_backward("norm", np.repeat(mean, TOKENS, axis=1))
        for block in (f"block{number}" for number in reversed(range(BLOCKS))):
            x = x + self.norm_backward(f"{block}.norm2", self.mlp_backward(block, x))
            x = x + self.norm_backward(f"{block}.norm1", self.attention_backward(block, x))
        self.linear_backward("embed", x)
        return self.gradients | {"position": x.sum(axis=0)}


def _patches(images: npt.NDArray[np.floating]) -> Array:
    """(N, 1, 8, 8) -> (N, TOKENS, PATCH * PATCH), rows of patches first."""
    n, _, height, width = images.shape
    cut = images.reshape(n, height // PATCH, PATCH, width // PATCH, PATCH)
    return cut.transpose(0, 1, 3, 2, 4).reshape(n, TOKENS, PATCH * PATCH).astype(np.float64)


def forward(params: Mapping[str, Array], images: npt.NDArray[np.floating]) -> Array:
    """Logits, (N, 10), of images (N, 1, 8, 8)."""
    return _Tape(params).forward(images)


def loss_and_gradients(
    params: Mapping[str, Array],
    images: npt.NDArray[np.floating],
    labels: npt.NDArray[np.int64],
    smoothing: float = 0.0,
) -> tuple[float, Params]:
    """Mean cross-entropy of a batch, and its gradient with respect to every parameter.

    Parameters
    ----------
    images, labels : (N, 1, 8, 8) and (N,)
    smoothing : share of the target that is spread over all ten digits
    """
    tape = _Tape(params)
    logits = tape.forward(images)
    probabilities = softmax(logits)
    target = np.full_like(logits, smoothing / logits.shape[1])
    target[np.arange(len(labels)), labels] += 1 - smoothing
    loss = -float((target * np.log(probabilities)).sum()) / len(labels)
    return loss, tape.backward((probabilities - target) / len(labels))
