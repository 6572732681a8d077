"""The activation functions that recurrent operators name.

Source: ONNX, LSTM-22, "Activation functions", and the operators of the same names for the default
parameters.
"""

from collections.abc import Callable, Iterator, Mapping

from daedal.compiler import te
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.tir.expr import Expr

__all__ = ["Activation", "activations_of"]

Activation = Callable[[Expr], Expr]


def _elu(x: Expr, alpha: float) -> Expr:
    return te.select(x >= 0.0, x, alpha * (te.exp(te.minimum(x, 0.0)) - 1.0))


def _softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))``; the exponent is never positive."""
    return te.maximum(x, 0.0) + te.log(te.exp(-te.abs(x)) + 1.0)


_PLAIN: Mapping[str, Activation] = {
    "relu": lambda x: te.maximum(x, 0.0),
    "sigmoid": te.sigmoid,
    "softplus": _softplus,
    "softsign": lambda x: x / (te.abs(x) + 1.0),
    "tanh": te.tanh,
}

_ALPHA: Mapping[str, tuple[float, Callable[[Expr, float], Expr]]] = {
    "elu": (1.0, _elu),
    "leakyrelu": (0.01, lambda x, alpha: te.select(x >= 0.0, x, alpha * x)),
    "thresholdedrelu": (1.0, lambda x, alpha: te.select(x > alpha, x, 0.0)),
}
"""With the default of alpha."""

_BOTH: Mapping[str, tuple[float, float, Callable[[Expr, float, float], Expr]]] = {
    "affine": (1.0, 0.0, lambda x, alpha, beta: alpha * x + beta),
    "hardsigmoid": (
        0.2,
        0.5,
        lambda x, alpha, beta: te.clip(alpha * x + beta, 0.0, 1.0),
    ),
    "scaledtanh": (1.0, 1.0, lambda x, alpha, beta: alpha * te.tanh(beta * x)),
}
"""With the defaults of alpha and beta."""


def activations_of(node: OnnxNode, defaults: tuple[str, ...]) -> tuple[Activation, ...]:
    """The functions that `activations`, `activation_alpha` and `activation_beta` describe.

    A function takes the next alpha, and the next beta, if it has such a parameter.

    Raises UnsupportedError for unknown functions, ModelError for another number of them.
    """
    names = node.texts("activations") or defaults
    if len(names) != len(defaults):
        raise node.damaged(f"activations must be {len(defaults)}, not {len(names)}")
    alphas = iter(node.reals("activation_alpha") or ())
    betas = iter(node.reals("activation_beta") or ())
    return tuple(_activation(node, name, alphas, betas) for name in names)


def _activation(
    node: OnnxNode, name: str, alphas: Iterator[float], betas: Iterator[float]
) -> Activation:
    key = name.lower()
    if key in _PLAIN:
        return _PLAIN[key]
    if key in _ALPHA:
        default, function = _ALPHA[key]
        alpha = next(alphas, default)
        return lambda x: function(x, alpha)
    if key in _BOTH:
        first, second, scaled = _BOTH[key]
        alpha, beta = next(alphas, first), next(betas, second)
        return lambda x: scaled(x, alpha, beta)
    raise node.refuse(f"activation {name!r} is not known", "export the model with another one")
