"""Elementwise operators, activations and reductions for random graphs."""

from collections.abc import Callable, Mapping

import numpy as np

from bench.correctness.random_models.net import Net, Value

__all__ = ["POINTWISE"]

_SMOOTH = ("Sigmoid", "Tanh", "Sin", "Cos", "Erf", "Atan", "Softplus", "Softsign", "Exp", "Sinh")
_WITH_ALPHA = ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu")
_PLAIN = ("Relu", "Abs", "Neg", "HardSwish", "Selu", "Mish", "Identity")


def activation(net: Net) -> None:
    x = net.pick()
    kind = net.one_of((*_SMOOTH, *_WITH_ALPHA, *_PLAIN, *_PLAIN, "HardSigmoid", "Gelu", "Clip"))
    if kind in ("Relu", "Abs", "Neg", "Identity"):
        net.like(kind, x)
    elif kind == "ThresholdedRelu":
        net.require(x.exact)
        net.like(kind, x, alpha=net.real(0.3, 1.2))
    elif kind in _WITH_ALPHA:
        net.one(kind, x, alpha=net.real(0.1, 1.5))
    elif kind == "HardSigmoid":
        net.one(kind, x, alpha=0.3, beta=0.4)
    elif kind == "Mish":
        net.require(net.opset >= 18)
        net.one(kind, x)
    elif kind == "Gelu":
        net.require(net.opset >= 20)
        net.one(kind, x, approximate=net.one_of(("none", "tanh")))
    elif kind == "Clip":
        low = net.constant(np.float32(-0.5)) if net.chance() else None
        net.one(kind, x, low, net.constant(np.float32(0.75)), exact=x.exact)
    else:
        net.one(kind, x)


def silu(net: Net) -> None:
    """x * sigmoid(x), or GELU as exporters write them."""
    x = net.pick()
    if net.chance(0.6):
        net.one("Mul", x, net.one("Sigmoid", x))
        return
    y = net.one("Erf", net.one("Div", x, net.constant(np.float32(2**0.5))))
    y = net.one("Mul", x, net.one("Add", y, net.constant(np.float32(1))))
    net.one("Mul", y, net.constant(np.float32(0.5)))


def guarded(net: Net) -> None:
    """Operators that need operands away from 0."""
    x = net.pick()
    y = net.one("Add", net.like("Abs", x)[0], net.constant(np.float32(0.5), 0.5))
    kind = net.one_of(("Sqrt", "Log", "Reciprocal", "Pow", "Div", "PowInt"))
    if kind == "Pow":
        net.one("Pow", y, net.constant(np.float32(net.one_of((0.5, 1.5, -1, 2, 3)))))
    elif kind == "PowInt":
        net.one("Pow", x, net.constant(np.float32(net.one_of((2, 3)))))
    elif kind == "Div":
        net.one("Div", x, y)
    else:
        net.one(kind, y)


def rounding(net: Net) -> None:
    x = net.pick(lambda value: value.exact)
    net.one(net.one_of(("Floor", "Ceil", "Round", "Sign")), x, step=1.0)


def _other(net: Net, x: Value) -> Value:
    """A tensor to combine with `x`: a residual one, or a constant of a shape that broadcasts."""
    if net.chance(0.6):
        found = [
            value for value in net.values if value.is_float and _broadcasts(value.shape, x.shape)
        ]
        if found:
            return net.one_of(found)
    shape = [net.one_of((extent, extent, 1)) for extent in x.shape]
    shape = shape[net.integer(0, len(shape)) if net.chance(0.4) else 0 :]
    if net.chance(0.2):
        return net.constant(np.float32(net.real(0.3, 2)))
    return net.weight(shape, 1)


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(one, other) in (one, other)
    except ValueError:
        return False


def binary(net: Net) -> None:
    x = net.pick()
    y = _other(net, x)
    kind = net.one_of(("Add", "Add", "Add", "Sub", "Mul", "Mul", "Min", "Max", "Mean", "Sum"))
    operands = [x, y] if net.chance(0.7) else [y, x]
    if kind in ("Min", "Max"):
        net.one(kind, *operands, exact=x.exact and y.exact)
    elif kind in ("Add", "Sub"):
        net.one(kind, *operands, step=net.added_step(x, y))
    elif kind == "Mul":
        net.one(kind, *operands, step=net.sum_step(x, y, 1))
    else:
        net.one(kind, *operands, *([_other(net, x)] if net.chance(0.3) else []))


def residual(net: Net) -> None:
    """The sum of two computed tensors of one shape."""
    x = net.pick()
    same = [
        value
        for value in net.values
        if value.shape == x.shape and value.is_float and value.name != x.name
    ]
    net.require(bool(same))
    y = net.one_of(same)
    net.one("Add", x, y, step=net.added_step(x, y))


def prelu(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 2)
    shape = (x.shape[1], *([1] * (x.rank - 2)))
    net.one("PRelu", x, net.constant(net.rng.uniform(0.1, 0.9, shape).astype(np.float32)))


def compare(net: Net) -> None:
    x = net.pick(lambda value: value.exact)
    limit = net.constant(np.float32(net.real(-0.5, 0.5)))
    kind = net.one_of(("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"))
    mask = net.one(kind, x, limit, exact=True)
    if net.chance(0.4):
        other = net.one("Greater", x, net.constant(np.float32(0.1)), exact=True)
        mask = net.one(net.one_of(("And", "Or", "Xor")), mask, other, exact=True)
    if net.chance(0.3):
        mask = net.one("Not", mask, exact=True)
    if net.chance(0.2):
        net.one("Cast", mask, to=1, step=1.0)
    other = net.constant(np.float32(net.real(-1, 1))) if net.chance() else _other(net, x)
    net.one("Where", mask, x, other, exact=x.exact and other.exact)


def reduction(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 1)
    kind = net.one_of(
        ("Mean", "Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod")
    )
    axes = [axis for axis in range(x.rank) if net.chance()] or [net.integer(0, x.rank - 1)]
    axes = [axis - x.rank if net.chance(0.3) else axis for axis in axes]
    net.require(kind != "Prod" or np.prod([x.shape[axis] for axis in axes]) <= 8)
    keep = net.integer(0, 1)
    exact = x.exact and kind in ("Max", "Min")
    if net.chance(0.1):
        net.one(f"Reduce{kind}", x, keepdims=keep)
    elif net.opset >= 18 or kind == "Sum":
        net.one(f"Reduce{kind}", x, net.ints(*axes), keepdims=keep, exact=exact)
    else:
        net.one(f"Reduce{kind}", x, axes=axes, keepdims=keep, exact=exact)


def searching(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 1)
    axis = net.integer(-x.rank, x.rank - 1)
    kind = net.one_of(("ArgMax", "ArgMin", "TopK", "CumSum", "Hardmax"))
    if kind == "CumSum":
        at = net.constant(np.array(axis, np.int64))
        net.one(kind, x, at, exclusive=net.integer(0, 1), reverse=net.integer(0, 1))
    elif kind == "TopK":
        net.require(x.exact)
        count = net.ints(net.integer(1, x.shape[axis]))
        largest = net.integer(0, 1)
        net.op(kind, [x, count], outputs=2, axis=axis, largest=largest, exact=True)
    elif kind == "Hardmax":
        net.require(x.exact)
        net.one(kind, x, axis=axis, step=1.0)
    else:
        net.require(x.exact)
        found = net.one(kind, x, axis=axis, keepdims=net.integer(0, 1), exact=True)
        if net.chance():
            net.one("Cast", found, to=1, step=1.0)


def _integer_division(net: Net, y: Value) -> Value:
    """Division of what is not negative, or a remainder with either operand's sign."""
    kind = net.one_of(("", "Div", "Mod", "fmod"))
    if not kind:
        return y
    divisor = net.constant(np.array(net.one_of((2, 3, 7)), y.array.dtype))
    if kind == "Div":
        y = net.one("Abs", y, exact=True)
        return net.one("Div", y, divisor, exact=True)
    return net.one("Mod", y, divisor, fmod=int(kind == "fmod"), exact=True)


def casts(net: Net) -> None:
    """To integers and back; the elements of exact tensors are rounded to zero."""
    x = net.pick(lambda value: value.exact)
    kind = net.one_of((6, 7, 9, 11, 3))
    y = net.one("Cast", x, to=kind, exact=True)
    if kind in (6, 7):
        y = net.one(net.one_of(("Add", "Mul", "Sub")), y, y, exact=True)
        y = _integer_division(net, y)
    net.one("Cast", y, to=1, exact=True, step=1.0 if kind != 11 else None)


POINTWISE: Mapping[Callable[[Net], None], int] = {
    activation: 8,
    silu: 2,
    guarded: 3,
    rounding: 1,
    binary: 7,
    residual: 4,
    prelu: 1,
    compare: 2,
    reduction: 4,
    searching: 2,
    casts: 1,
}
"""By how often they are drawn."""
