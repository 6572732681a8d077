"""Integer convolutions in plain numpy, without code shared with the compiler or the simulators."""

import numpy as np
import numpy.typing as npt

__all__ = ["convolution"]

Array = npt.NDArray[np.int64]


def convolution(
    x: Array,
    weights: Array,
    params: Array,
    *,
    stride: int,
    pad: int,
    zero_points: tuple[int, int],
    bounds: tuple[int, int],
) -> Array:
    """Sums of products over shifted maps, then one rounding, half to even.

    Parameters
    ----------
    x : (N, C, H, W); filled up with the first of `zero_points` by `pad` on each side.
    weights : (O, C, K, K), or (C, K, K) for one filter to a channel.
    params : (O, 3): bias, multiplier, shift.
    zero_points : of x, as its padding, and of the result.
    bounds : the smallest and the largest result.

    Returns
    -------
    (N, O, OH, OW).
    """
    kernel = weights.shape[-1]
    sides = (pad, pad)
    padded = np.pad(x, ((0, 0), (0, 0), sides, sides), constant_values=zero_points[0])
    height, width = ((size - kernel) // stride + 1 for size in padded.shape[2:])
    acc = np.zeros((len(x), len(weights), height, width), dtype=np.int64)
    for row in range(kernel):
        for column in range(kernel):
            tap = padded[:, :, row : row + (height - 1) * stride + 1 : stride]
            tap = tap[..., column : column + (width - 1) * stride + 1 : stride]
            acc += _products(tap, weights[..., row, column])
    bias, multiplier, shift = (params[:, k, None, None] for k in range(3))
    product = (acc + bias) * multiplier
    whole = product >> shift
    twice_rest = (product - (whole << shift)) * 2
    up = (twice_rest > 1 << shift) | ((twice_rest == 1 << shift) & (whole % 2 == 1))
    return np.clip(whole + up + zero_points[1], *bounds)


def _products(tap: Array, weights: Array) -> Array:
    """One tap of all outputs. Products of 16-bit numbers add up exactly in float64."""
    if weights.ndim == 1:
        return tap * weights[:, None, None]
    pixels = tap.reshape(*tap.shape[:2], -1).astype(np.float64)
    sums = weights.astype(np.float64) @ pixels
    return sums.astype(np.int64).reshape(len(tap), len(weights), *tap.shape[2:])
