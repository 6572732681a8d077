"""The dtypes in which sums are formed, and the conversions before and after them."""

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Operand, Operation
from daedal.compiler.tir.dtype import limits
from daedal.compiler.tir.expr import Expr

__all__ = ["centered", "converted", "requantized", "wide"]

_WIDE = {
    "float16": "float32",
    **dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32"),
}


def wide(dtype: str) -> str:
    """The dtype in which elements of `dtype` are summed."""
    return _WIDE.get(dtype, dtype)


def converted(operation: Operation, tensor: te.Tensor, dtype: str) -> te.Tensor:
    """`tensor` in another dtype; itself where it has that."""
    if tensor.dtype == dtype:
        return tensor
    return operation.compute(tensor.shape, lambda *i: tensor[i].astype(dtype))


def centered(
    operation: Operation, x: Operand, zero_point: Operand | None, axis: int | None
) -> Operand:
    """8-bit integers minus their zero point, int16; `x` itself where that is absent or 0.

    Parameters
    ----------
    axis : the dimension that a zero point of rank 1 belongs to; None where it is one for all. A
        zero point of a higher rank broadcasts.
    """
    if zero_point is None:
        return x
    if zero_point.constant is not None and not zero_point.constant.any():
        return x

    def zero(i: tuple[Expr, ...]) -> Expr:
        if zero_point.rank == 1 and zero_point.shape != (1,):
            if axis is None:
                raise operation.node.refuse("the zero point must be one number", "quantize again")
            return zero_point[i[axis]]
        if zero_point.rank > 1:
            return zero_point.broadcast(i)
        return zero_point[(0,) * zero_point.rank]

    tensor = operation.compute(
        x.shape, lambda *i: x[i].astype("int16") - zero(i).astype("int16"), "centered"
    )
    return Operand(tensor, x.shape)


def requantized(acc: Expr, scale: Expr, zero_point: Expr | None, dtype: str) -> Expr:
    """``saturate(round(acc * scale) + zero_point)``, halves to even, formed in float64."""
    value = te.round(acc.astype("float64") * scale.astype("float64"))
    if zero_point is not None:
        value = value + zero_point.astype("float64")
    low, high = limits(dtype)
    return te.clip(value, low, high).astype(dtype)
