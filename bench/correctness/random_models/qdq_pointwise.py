"""Elementwise operators for random quantized graphs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.correctness.random_models.net import Value
from bench.correctness.random_models.qdq_net import QdqNet

__all__ = ["POINTWISE"]

FUNCTIONS: Mapping[str, Mapping[str, float]] = {
    "Relu": {},
    "LeakyRelu": {"alpha": 0.1},
    "Sigmoid": {},
    "Tanh": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Elu": {"alpha": 1.0},
    "Selu": {},
    "Softplus": {},
    "Softsign": {},
    "Erf": {},
    "Exp": {},
    "Abs": {},
    "Neg": {},
    "Floor": {},
    "Round": {},
    "Sign": {},
    "Sqrt": {},
    "Reciprocal": {},
    "Sin": {},
    "HardSwish": {},
    "Mish": {},
    "Gelu": {},
}
SINCE = {"HardSwish": 14, "Mish": 18, "Gelu": 20}


def function(net: QdqNet) -> None:
    """One of a tensor, or two in a row with or without a scale in between."""
    y = net.end()
    for _ in range(net.one_of((1, 1, 2, 3))):
        name = net.one_of(list(FUNCTIONS))
        net.require(net.opset >= SINCE.get(name, 1))
        y = net.op(name, [y], **FUNCTIONS[name])[0]
        if net.chance(0.5):
            y = net.quantized(y)
    if y not in net.ends:
        net.quantized(y)


def gate(net: QdqNet) -> None:
    """A tensor times a function of it, or of a pool of it."""
    x = net.end()
    if net.chance(0.4) and x.rank == 4:
        pooled = net.one("GlobalAveragePool", x)
        factor = net.quantized(net.one("Sigmoid", net.quantized(pooled)))
    else:
        factor = net.one(net.one_of(("Sigmoid", "HardSigmoid", "Tanh")), x)
        factor = net.quantized(factor) if net.chance() else factor
    net.quantized(net.one("Mul", *((x, factor) if net.chance() else (factor, x))))


def binary(net: QdqNet) -> None:
    """Of two tensors, of equal shapes or with one that is broadcast, a bound perhaps behind."""
    x = net.end()
    y = net.partner(x, broadcast=True)
    kind = net.one_of(("Add", "Add", "Add", "Sub", "Mul", "Mul", "Max", "Min", "Sum"))
    z = net.one(kind, *((x, y) if net.chance() else (y, x)))
    if net.chance(0.3):
        z = net.one("Relu", z)
    net.quantized(z)


def by_number(net: QdqNet) -> None:
    """By a constant number, or one of each channel; sometimes a row of them."""
    x = net.end()
    y = x
    for _ in range(net.one_of((1, 1, 2, 3))):
        kind = net.one_of(("Add", "Sub", "Mul", "Mul", "Div", "Pow", "Max", "Min"))
        other: Value = net.number(-2, 2) if kind not in ("Div", "Pow") else net.number(0.1, 3)
        if kind == "Pow":
            other = net.constant(np.float32(2))
        elif net.chance(0.3) and x.rank >= 2:
            shape = [x.shape[1], *[1] * (x.rank - 2)] if net.chance() else [x.shape[-1]]
            other = net.constant((net.normal(shape, 0.5) + 1.5).astype(np.float32))
            other = net.fake_constant(other) if net.chance() else other
        first = kind in ("Add", "Mul", "Sub", "Max", "Min") and net.chance(0.3)
        y = net.one(kind, *((other, y) if first else (y, other)))
        if net.chance(0.3):
            y = net.quantized(y)
    if y not in net.ends:
        net.quantized(y)


def bounds(net: QdqNet) -> None:
    x = net.end()
    low, high = sorted((net.real(-1.5, 1.5), net.real(-1.5, 1.5)))
    kind = net.integer(0, 3)
    operands: list[Value | None] = [x]
    if kind != 1:
        operands.append(net.constant(np.float32(low)))
    elif net.opset >= 11:
        operands.append(None)
    if kind != 2:
        operands.append(net.constant(np.float32(high)))
    net.quantized(net.op("Clip", operands)[0], x if net.chance(0.3) else None)


def prelu(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank >= 3)
    slope = net.constant(np.abs(net.normal((x.shape[1], *[1] * (x.rank - 2)), 0.3)))
    net.quantized(net.one("PRelu", x, slope))


def rescaled(net: QdqNet) -> None:
    """Other scales, one after the other, and sometimes another type."""
    y = net.end()
    for _ in range(net.integer(1, 3)):
        y = net.quantized(y)


def choice(net: QdqNet) -> None:
    """Where one tensor is larger than another, or than a number."""
    x = net.end()
    y = net.partner(x)
    bound = net.number(-0.5, 0.5) if net.chance() else y
    net.require(bound is not x)
    net.quantized(net.one("Where", net.one("Greater", x, bound), x, y))


def identity(net: QdqNet) -> None:
    kind: Any = net.one_of(("Identity", "Dropout", "Cast"))
    y = net.op(kind, [net.end()], to=1 if kind == "Cast" else None)[0]
    net.ends.append(y)
    if net.chance():
        net.quantized(y)


POINTWISE: Mapping[Callable[[QdqNet], None], int] = {
    function: 5,
    gate: 2,
    binary: 6,
    by_number: 4,
    bounds: 2,
    prelu: 1,
    rescaled: 2,
    choice: 1,
    identity: 1,
}
"""By how often they are drawn."""
