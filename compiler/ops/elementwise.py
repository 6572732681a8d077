"""Elementwise operators with one rounding, on blocked tensors.

Source: ONNX Add, Sub and Mul (opset 14), Max (opset 13) for broadcasting, LeakyRelu (opset 16).
"""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.requantize import Bounds, requantize, requantized
from daedal.compiler.tir.expr import Binary, Expr, IntImm, maximum, minimum

__all__ = ["FORMULAS", "add", "exact_sum", "larger_of", "leaky_relu", "max_requantized", "mul"]


def add(
    a: te.Tensor,
    b: te.Tensor,
    params: te.Tensor,
    *,
    multiplier_a: int,
    multiplier_b: int,
    bounds: Bounds,
    accumulator: str = "int32",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """``requantize(a * multiplier_a + b * multiplier_b)``; a negative multiplier subtracts.

    Parameters
    ----------
    a : (NB, CB, H, W, U, batch, lanes).
    b : the same, or with H or W of 1: then it is repeated along that dimension.
    params : (1, lanes, 3) int64; its multiplier is 1, as the two multipliers hold the scales,
        unless an operand or the result is wide.
    table : where the sum is looked up (`daedal.compiler.te.table`), if anywhere.

    Returns
    -------
    The shape of `a`. Intermediate tensors: ``wide_a``, ``scaled_a`` (and b's) and ``total``.
    """
    left = _scaled(_wide(a, "wide_a", accumulator), multiplier_a, "scaled_a")
    right = _scaled(_wide(b, "wide_b", accumulator), multiplier_b, "scaled_b")
    total = te.compute(
        a.shape,
        lambda n, c, h, w, u, b, o: left[n, c, h, w, u, b, o] + _at(right, n, c, h, w, u, b, o),
        "total",
    )
    return requantized(total, params, bounds, bounds.dtype(a.dtype), table=table)


def exact_sum(a: te.Tensor, b: te.Tensor, *, accumulator: str = "int32") -> te.Tensor:
    """``a + b``, of wide tensors whose sums are known to have 16 bits.

    Parameters
    ----------
    a, b : as those of `add`.

    Returns
    -------
    The shape of `a`. Intermediate tensors: ``wide_a`` and ``wide_b``.
    """
    left, right = _wide(a, "wide_a", accumulator), _wide(b, "wide_b", accumulator)
    return te.compute(
        a.shape,
        lambda n, c, h, w, u, b, o: left[n, c, h, w, u, b, o] + _at(right, n, c, h, w, u, b, o),
        "y",
    )


def mul(
    a: te.Tensor,
    b: te.Tensor,
    params: te.Tensor,
    *,
    zero_point_a: int,
    zero_point_b: int,
    bounds: Bounds,
    accumulator: str = "int32",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """``requantize((a - zero_point_a) * (b - zero_point_b))``.

    Parameters
    ----------
    a : (NB, CB, H, W, U, batch, lanes).
    b : the same, or with H or W of 1: then it is repeated along that dimension.
    params : (1, lanes, 3) int64.
    table : where the product is looked up, if anywhere.

    Returns
    -------
    The shape of `a`. Intermediate tensors: ``wide_a``, ``centred_a`` (and b's) and ``product``.
    """
    left = _centred(_wide(a, "wide_a", accumulator), zero_point_a, "centred_a")
    right = _centred(_wide(b, "wide_b", accumulator), zero_point_b, "centred_b")
    total = te.compute(
        a.shape,
        lambda n, c, h, w, u, b, o: left[n, c, h, w, u, b, o] * _at(right, n, c, h, w, u, b, o),
        "product",
    )
    return requantized(total, params, bounds, a.dtype, table=table)


def larger_of(
    a: te.Tensor,
    b: te.Tensor,
    params: te.Tensor,
    *,
    zero_point_a: int,
    zero_point_b: int,
    multiplier_a: int,
    multiplier_b: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``requantize(max(multiplier_a * (a - zero_point_a), multiplier_b * (b - zero_point_b)))``.

    Parameters
    ----------
    a : (NB, CB, H, W, U, batch, lanes).
    b : the same, or with H or W of 1: then it is repeated along that dimension.
    params : (1, lanes, 3) int64.

    Returns
    -------
    The shape of `a`. Intermediate tensors: ``wide_a``, ``centred_a``, ``scaled_a`` (and b's) and
    ``larger``.
    """
    left = _centred(_wide(a, "wide_a", accumulator), zero_point_a, "centred_a")
    right = _centred(_wide(b, "wide_b", accumulator), zero_point_b, "centred_b")
    left, right = _scaled(left, multiplier_a, "scaled_a"), _scaled(right, multiplier_b, "scaled_b")
    total = te.compute(
        a.shape,
        lambda n, c, h, w, u, b, o: maximum(
            left[n, c, h, w, u, b, o], _at(right, n, c, h, w, u, b, o)
        ),
        "larger",
    )
    return requantized(total, params, bounds, a.dtype)


def leaky_relu(
    x: te.Tensor,
    params: te.Tensor,
    *,
    zero_point_x: int,
    multiplier_positive: int,
    multiplier_negative: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``requantize(v * multiplier_positive)`` where ``v = x - zero_point_x`` is positive, else
    ``requantize(v * multiplier_negative)``. This is the larger or the smaller of the two products,
    depending on which multiplier is larger.

    Parameters
    ----------
    x : (NB, CB, H, W, U, batch, lanes).
    params : (1, lanes, 3) int64; its multiplier is 1.

    Returns
    -------
    The shape of `x`. Intermediate tensors: ``wide``, ``centred``, ``positive`` and, if the
    multipliers differ, ``negative`` and ``larger`` or ``smaller``.
    """
    centred = _centred(_wide(x, "wide", accumulator), zero_point_x, "centred")
    positive = _scaled(centred, multiplier_positive, "positive")
    if multiplier_positive == multiplier_negative:
        return requantized(positive, params, bounds, x.dtype)
    negative = _scaled(centred, multiplier_negative, "negative")
    larger = multiplier_positive > multiplier_negative
    choose, name = (maximum, "larger") if larger else (minimum, "smaller")
    total = te.compute(
        x.shape,
        lambda n, c, h, w, u, b, o: choose(
            positive[n, c, h, w, u, b, o], negative[n, c, h, w, u, b, o]
        ),
        name,
    )
    return requantized(total, params, bounds, x.dtype)


def max_requantized(
    x: te.Tensor, params: te.Tensor, *, bounds: Bounds, accumulator: str = "int32"
) -> te.Tensor:
    """The larger of `x` and ``requantize(x)``, as integers.

    A requantization and one operation, which writes the result: where `x` is a convolution's, the
    ALU takes fewer cycles than for any other form of leaky ReLU.

    Parameters
    ----------
    x : (NB, CB, H, W, U, batch, lanes).
    params : (1, lanes, 3) int64.

    Returns
    -------
    The shape of `x`. Intermediate tensors: ``wide`` and ``rescaled``.
    """
    wide = _wide(x, "wide", accumulator)

    def element(n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        bias, multiplier, shift = (params[0, o, part] for part in range(3))
        value = te.requantize(
            wide[n, c, h, w, u, b, o],
            bias,
            multiplier,
            shift,
            bounds.zero_point,
            bounds.low,
            bounds.high,
            x.dtype,
        )
        return value.astype(accumulator)

    rescaled = te.compute(x.shape, element, "rescaled")
    return te.compute(
        x.shape,
        lambda n, c, h, w, u, b, o: maximum(
            wide[n, c, h, w, u, b, o], rescaled[n, c, h, w, u, b, o]
        ).astype(x.dtype),
        "y",
    )


def _wide(x: te.Tensor, name: str, accumulator: str) -> te.Tensor:
    return te.compute(
        x.shape, lambda n, c, h, w, u, b, o: x[n, c, h, w, u, b, o].astype(accumulator), name
    )


def _scaled(x: te.Tensor, multiplier: int, name: str) -> te.Tensor:
    """``x * multiplier``, or `x` itself if that is 1."""
    if multiplier == 1:
        return x
    # Python's operator would fold a product with 0.
    factor = IntImm(multiplier, x.dtype)
    return te.compute(
        x.shape,
        lambda n, c, h, w, u, b, o: Binary("*", x[n, c, h, w, u, b, o], factor),
        name,
    )


def _centred(x: te.Tensor, zero_point: int, name: str) -> te.Tensor:
    """``x - zero_point``, or `x` itself if that is 0."""
    if zero_point == 0:
        return x
    return te.compute(
        x.shape, lambda n, c, h, w, u, b, o: x[n, c, h, w, u, b, o] - zero_point, name
    )


def _at(x: te.Tensor, n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
    """The element of `x` at this position; dimensions of 1 are broadcast."""
    row, column = (
        IntImm(0) if extent == 1 else index
        for extent, index in zip(x.shape[2:4], (h, w), strict=True)
    )
    return x[n, c, row, column, u, b, o]


FORMULAS: Mapping[str, Callable[..., te.Tensor]] = {
    "q_add": add,
    "q_leaky_relu": leaky_relu,
    "q_max_requantized": max_requantized,
    "q_maximum": larger_of,
    "q_mul": mul,
    "q_requantize": requantize,
    "q_sum": exact_sum,
}
"""By operator. They take the operator's operands and its own attributes, `accumulator`, `bounds`
where there are parameters, and `table` where the result can be looked up."""
