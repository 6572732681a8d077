"""Forward and backward passes of the layers, in numpy.

Activations are (N, C, H, W) or (N, K). A `*_backward` function takes the gradient of the loss
with respect to the layer's output and gives the gradients with respect to its inputs.
"""

import numpy as np
import numpy.typing as npt

__all__ = [
    "average_pool",
    "average_pool_backward",
    "conv2d",
    "conv2d_backward",
    "gemm",
    "gemm_backward",
    "max_pool",
    "max_pool_backward",
    "softmax",
]

Array = npt.NDArray[np.float64]


def im2col(x: Array, kernel: int, pad: int) -> Array:
    """Every kernel-sized window of `x` as a row: (N, C, H, W) -> (N * H * W, C * kernel**2)."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    rows = windows.transpose(0, 2, 3, 1, 4, 5)  # (N, H, W, C, kernel, kernel)
    return rows.reshape(-1, x.shape[1] * kernel * kernel)


def col2im(columns: Array, shape: tuple[int, ...], kernel: int, pad: int) -> Array:
    """The adjoint of `im2col`: add every row back to the window it came from."""
    n, c, h, w = shape
    rows = columns.reshape(n, h, w, c, kernel, kernel)
    padded = np.zeros((n, c, h + 2 * pad, w + 2 * pad))
    for dy in range(kernel):
        for dx in range(kernel):
            padded[:, :, dy : dy + h, dx : dx + w] += rows[..., dy, dx].transpose(0, 3, 1, 2)
    return padded[:, :, pad : pad + h, pad : pad + w]


def conv2d(x: Array, weight: Array, bias: Array) -> Array:
    """Convolution with stride 1 that keeps height and width.

    Parameters
    ----------
    x : (N, C, H, W)
    weight : (M, C, K, K), K odd
    bias : (M,)

    Returns
    -------
    (N, M, H, W)
    """
    n, _, h, w = x.shape
    num_out, _, kernel, _ = weight.shape
    rows = im2col(x, kernel, kernel // 2) @ weight.reshape(num_out, -1).T + bias
    return rows.reshape(n, h, w, num_out).transpose(0, 3, 1, 2)


def conv2d_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Gradients with respect to the input, the weight and the bias of `conv2d`."""
    num_out, _, kernel, _ = weight.shape
    rows = grad.transpose(0, 2, 3, 1).reshape(-1, num_out)
    # The windows are cut again: keeping them from the forward pass costs nine times the memory.
    grad_weight = (rows.T @ im2col(x, kernel, kernel // 2)).reshape(weight.shape)
    grad_x = col2im(rows @ weight.reshape(num_out, -1), x.shape, kernel, kernel // 2)
    return grad_x, grad_weight, rows.sum(axis=0)


def _pool_windows(x: Array, size: int) -> Array:
    """(N, C, H, W) -> (N, C, H / size, size, W / size, size), a view."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // size, size, w // size, size)


def max_pool(x: Array, size: int) -> Array:
    """Maximum over windows of `size` by `size` that do not overlap."""
    return np.asarray(_pool_windows(x, size).max(axis=(3, 5)))


def max_pool_backward(grad: Array, x: Array, size: int) -> Array:
    """Gradient with respect to the input of `max_pool`; equal maxima share it evenly."""
    windows = _pool_windows(x, size)
    is_max = windows == windows.max(axis=(3, 5), keepdims=True)
    share = is_max / is_max.sum(axis=(3, 5), keepdims=True)
    return np.asarray(share * grad[:, :, :, np.newaxis, :, np.newaxis]).reshape(x.shape)


def average_pool(x: Array, size: int) -> Array:
    """Mean over windows of `size` by `size` that do not overlap."""
    return np.asarray(_pool_windows(x, size).mean(axis=(3, 5)))


def average_pool_backward(grad: Array, size: int) -> Array:
    """Gradient with respect to the input of `average_pool`."""
    return (grad / (size * size)).repeat(size, axis=2).repeat(size, axis=3)


def gemm(x: Array, weight: Array, bias: Array) -> Array:
    """Dense layer: (N, K) by (M, K) transposed plus (M,) -> (N, M)."""
    return x @ weight.T + bias


def gemm_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Gradients with respect to the input, the weight and the bias of `gemm`."""
    return grad @ weight, grad.T @ x, grad.sum(axis=0)


def softmax(logits: Array) -> Array:
    """Probabilities along the last axis."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))
