"""Operators that normalize over axes.

Statistics are tensors of their own: sums, mean, squared deviations from it, and one over the
standard deviation; what an element of the result costs is a product and two sums.
"""

from collections.abc import Callable, Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.over_axes import normalized_axes, normalized_axis, over_axes
from daedal.compiler.ops.onnx.windows import padded_copy, taps_of
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS"]

Element = Callable[[tuple[Expr, ...], Sequence[Expr]], Expr]
"""An element of what is reduced, from the indices of a statistic and of what it reduces over."""


def _batch(operation: Operation) -> list[te.Tensor]:
    """BatchNormalization-7, -9, -14, -15 as it is at inference."""
    node, x = operation.node, operation.operand(0)
    if x.rank < 2:
        raise node.refuse("the operand must have channels", "reshape it")
    if node.integer("training_mode", 0):
        raise node.refuse("training_mode must be 0", "export the model for inference")
    if not node.integer("spatial", 1):
        raise node.refuse("spatial must be 1", "export the model with a newer opset")
    node.real("momentum", 0.9)
    scale, bias, mean, variance = (operation.operand(index) for index in (1, 2, 3, 4))
    epsilon, dtype = node.real("epsilon", 1e-5), wide(x.dtype)
    factor = operation.compute(
        scale.shape,
        lambda c: scale[c].astype(dtype) / te.sqrt(variance[c].astype(dtype) + epsilon),
        "factor",
    )

    def formula(*i: Expr) -> Expr:
        centered = x[i].astype(dtype) - mean[i[1]].astype(dtype)
        return (centered * factor[i[1]] + bias[i[1]].astype(dtype)).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


def _moments(
    operation: Operation,
    shape: Sequence[int],
    extents: Sequence[int],
    element: Element,
    inverse: Callable[[Expr], Expr],
) -> tuple[te.Tensor, te.Tensor]:
    """The mean, and `inverse` of the variance, of shape `shape` each.

    Parameters
    ----------
    extents : of what is reduced.
    """
    taps, axes = taps_of(extents)
    count = 1
    for extent in extents:
        count *= extent
    sums = operation.compute(shape, lambda *i: te.sum(element(i, taps), axes), "sum")
    mean = operation.compute(shape, lambda *i: sums[i] / count, "mean")

    def square(*i: Expr) -> Expr:
        deviation = element(i, taps) - mean[i]
        return te.sum(deviation * deviation, axes)

    squares = operation.compute(shape, square, "squares")
    return mean, operation.compute(shape, lambda *i: inverse(squares[i] / count), "inverse")


def _one_over_deviation(epsilon: float) -> Callable[[Expr], Expr]:
    return lambda variance: 1.0 / te.sqrt(variance + epsilon)


def _along(x: Operand, axes: Sequence[int]) -> tuple[tuple[int, ...], list[int], Element]:
    """The shape of statistics over `axes`, the extents reduced, and the element of `x`, widened."""
    shape = tuple(1 if dim in axes else extent for dim, extent in enumerate(x.shape))
    dtype = wide(x.dtype)

    def element(i: tuple[Expr, ...], taps: Sequence[Expr]) -> Expr:
        index = list(i)
        for axis, tap in zip(axes, taps, strict=True):
            index[axis] = tap
        return x[tuple(index)].astype(dtype)

    return shape, [x.shape[axis] for axis in axes], element


def _instance(operation: Operation) -> list[te.Tensor]:
    """InstanceNormalization-6, -22."""
    node, x = operation.node, operation.operand(0)
    if x.rank < 3:
        raise node.refuse("the operand must have a map", "reshape it")
    scale, bias, dtype = operation.operand(1), operation.operand(2), wide(x.dtype)
    inverse = _one_over_deviation(node.real("epsilon", 1e-5))
    mean, factor = _moments(operation, *_along(x, range(2, x.rank)), inverse)

    def formula(*i: Expr) -> Expr:
        at = (*i[:2], *[IntImm(0)] * (x.rank - 2))
        centered = (x[i].astype(dtype) - mean[at]) * factor[at]
        return (centered * scale[i[1]].astype(dtype) + bias[i[1]].astype(dtype)).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


def _layer(operation: Operation) -> list[te.Tensor]:
    """LayerNormalization-17 with mean and inverse deviation; stash_type bfloat16 is refused.

    float64 is normalized in float64, which stash_type would narrow.
    """
    node, x = operation.node, operation.operand(0)
    axis = normalized_axis(operation, node.integer("axis", -1), x.rank)
    _check_stash(operation)
    scale, bias, dtype = operation.operand(1), operation.optional(2), wide(x.dtype)
    inverse = _one_over_deviation(node.real("epsilon", 1e-5))
    mean, factor = _moments(operation, *_along(x, range(axis, x.rank)), inverse)

    def formula(*i: Expr) -> Expr:
        at = (*i[:axis], *[IntImm(0)] * (x.rank - axis))
        value = (x[i].astype(dtype) - mean[at]) * factor[at] * scale.broadcast(i).astype(dtype)
        if bias is not None:
            value = value + bias.broadcast(i).astype(dtype)
        return value.astype(x.dtype)

    results = [operation.compute(x.shape, formula)]
    for tensor, wanted in zip((mean, factor), operation.results[1:], strict=False):
        kept = dtype if wanted is None else wanted.dtype
        results.append(_as(operation, tensor, kept))
    return results


def _as(operation: Operation, tensor: te.Tensor, dtype: str) -> te.Tensor:
    """A copy of a statistic, which the formulas also read, as a result."""
    return operation.compute(tensor.shape, lambda *i: tensor[i].astype(dtype), "statistic")


def _check_stash(operation: Operation) -> None:
    if operation.node.integer("stash_type", 1) != 1:
        raise operation.node.refuse("stash_type must be 1 (float32)", "export the model with it")


def _group(operation: Operation) -> list[te.Tensor]:
    """GroupNormalization-18 (scale and bias per group) and -21 (per channel)."""
    node, x = operation.node, operation.operand(0)
    groups = node.integer("num_groups", 0)
    if x.rank < 3 or groups < 1 or x.shape[1] % groups:
        raise node.damaged("num_groups must divide the channels of a map")
    if operation.opset >= 21:
        _check_stash(operation)
    per_group = operation.opset < 21
    scale, bias, dtype = operation.operand(1), operation.operand(2), wide(x.dtype)
    depth = x.shape[1] // groups

    def element(i: tuple[Expr, ...], taps: Sequence[Expr]) -> Expr:
        return x[(i[0], i[1] * depth + taps[0], *taps[1:])].astype(dtype)

    inverse = _one_over_deviation(node.real("epsilon", 1e-5))
    shape, extents = (x.shape[0], groups), (depth, *x.shape[2:])
    mean, factor = _moments(operation, shape, extents, element, inverse)

    def formula(*i: Expr) -> Expr:
        group = i[1] // depth
        own = group if per_group else i[1]
        centered = (x[i].astype(dtype) - mean[i[0], group]) * factor[i[0], group]
        return (centered * scale[own].astype(dtype) + bias[own].astype(dtype)).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


def _rms(operation: Operation) -> list[te.Tensor]:
    """RMSNormalization-23."""
    node, x, scale = operation.node, operation.operand(0), operation.operand(1)
    axis = normalized_axis(operation, node.integer("axis", -1), x.rank)
    _check_stash(operation)
    epsilon, dtype = node.real("epsilon", 1e-5), wide(x.dtype)
    shape, extents, element = _along(x, range(axis, x.rank))
    taps, axes = taps_of(extents)
    count = 1
    for extent in extents:
        count *= extent
    squares = operation.compute(
        shape, lambda *i: te.sum(element(i, taps) * element(i, taps), axes), "squares"
    )
    factor = operation.compute(
        shape, lambda *i: 1.0 / te.sqrt(squares[i] / count + epsilon), "inverse"
    )

    def formula(*i: Expr) -> Expr:
        at = (*i[:axis], *[IntImm(0)] * (x.rank - axis))
        value = x[i].astype(dtype) * factor[at] * scale.broadcast(i).astype(dtype)
        return value.astype(operation.result.dtype)

    return [operation.compute(x.shape, formula)]


def _local_response(operation: Operation) -> list[te.Tensor]:
    """LRN-1, -13: squares of neighbouring channels."""
    node, x = operation.node, operation.operand(0)
    size = node.integer("size", 0)
    if x.rank < 3 or size < 1:
        raise node.damaged("size must be positive, and the operand a map")
    alpha, beta = node.real("alpha", 1e-4), node.real("beta", 0.75)
    bias, dtype = node.real("bias", 1.0), wide(x.dtype)
    rest = [0] * (x.rank - 2)
    padded = padded_copy(operation, x, [(size - 1) // 2, *rest], [size // 2, *rest])
    (tap,), axes = taps_of([size])

    def square(*i: Expr) -> Expr:
        value = padded[(i[0], i[1] + tap, *i[2:])].astype(dtype)
        return te.sum(value * value, axes)

    squares = operation.compute(x.shape, square, "squares")

    def formula(*i: Expr) -> Expr:
        base = squares[i] * (alpha / size) + bias
        return (x[i].astype(dtype) / _powered(base, beta)).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


def _powered(base: Expr, exponent: float) -> Expr:
    """``base ** exponent``: roots instead of a power for the exponents that networks have."""
    if exponent == 0.75:
        root = te.sqrt(base)
        return root * te.sqrt(root)
    if exponent == 0.5:
        return te.sqrt(base)
    return base if exponent == 1 else te.pow(base, exponent)


def _lp(operation: Operation) -> list[te.Tensor]:
    """LpNormalization-1, -22: 0 where the norm is 0."""
    node, x = operation.node, operation.operand(0)
    axis = normalized_axis(operation, node.integer("axis", -1), x.rank)
    p, dtype = node.integer("p", 2), wide(x.dtype)
    if p not in (1, 2):
        raise node.damaged(f"p must be 1 or 2, not {p}")

    def term(i: tuple[Expr, ...]) -> Expr:
        value = x[i].astype(dtype)
        return te.abs(value) if p == 1 else value * value

    total = over_axes(operation, x, (axis,), te.sum, term, name="sum")
    norm = Operand(
        operation.compute(
            total.shape, lambda *i: total[i] if p == 1 else te.sqrt(total[i]), "norm"
        ),
        total.shape,
    )

    def formula(*i: Expr) -> Expr:
        own = norm.broadcast(i)
        quotient = x[i].astype(dtype) / own
        return te.select(te.eq(own, 0.0), 0.0, quotient).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


def _mean_variance(operation: Operation) -> list[te.Tensor]:
    """MeanVarianceNormalization-9, -13: ``(x - mean) / (deviation + 1e-9)``."""
    node, x = operation.node, operation.operand(0)
    axes = normalized_axes(operation, node.integers("axes", None) or (0, 2, 3), x.rank)
    along = _along(x, axes)
    mean, factor = _moments(operation, *along, lambda variance: te.sqrt(variance) + 1e-9)
    dtype = wide(x.dtype)

    def formula(*i: Expr) -> Expr:
        at = tuple(IntImm(0) if dim in axes else index for dim, index in enumerate(i))
        return ((x[i].astype(dtype) - mean[at]) / factor[at]).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


LOWERINGS: Mapping[str, Lowering] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LRN": _local_response,
    "LayerNormalization": _layer,
    "LpNormalization": _lp,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms,
}
"""By operator."""
