"""Operators that quantize and dequantize: per tensor, per axis and in blocks.

Source: ONNX, QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
"""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.casts import attribute_dtype
from daedal.compiler.ops.onnx.movement import normalized_axis
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.tir.dtype import is_integer, limits
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]

Read = Callable[[Operand, tuple[Expr, ...]], Expr]
"""The scale or zero point of the element at some indices."""


def _lower_quantize(operation: Operation) -> list[te.Tensor]:
    """``saturate(round(x / scale) + zero_point)``; halves to even; not-a-number becomes
    the lowest integer, as onnxruntime makes it.

    The division has the dtype of the scale, or that of the attribute `precision`.
    """
    x, scale, zero_point = operation.operand(0), operation.operand(1), operation.optional(2)
    operation.node.integer("saturate", 1)
    precision = attribute_dtype(operation, "precision", scale.dtype)
    dtype = attribute_dtype(operation, "output_dtype", zero_point.dtype if zero_point else "uint8")
    if zero_point is not None and zero_point.dtype != dtype:
        raise operation.node.damaged(f"output_dtype must be {zero_point.dtype}, not {dtype}")
    _check_integer(operation, dtype)
    read = _parameters(operation, x, scale)

    def quantize(*i: Expr) -> Expr:
        element = x[i[: x.rank]].astype(precision)
        steps = te.round(element / read(scale, i).astype(precision))
        offset = None if zero_point is None else read(zero_point, i)
        return _saturated(steps.astype("float32"), offset, dtype)

    return [operation.compute(x.shape, quantize)]


def _saturated(steps: Expr, zero_point: Expr | None, dtype: str) -> Expr:
    """``steps + zero_point`` as a narrow integer: the sum is exact inside, conversion saturates."""
    total = steps if zero_point is None else steps + zero_point.astype("float32")
    return total.astype(dtype)


def _lower_dequantize(operation: Operation) -> list[te.Tensor]:
    """``(x - zero_point) * scale``, in float32, as the dtype of the scale or `output_dtype`."""
    x, scale, zero_point = operation.operand(0), operation.operand(1), operation.optional(2)
    dtype = attribute_dtype(operation, "output_dtype", scale.dtype)
    read = _parameters(operation, x, scale)

    def dequantize(*i: Expr) -> Expr:
        steps = x[i[: x.rank]].astype("float32")
        if zero_point is not None:
            steps = steps - read(zero_point, i).astype("float32")
        return (steps * read(scale, i).astype("float32")).astype(dtype)

    return [operation.compute(x.shape, dequantize)]


def _check_integer(operation: Operation, dtype: str) -> None:
    if not is_integer(dtype) or limits(dtype)[1] > limits("uint16")[1]:
        raise operation.node.refuse(
            f"quantized elements must be 8- or 16-bit integers, not {dtype}", "it is interpreted"
        )


def _parameters(operation: Operation, x: Operand, scale: Operand) -> Read:
    """How scales and zero points are read: one for all, one per index of an axis, or blocks."""
    axis, block = operation.node.integer("axis", 1), operation.node.integer("block_size", 0)
    if scale.shape in ((), (1,)):
        return lambda parameter, _: parameter[(0,) * parameter.rank]
    axis = normalized_axis(operation, axis, x.rank)
    if block == 0 and scale.shape == (x.shape[axis],):
        return lambda parameter, i: parameter[i[axis]]
    blocked = list(x.shape)
    blocked[axis] = -(-x.shape[axis] // block) if block > 0 else 0
    if list(scale.shape) != blocked:
        raise operation.node.damaged(
            f"scales must be one, or one for each index of axis {axis}, or one for each block of "
            f"{block}, not {list(scale.shape)} of them for {list(x.shape)}"
        )
    return lambda parameter, i: parameter[(*i[:axis], i[axis] // block, *i[axis + 1 :])]


def _lower_dynamic(operation: Operation) -> list[te.Tensor]:
    """Scale and zero point that cover 0 and all elements, in uint8."""
    x = operation.operand(0)
    axes = [te.reduce_axis(extent, f"k{dim}") for dim, extent in enumerate(x.tensor.shape)]
    element = x.tensor[tuple(axes)]
    highest = operation.compute((), lambda _: te.max(element, axes), "highest")
    lowest = operation.compute((), lambda _: te.min(element, axes), "lowest")

    def span(_: Expr) -> Expr:
        width = te.maximum(highest[0], 0) - te.minimum(lowest[0], 0)
        return te.select(te.eq(width, 0), 1, width) / 255

    scale = operation.compute((), span, "scale")
    zero_point = operation.compute(
        (),
        lambda _: te.round(te.clip(0 - te.minimum(lowest[0], 0) / scale[0], 0, 255)).astype(
            "uint8"
        ),
        "zero_point",
    )
    quantized = operation.compute(
        x.shape,
        lambda *i: _saturated(te.round(x[i[: x.rank]] / scale[0]), zero_point[0], "uint8"),
    )
    return [quantized, scale, zero_point]


LOWERINGS: Mapping[str, Lowering] = {
    "DequantizeLinear": _lower_dequantize,
    "DynamicQuantizeLinear": _lower_dynamic,
    "QuantizeLinear": _lower_quantize,
}
"""By operator."""
