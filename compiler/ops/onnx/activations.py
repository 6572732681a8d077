"""Activation functions. All of them are computed in float32 where the operand is float16.

Source: ONNX, operators of the same names.
"""

import math
from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operation
from daedal.compiler.ops.onnx.pointwise import apply, in_float32, pointwise, with_reals
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]


def _celu(x: Expr, alpha: float) -> Expr:
    return te.maximum(x, 0) + te.minimum((te.exp(x / alpha) - 1) * alpha, 0)


def _elu(x: Expr, alpha: float) -> Expr:
    return te.select(x > 0, x, (te.exp(x) - 1) * alpha)


def _gelu(x: Expr) -> Expr:
    return x * 0.5 * (te.erf(x * math.sqrt(0.5)) + 1)


def _gelu_by_tanh(x: Expr) -> Expr:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (te.tanh(inner) + 1)


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return te.clip(x * alpha + beta, 0, 1)


def _leaky(x: Expr, alpha: float) -> Expr:
    return te.select(x < 0, x * alpha, x)


def _parametric(x: Expr, slope: Expr) -> Expr:
    return te.select(x < 0, x * slope, x)


def _selu(x: Expr, alpha: float, gamma: float) -> Expr:
    return te.select(x > 0, x, te.exp(x) * alpha - alpha) * gamma


def _shrink(x: Expr, bias: float, lambd: float) -> Expr:
    """Integers are computed in float64, as the attributes need not be whole."""
    wide = x.astype("float64") if is_integer(x.dtype) else x
    low, high = wide < -lambd, wide > lambd
    return te.select(low, wide + bias, te.select(high, wide - bias, 0)).astype(x.dtype)


def _softplus(x: Expr) -> Expr:
    """The exponential of a negative number alone: nothing overflows."""
    return te.maximum(x, 0) + te.log(te.exp(-te.abs(x)) + 1)


def _lower_gelu(operation: Operation) -> list[te.Tensor]:
    approximate = operation.node.text("approximate", "none")
    formulas: dict[str, Callable[[Expr], Expr]] = {"none": _gelu, "tanh": _gelu_by_tanh}
    if approximate not in formulas:
        raise operation.node.damaged(f"approximate must be none or tanh, not {approximate!r}")
    return apply(operation, in_float32(formulas[approximate]), operation.operand(0))


LOWERINGS: Mapping[str, Lowering] = {
    "Celu": with_reals(in_float32(_celu), alpha=1.0),
    "Elu": with_reals(in_float32(_elu), alpha=1.0),
    "Gelu": _lower_gelu,
    "HardSigmoid": with_reals(in_float32(_hard_sigmoid), alpha=0.2, beta=0.5),
    "HardSwish": pointwise(1, in_float32(lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5))),
    "LeakyRelu": with_reals(in_float32(_leaky), alpha=0.01),
    "Mish": pointwise(1, in_float32(lambda x: x * te.tanh(_softplus(x)))),
    "PRelu": pointwise(2, _parametric),
    "Relu": pointwise(1, lambda x: te.maximum(x, 0)),
    "Selu": with_reals(
        in_float32(_selu),
        alpha=1.67326319217681884765625,
        gamma=1.05070102214813232421875,
    ),
    "Shrink": with_reals(in_float32(_shrink), bias=0.0, lambd=0.5),
    "Sigmoid": pointwise(1, te.sigmoid),
    "Softplus": pointwise(1, in_float32(_softplus)),
    "Softsign": pointwise(1, in_float32(lambda x: x / (te.abs(x) + 1))),
    "Swish": with_reals(in_float32(lambda x, alpha: x * te.sigmoid(x * alpha)), alpha=1.0),
    "Tanh": pointwise(1, te.tanh),
    "ThresholdedRelu": with_reals(lambda x, alpha: te.select(x > alpha, x, 0), alpha=1.0),
}
"""By operator. Source of the defaults: ONNX, the operators' attributes."""
