"""Addition with one rounding, on blocked tensors."""

from daedal.compiler import te
from daedal.compiler.ops.requantize import Bounds, requantized

__all__ = ["add"]


def add(
    a: te.Tensor,
    b: te.Tensor,
    params: te.Tensor,
    *,
    multiplier_a: int,
    multiplier_b: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``requantize(a * multiplier_a + b * multiplier_b)``.

    Parameters
    ----------
    a, b : (NB, CB, H, W, U, batch, lanes), of one shape.
    params : (1, lanes, 3) int64; its multiplier is 1: the scales are in the two multipliers.

    Returns
    -------
    The same shape; on the way are ``wide_a``, ``scaled_a`` (and b's) and ``total``.
    """

    def stages(x: te.Tensor, multiplier: int, name: str) -> te.Tensor:
        wide = te.compute(
            x.shape,
            lambda n, c, h, w, u, b, o: x[n, c, h, w, u, b, o].astype(accumulator),
            f"wide_{name}",
        )
        return te.compute(
            x.shape,
            lambda n, c, h, w, u, b, o: wide[n, c, h, w, u, b, o] * multiplier,
            f"scaled_{name}",
        )

    left, right = stages(a, multiplier_a, "a"), stages(b, multiplier_b, "b")
    total = te.compute(
        a.shape,
        lambda n, c, h, w, u, b, o: left[n, c, h, w, u, b, o] + right[n, c, h, w, u, b, o],
        "total",
    )
    return requantized(total, params, bounds, a.dtype)
