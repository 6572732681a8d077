"""Forward and backward passes of the transformer's layers, in numpy.

Tokens are (N, T, C). A `*_backward` function takes the gradient of the loss with respect to the
layer's output and gives the gradients with respect to its inputs.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from examples.digits.layers import softmax

__all__ = [
    "EPSILON",
    "attention",
    "attention_backward",
    "gelu",
    "gelu_backward",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
]

Array = npt.NDArray[np.float64]

EPSILON = 1e-5
"""Added to the variance, as in ONNX LayerNormalization-17."""


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """(..., K) by (K, M) plus (M,) -> (..., M)."""
    return x @ weight + bias


def linear_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Gradients with respect to the input, the weight and the bias of `linear`."""
    rows, columns = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return grad @ weight.T, rows.T @ columns, columns.sum(axis=0)


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    """Normalise the last axis to mean 0 and variance 1, then scale and shift it.

    Source: Ba et al., "Layer Normalization" (2016).
    """
    normal, _ = _normalised(x)
    return normal * gamma + beta


def layer_norm_backward(grad: Array, x: Array, gamma: Array) -> tuple[Array, Array, Array]:
    """Gradients with respect to the input, gamma and beta of `layer_norm`."""
    normal, deviation = _normalised(x)
    scaled = grad * gamma
    centred = scaled - scaled.mean(axis=-1, keepdims=True)
    along = (scaled * normal).mean(axis=-1, keepdims=True)
    rows = grad.reshape(-1, grad.shape[-1])
    return (
        (centred - normal * along) / deviation,
        (rows * normal.reshape(rows.shape)).sum(axis=0),
        rows.sum(axis=0),
    )


def _normalised(x: Array) -> tuple[Array, Array]:
    """The last axis with mean 0 and variance 1, and its standard deviation (..., 1)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centred / deviation, deviation


def gelu(x: Array) -> Array:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016)."""
    return np.asarray(0.5 * x * (1 + erf(x / np.sqrt(2))))


def gelu_backward(grad: Array, x: Array) -> Array:
    """Gradient with respect to the input of `gelu`."""
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(grad * (0.5 * (1 + erf(x / np.sqrt(2))) + x * density))


def attention(query: Array, key: Array, value: Array, heads: int) -> tuple[Array, Array]:
    """Scaled dot products of every query with every key weight the values.

    Parameters
    ----------
    query, key, value : (N, T, C); head h has channels h * C / heads to (h + 1) * C / heads.

    Returns
    -------
    (N, T, C), and the probabilities (N, heads, T, T) with the keys in the last axis.
    Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.
    """
    q, k, v = (_split(x, heads) for x in (query, key, value))
    probabilities = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return _join(probabilities @ v), probabilities


def attention_backward(
    grad: Array, query: Array, key: Array, value: Array, probabilities: Array
) -> tuple[Array, Array, Array]:
    """Gradients with respect to query, key and value of `attention`."""
    heads = probabilities.shape[1]
    g, q, k, v = (_split(x, heads) for x in (grad, query, key, value))
    weighted = probabilities * (g @ v.swapaxes(-1, -2))
    scores = weighted - probabilities * weighted.sum(axis=-1, keepdims=True)
    scores /= np.sqrt(q.shape[-1])
    return (
        _join(scores @ k),
        _join(scores.swapaxes(-1, -2) @ q),
        _join(probabilities.swapaxes(-1, -2) @ g),
    )


def _split(x: Array, heads: int) -> Array:
    """(N, T, C) -> (N, heads, T, C / heads)."""
    n, tokens, channels = x.shape
    return x.reshape(n, tokens, heads, channels // heads).swapaxes(1, 2)


def _join(x: Array) -> Array:
    """(N, heads, T, D) -> (N, T, heads * D)."""
    n, heads, tokens, size = x.shape
    return x.swapaxes(1, 2).reshape(n, tokens, heads * size)
