"""Operators that convert the type of each element.

Floats become integers by truncation; what an integer type does not hold is undefined in ONNX, and
saturates here, and not-a-number becomes 0. Everything but 0 becomes true.

Source: ONNX, Cast and CastLike.
"""

from collections.abc import Mapping

from onnx import helper

from daedal.compiler import te
from daedal.compiler.frontend.node import element_type_name
from daedal.compiler.ops.onnx.operation import Lowering, Operation
from daedal.compiler.ops.onnx.pointwise import apply
from daedal.compiler.tir.dtype import DTYPES, is_float, is_integer
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS", "attribute_dtype", "converted"]


def converted(x: Expr, dtype: str) -> Expr:
    """`x` as `dtype`, which may be bool."""
    if dtype == "bool" and x.dtype != "bool":
        return te.ne(x, 0)
    if is_float(x.dtype) and is_integer(dtype):
        x = te.number_or(x, 0)
    return x.astype(dtype)


def attribute_dtype(operation: Operation, name: str, default: str) -> str:
    """The dtype that an attribute names by its number in TensorProto.DataType; 0: `default`.

    Raises UnsupportedError for a type that expressions do not have.
    """
    kind = operation.node.integer(name, 0)
    if kind == 0:
        return default
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind).name
    except KeyError as error:
        raise operation.node.damaged(f"{name} must be an element type, not {kind}") from error
    if dtype not in DTYPES:
        raise operation.node.refuse(
            f"{name} must be one of {', '.join(DTYPES)}, not {element_type_name(kind)}",
            "it is interpreted",
        )
    return dtype


def _lower_cast(operation: Operation) -> list[te.Tensor]:
    _skip_rounding(operation)
    dtype = attribute_dtype(operation, "to", "")
    if not dtype:
        raise operation.node.damaged("to must be given")
    return apply(operation, lambda x: converted(x, dtype), operation.operand(0))


def _lower_cast_like(operation: Operation) -> list[te.Tensor]:
    _skip_rounding(operation)
    dtype = operation.operand(1).dtype
    return apply(operation, lambda x: converted(x, dtype), operation.operand(0))


def _skip_rounding(operation: Operation) -> None:
    """Attributes that matter to float8 alone."""
    operation.node.integer("saturate", 1)
    operation.node.text("round_mode", "up")


LOWERINGS: Mapping[str, Lowering] = {"Cast": _lower_cast, "CastLike": _lower_cast_like}
"""By operator."""
